"""Which variables the launcher is started with, and which of those it finds are the user's own."""

from __future__ import annotations

from collections.abc import Mapping

from mpi_agent.command.defaults import INJECTED_BY_OPERATORS
from mpi_agent.command.dialects import Dialect, Knob
from mpi_agent.command.plan import LaunchRequest, PlannedVariable, RemovedVariable
from mpi_agent.environment import interface_variables, is_secret
from mpi_agent.job.hosts import HostList
from mpi_agent.variable_names import (
    MAX_RESTARTS_VARIABLE,
    RESOURCE_MANAGER_PREFIXES,
    RESTART_COUNT_VARIABLE,
    RUN_ID_VARIABLE,
)

__all__ = [
    "HOSTFILE_VARIABLES",
    "PLAIN_SHELL",
    "is_users_own",
    "moved_variables",
    "program_variables",
    "removed_variables",
    "users_own",
]

HOSTFILE_VARIABLES = (
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
)
"""By which launchers are told their hostfile; also by operators, then always the same one."""

PLAIN_SHELL = PlannedVariable(
    name="SHELL",
    value="/bin/sh",
    reason="ssh runs in it what leaves our marks, and the account's own may run nothing",
    stays_here=True,
)
"""Source: OpenSSH 9.2, ssh_local_cmd in sshconnect.c; Open MPI 4.1.4 warns about an account without
a shell that it knows, where SHELL is unset."""

_GIVEN_BY_ENV = "--env"


def is_users_own(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable is set, and not merely what an operator sets on every launcher."""
    if not environ.get(name):
        return False
    if name not in INJECTED_BY_OPERATORS:
        return True
    injected = INJECTED_BY_OPERATORS[name]
    return injected is not None and environ[name] != injected


def users_own(knob: Knob, environ: Mapping[str, str]) -> str | None:
    """Return the variable by which the user set a knob, None where he did not."""
    aliases = (f"OMPI_MCA_{alias}" for alias in knob.aliases)
    names = (knob.variable, *aliases)
    return next((name for name in names if is_users_own(name, environ)), None)


def program_variables(
    request: LaunchRequest, hosts: HostList, np: int
) -> tuple[PlannedVariable, ...]:
    """Return the variables for programs that want to know their job, unless the user set them."""
    first = "127.0.0.1" if request.loopback_only else hosts.hosts[0].name
    own = (
        ("MASTER_ADDR", first, "the first host"),
        ("MASTER_PORT", "29500", "where PyTorch's ranks meet by default"),
        ("WORLD_SIZE", str(np), "the number of processes"),
        ("MPI_AGENT_NP", str(np), "the number of processes"),
        ("MPI_AGENT_HOST_COUNT", str(len(hosts.hosts)), "the hosts of the job"),
        ("MPI_AGENT_FIRST_HOST", hosts.hosts[0].name, "the first host"),
    )
    asked = {name for name, _ in request.environment.extra}
    given = (
        PlannedVariable(
            name=name,
            value=value,
            reason="given with --env or in an env file",
            said_by=_GIVEN_BY_ENV,
            is_secret=is_secret(name),
        )
        for name, value in request.environment.extra
    )
    added = (
        PlannedVariable(name=name, value=value, reason=reason)
        for name, value, reason in own
        if name not in asked
        and not request.environment.keeps_back(name)
        and (name.startswith("MPI_AGENT_") or name not in request.environ)
    )
    return (*given, *added, *_of_the_run(request), *_of_local_ranks(request, hosts, asked))


def _of_the_run(request: LaunchRequest) -> tuple[PlannedVariable, ...]:
    """Return what tells ranks which run they are of; `LaunchPlan.of_run` says which.

    The id is passed by name too: a plain sshd takes no variable of ours from ssh, and there ranks
    are found by nothing else. It is empty where nobody watches the run.
    """
    rows = (
        (RUN_ID_VARIABLE, "", "by which the processes of this run are known"),
        (RESTART_COUNT_VARIABLE, "0", "how often the program was begun before"),
        (MAX_RESTARTS_VARIABLE, "0", "how often the agent would begin it again"),
    )
    return tuple(
        PlannedVariable(
            name=name,
            value=value,
            reason=reason,
            stays_here=request.environment.keeps_back(name),
        )
        for name, value, reason in rows
    )


def _of_local_ranks(
    request: LaunchRequest, hosts: HostList, asked: set[str]
) -> tuple[PlannedVariable, ...]:
    """Return what ranks on the launcher are told of its network, as workers tell theirs."""
    is_worker_too = hosts.remote and len(hosts.remote) < len(hosts.hosts)
    if not is_worker_too or request.loopback_only or not request.sets_defaults:
        return ()
    here = request.surroundings
    found = interface_variables(request.environ, here.launcher_interface, has_rdma=here.has_rdma)
    return tuple(
        PlannedVariable(
            name=name,
            value=value,
            reason="the interface of the launcher's own address, for ranks here",
            stays_here=True,
        )
        for name, value in found
        if name not in asked and not request.environment.keeps_back(name)
    )


def removed_variables(
    environ: Mapping[str, str], dialect: Dialect | None
) -> tuple[RemovedVariable, ...]:
    """Return what must not reach the launcher, sorted by name."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if name in HOSTFILE_VARIABLES and dialect is not None:
            found[name] = "the hostfile is rendered anew, and an option names it"
        elif name in INJECTED_BY_OPERATORS and dialect is not None:
            found[name] = (
                "it was read, and an option or the ssh_config says the same"
                if is_users_own(name, environ)
                else "an operator sets it; options say the same to every version"
            )
        elif name.startswith(RESOURCE_MANAGER_PREFIXES):
            found[name] = "would have the daemons started by a resource manager"
        elif dialect is not None and not value and name.startswith("PRTE_MCA_"):
            found[name] = "set to nothing, on which mpirun of Open MPI 5 crashes"
        elif name.startswith("MPI_AGENT_") and name != "MPI_AGENT_SHIM":
            found[name] = "a setting of the agent, not of the program"
        elif dialect is not None and name in dialect.renamed_variables:
            found[name] = f"{dialect.name.value} ignores it; an option says the same"
    return tuple(RemovedVariable(name=name, reason=found[name]) for name in sorted(found))


def moved_variables(values: list[tuple[str, str]]) -> tuple[PlannedVariable, ...]:
    """Return variables whose value the user wrote on the line, where everybody can read it."""
    return tuple(
        PlannedVariable(
            name=name,
            value=value,
            reason="its value stood on the command line",
            said_by="the command line",
            is_secret=is_secret(name),
        )
        for name, value in values
    )
