"""Which variables travel, and why each does or does not; both sides use it.

Two ways lead to a rank. The launcher's job-wide variables go with `mpirun -x NAME`, by name only,
so that no value is ever in an argv. A worker's own container variables (paths, network card,
node) reach its ranks through its ssh server. What names one pod must take neither way.

Source: measured with Open MPI 4.1.4 and 5.0.11, 2026-11: a rank sees the ssh session's
environment, the names given with -x, and known MCA parameters; nothing else of either pod.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Passage", "RankEnvironment", "is_never_passed", "rank_environment", "session_variables"]

PASSED_NAMES = frozenset(
    "PYTHONPATH PYTHONUNBUFFERED VIRTUAL_ENV CONDA_PREFIX TZ LANG LC_ALL HF_HOME XDG_CACHE_HOME"
    " TOKENIZERS_PARALLELISM WANDB_MODE MASTER_ADDR MASTER_PORT WORLD_SIZE".split()
)
PASSED_PREFIXES = tuple(
    "NCCL_ UCX_ UCC_ FI_ RDMAV_ MLX5_ SHARP_ HCOLL_ HOROVOD_ DS_ DEEPSPEED_ TORCH_ PYTORCH_ CUDA_"
    " HIP_ ROCM_ HSA_ RCCL_ OMP_ KMP_ MKL_ OPENBLAS_ MLFLOW_ AZUREML_ SM_ XLA_ JAX_ TF_ MPI4PY_"
    " HABANA_ ASCEND_ HCCL_ GLOO_".split()
)
PATH_NAMES = ("PATH", "LD_LIBRARY_PATH")
"""Travel only to workers that do not run the agent; those that do keep their own."""

NEVER_NAMES = frozenset(
    "HOSTNAME HOME USER LOGNAME SHELL PWD OLDPWD SHLVL _ TERM IFS TMPDIR K_MPI_JOB_ROLE"
    " JOB_COMPLETION_INDEX VC_TASK_INDEX VK_TASK_INDEX NODE_NAME POD_IP POD_NAME"
    " NVIDIA_DRIVER_CAPABILITIES".split()
)
NEVER_PATTERNS = tuple(
    "BASH_FUNC_* SSH_* *_VISIBLE_DEVICES KUBERNETES_* *_SERVICE_HOST *_SERVICE_PORT*"
    " *_PORT_[0-9]*_TCP* *_PORT_[0-9]*_UDP* *_PORT OMPI_COMM_WORLD_* PMIX_* PMI_* PRTE_* HYDRA_*"
    " SLURM_* PBS_* LSB_* MPI_AGENT_*".split()
)
_FROM_THE_POD = tuple(
    "OMPI_COMM_WORLD_* PMIX_* PMI_* PRTE_* HYDRA_* SLURM_* PBS_* LSB_* MPI_AGENT_* SSH_*"
    " BASH_FUNC_*".split()
)
_SESSION_OWN = frozenset(
    "HOME USER LOGNAME SHELL PWD OLDPWD SHLVL _ TERM IFS HOSTNAME K_MPI_JOB_ROLE".split()
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SESSION_LIMIT_COUNT, _SESSION_LIMIT_BYTES = 900, 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One variable of the launcher, whether it travels, and why."""

    name: str
    travels: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnvironment:
    """What the launcher hands to the ranks.

    Attributes:
        passages: one per variable that was looked at, sorted by name.
        extra: variables whose value the user gave on the agent's command line.
    """

    passages: tuple[Passage, ...]
    extra: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names for `-x`, sorted."""
        return tuple(p.name for p in self.passages if p.travels)


def is_never_passed(name: str) -> bool:
    """Return whether a variable belongs to one pod, one session or one launcher alone."""
    return name in NEVER_NAMES or any(fnmatch.fnmatchcase(name, p) for p in NEVER_PATTERNS)


def rank_environment(
    environ: Mapping[str, str],
    *,
    wanted: tuple[str, ...] = (),
    unwanted: tuple[str, ...] = (),
    workers_run_agent: bool = True,
) -> RankEnvironment:
    """Return what travels from the launcher to the ranks.

    Args:
        wanted: `NAME` or `NAME=VALUE`, as given with --env; wins over every list.
        unwanted: names given with --no-env.

    Raises:
        ValueError: an item of `wanted` has no valid name, or names a variable that is not set.
    """
    extra = tuple(_split_assignment(item) for item in wanted if "=" in item)
    asked = {name for name, _ in extra} | {item for item in wanted if "=" not in item}
    for name in sorted(asked):
        if not _NAME.fullmatch(name):
            raise ValueError(f'"{name}" is no name of a variable')
        if name not in environ and name not in dict(extra):
            raise ValueError(f"variable {name} is not set here")
    names = sorted(set(environ) | asked)
    passages = (
        _decide(name, asked=asked, unwanted=unwanted, workers_run_agent=workers_run_agent)
        for name in names
    )
    return RankEnvironment(passages=tuple(passages), extra=extra)


def _split_assignment(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return name, value


def _decide(
    name: str, *, asked: set[str], unwanted: tuple[str, ...], workers_run_agent: bool
) -> Passage:
    if name in asked:
        return Passage(name=name, travels=True, reason="asked for with --env")
    if name in unwanted:
        return Passage(name=name, travels=False, reason="kept back with --no-env")
    if not _NAME.fullmatch(name):
        return Passage(name=name, travels=False, reason="not a name that -x can carry")
    if name in PASSED_NAMES:
        return Passage(name=name, travels=True, reason="on the allow list")
    if is_never_passed(name):
        return Passage(name=name, travels=False, reason="belongs to this pod alone")
    if name in PATH_NAMES:
        reason = "the workers' own counts" if workers_run_agent else "workers run no agent"
        return Passage(name=name, travels=not workers_run_agent, reason=reason)
    for prefix in PASSED_PREFIXES:
        if name.startswith(prefix):
            return Passage(name=name, travels=True, reason=f"prefix {prefix}")
    return Passage(name=name, travels=False, reason="not on the allow list; --env takes it along")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVariables:
    """What a worker's ssh server gives to each session, and what it could not take."""

    variables: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]


def session_variables(environ: Mapping[str, str]) -> SessionVariables:
    """Return the worker's container variables for its ssh sessions, sorted by name.

    A value with a line break cannot stand in sshd_config; such variables are named in `left_out`,
    and so is what passes the limits of sshd's SetEnv.

    Source: OpenSSH 9.2: SetEnv takes under 1,000 variables and a configuration of under 256 KB,
    which `sshd -t` does not check (measured 2026-11).
    """
    kept: list[tuple[str, str]] = []
    left_out: list[str] = []
    size_bytes = 0
    for name in sorted(environ):
        value = environ[name]
        if name in _SESSION_OWN or any(fnmatch.fnmatchcase(name, p) for p in _FROM_THE_POD):
            continue
        size_bytes += len(name) + len(value.encode("utf-8", "surrogateescape")) + 8
        if not _NAME.fullmatch(name):
            left_out.append(f"{name}: not a name that a shell can use")
        elif "\n" in value or "\r" in value or "\0" in value:
            left_out.append(f"{name}: its value has a line break")
        elif len(kept) >= _SESSION_LIMIT_COUNT or size_bytes > _SESSION_LIMIT_BYTES:
            left_out.append(f"{name}: more than sshd's SetEnv can carry")
        else:
            kept.append((name, value))
    return SessionVariables(variables=tuple(kept), left_out=tuple(left_out))
