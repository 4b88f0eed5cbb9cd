"""What a variable's name says: whether it may travel to the ranks, and whether it is a secret.

The tables are by name alone, because a value may be anything; `environment` decides with them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "DEVICE_PATTERNS",
    "MAX_RESTARTS_VARIABLE",
    "PASSED_NAMES",
    "PASSED_PREFIXES",
    "PATH_NAMES",
    "POD_PATTERNS",
    "RESOURCE_MANAGER_PATTERNS",
    "RESOURCE_MANAGER_PREFIXES",
    "RESTART_COUNT_VARIABLE",
    "RUN_ID_VARIABLE",
    "WORKER_CALL_VARIABLE",
    "Fitting",
    "is_never_passed",
    "is_secret",
    "is_variable_name",
    "matches_any",
    "reason_to_refuse",
    "reason_to_stay",
    "variables_that_fit",
]

RUN_ID_VARIABLE = "MPI_AGENT_RUN_ID"
"""By which a worker knows the processes of one run: mpirun's ssh sends it, sshd accepts it alone,
and daemons and ranks inherit it.
"""

RESTART_COUNT_VARIABLE = "MPI_AGENT_RESTART_COUNT"
MAX_RESTARTS_VARIABLE = "MPI_AGENT_MAX_RESTARTS"
"""For the program: how often it was begun before, and how often the agent would begin it again."""

WORKER_CALL_VARIABLE = "MPI_AGENT_WORKER_CALL"
"""In every session on a worker: the program through which the worker's agent is asked something."""

PASSED_NAMES = frozenset(
    "PYTHONPATH PYTHONUNBUFFERED VIRTUAL_ENV CONDA_PREFIX TZ LANG LC_ALL HF_HOME XDG_CACHE_HOME"
    " TOKENIZERS_PARALLELISM WANDB_MODE MASTER_ADDR MASTER_PORT WORLD_SIZE".split()
)
PASSED_PREFIXES = tuple(
    "NCCL_ UCX_ UCC_ FI_ RDMAV_ MLX5_ SHARP_ HCOLL_ HOROVOD_ DS_ DEEPSPEED_ TORCH_ PYTORCH_ CUDA_"
    " HIP_ ROCM_ HSA_ RCCL_ OMP_ KMP_ MKL_ OPENBLAS_ MLFLOW_ AZUREML_ SM_ XLA_ JAX_ TF_ MPI4PY_"
    " HABANA_ ASCEND_ HCCL_ GLOO_ I_MPI_ MPIR_CVAR_ MPICH_".split()
)
RESOURCE_MANAGER_PREFIXES = tuple(
    "SLURM_ PBS_ LSB_ LSF_ SGE_ PE_HOSTFILE COBALT_ LOADL_ FLUX_".split()
)
"""Of Slurm, PBS, LSF, Grid Engine, Cobalt, LoadLeveler and Flux: a launcher that finds one of them
takes the hosts from that manager.
"""
RESOURCE_MANAGER_PATTERNS = tuple(f"{prefix}*" for prefix in RESOURCE_MANAGER_PREFIXES)
PATH_NAMES = ("PATH", "LD_LIBRARY_PATH")
"""Travel only to workers that do not run the agent; those that do keep their own."""

POD_PATTERNS = tuple(
    "HOSTNAME K_MPI_JOB_ROLE JOB_COMPLETION_INDEX VC_TASK_INDEX VK_TASK_INDEX NODE_NAME POD_IP"
    " POD_NAME".split()
)
"""Of variables that name one pod."""

DEVICE_PATTERNS = ("*_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
"""Of variables that tell the devices of one pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Names that stay with the launcher.

    Attributes:
        is_refused: not even the user can send them, because they would be replaced or break.
    """

    patterns: tuple[str, ...]
    reason: str
    is_refused: bool = False


def _stays(patterns: str, reason: str) -> _Rule:
    return _Rule(patterns=tuple(patterns.split()), reason=reason)


def _is_refused(patterns: str, reason: str) -> _Rule:
    return _Rule(patterns=tuple(patterns.split()), reason=reason, is_refused=True)


_RULES: tuple[_Rule, ...] = (
    _is_refused("MPI_AGENT_*", "mpi-agent's own"),
    _is_refused("PRTE_MCA_*", "an MCA parameter of mpirun alone"),
    _stays("PMIX_MCA_*", "a parameter of PMIx, which mpirun would read too"),
    _stays("OMPI_MCA_*", "an MCA parameter; mpirun carries those that it knows by itself"),
    _is_refused("OMPI_COMM_WORLD_* PMIX_* PMI_*", "set anew by the launcher for each rank"),
    _is_refused("PRTE_* HYDRA_*", "of mpirun itself, which would take it for its own"),
    _stays("I_MPI_HYDRA_* I_MPI_PERHOST MPIEXEC_*", "of mpirun itself"),
    _is_refused(
        " ".join(RESOURCE_MANAGER_PATTERNS),
        "of a resource manager, through which mpirun would then start the job",
    ),
    _stays(" ".join(POD_PATTERNS), "names this pod alone"),
    _stays(
        "HOME USER LOGNAME SHELL PWD OLDPWD SHLVL _ TERM IFS TMPDIR BASH_FUNC_*",
        "of this account or shell; each worker has its own",
    ),
    _stays("SSH_*", "of this ssh session alone"),
    _stays(
        " ".join(DEVICE_PATTERNS),
        "tells the devices of this pod alone; operators empty it on the launcher",
    ),
    _stays(
        "KUBERNETES_* *_SERVICE_HOST *_SERVICE_PORT* *_PORT_[0-9]*_TCP* *_PORT_[0-9]*_UDP* *_PORT",
        "looks like what Kubernetes tells each pod of a Service",
    ),
)
"""First match counts.

Source: measured 2026-11: Open MPI 4.1.4 and 5.0.11 replace OMPI_COMM_WORLD_*, PMIX_* and PWD even
where -x names them, and carry the OMPI_MCA_* that they know; PRTE_* and SLURM_* change what
mpirun does. mpi-operator empties NVIDIA_* and CUDA_VISIBLE_DEVICES on the launcher.
"""

_SECRETS = tuple(
    "*TOKEN *SECRET* *PASSWORD* *PASSWD* *PASSPHRASE* *_PASS *_PWD *_KEY *APIKEY *ACCESS_KEY*"
    " *PRIVATE_KEY* *CREDENTIAL* *_PAT *CONNECTION_STRING *_SAS".split()
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_variable_name(name: str) -> bool:
    """Return whether a name is one that shells, `-x` and `-genvlist` can carry."""
    return _NAME.fullmatch(name) is not None


def is_secret(name: str) -> bool:
    """Return whether the value of a variable may never be shown, as far as its name tells."""
    return matches_any(name.upper(), _SECRETS)


def is_never_passed(name: str) -> bool:
    """Return whether a variable belongs to one pod, one session or one launcher alone."""
    return reason_to_stay(name) is not None


def reason_to_stay(name: str) -> str | None:
    """Return why a variable stays unless the user sends it; None when no rule keeps it."""
    rule = _rule_for(name)
    return None if rule is None else rule.reason


def reason_to_refuse(name: str) -> str | None:
    """Return why not even the user can send a variable; None when that is possible."""
    rule = _rule_for(name)
    return rule.reason if rule is not None and rule.is_refused else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """The variables that a pattern fits, sorted.

    Attributes:
        left_out: those that may not travel.
    """

    names: tuple[str, ...]
    left_out: tuple[str, ...]


def variables_that_fit(pattern: str, environ: Mapping[str, str]) -> Fitting:
    """Return the variables that are set for a pattern such as `LAB_*`.

    Left out is what a launcher replaces; for a lone `*`, which asks for none by its name, also
    whatever usually stays.
    """
    reason_against = reason_to_stay if pattern == "*" else reason_to_refuse
    fits = sorted(n for n in environ if matches_any(n, (pattern,)) and is_variable_name(n))
    left_out = tuple(name for name in fits if reason_against(name) is not None)
    return Fitting(names=tuple(n for n in fits if n not in left_out), left_out=left_out)


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name is one of the names, or fits one of the patterns with `*`."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _rule_for(name: str) -> _Rule | None:
    if name in PASSED_NAMES:
        return None
    return next((rule for rule in _RULES if matches_any(name, rule.patterns)), None)
