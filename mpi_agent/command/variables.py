"""Which variables mpirun is started with, and which of those it finds are the user's own."""

from __future__ import annotations

from collections.abc import Mapping

from mpi_agent.command.arguments import MpirunLine
from mpi_agent.command.defaults import INJECTED_BY_OPERATORS, RESOURCE_MANAGER_PREFIXES
from mpi_agent.command.dialects import Dialect
from mpi_agent.command.plan import LaunchRequest
from mpi_agent.job.hosts import HostList

__all__ = [
    "is_set",
    "is_users_own",
    "program_variables",
    "removed_variables",
    "users_own_ssh_arguments",
]


def is_users_own(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable is set, and not merely what an operator sets on every launcher."""
    if not environ.get(name):
        return False
    if name not in INJECTED_BY_OPERATORS:
        return True
    injected = INJECTED_BY_OPERATORS[name]
    return injected is not None and environ[name] != injected


def is_set(
    name: str, line: MpirunLine | None, environ: Mapping[str, str], dialect: Dialect
) -> bool:
    """Return whether the user set an MCA parameter on the line or by a variable of his own."""
    on_line = line is not None and line.parameter(name) is not None
    return on_line or is_users_own(dialect.parameter_variable_prefix + name, environ)


def users_own_ssh_arguments(environ: Mapping[str, str], dialect: Dialect) -> str:
    """Return the ssh arguments that the user set by a variable, empty for none."""
    names = (
        dialect.parameter_variable_prefix + dialect.ssh_arguments,
        *(f"OMPI_MCA_{alias}" for alias in dialect.ssh_arguments_aliases),
    )
    for name in names:
        if is_users_own(name, environ):
            return environ[name]
    return ""


def program_variables(
    request: LaunchRequest, hosts: HostList, np: int
) -> tuple[tuple[str, str], ...]:
    """Return the variables for programs that want to know their job, unless the user set them."""
    own = (
        ("MASTER_ADDR", "127.0.0.1" if request.loopback_only else hosts.hosts[0].name),
        ("MASTER_PORT", "29500"),
        ("WORLD_SIZE", str(np)),
    )
    asked = dict(request.environment.extra)
    added = tuple((n, v) for n, v in own if n not in request.environ and n not in asked)
    return (*request.environment.extra, *added)


def removed_variables(environ: Mapping[str, str], dialect: Dialect) -> tuple[str, ...]:
    """Return what must not reach mpirun: what options say better, and other launchers' traces."""
    operators = {name for name in INJECTED_BY_OPERATORS if name in environ}
    managers = {name for name in environ if name.startswith(RESOURCE_MANAGER_PREFIXES)}
    emptied = {
        name
        for name, value in environ.items()
        if not value and name.startswith(dialect.parameter_variable_prefix)
    }
    own = {name for name in environ if name.startswith("MPI_AGENT_")} - {"MPI_AGENT_SHIM"}
    return tuple(sorted(operators | managers | emptied | own))
