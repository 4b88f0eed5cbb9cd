"""Request + hosts + stack = LaunchPlan: everything that will run, and the reason for each choice.

The user wins: what he said on the line, by a parameter or by a variable is kept, gaps are filled
right behind the launcher's name, and what the installed launcher refuses is said in its words.
"""

from __future__ import annotations

import shlex

from mpi_agent.command.arguments import MpirunLine, read_mpirun_line
from mpi_agent.command.dialects import Dialect, dialect_of
from mpi_agent.command.hiding import shown_words
from mpi_agent.command.mpirun_plan import plan_mpirun
from mpi_agent.command.other_launcher import plan_other_launcher
from mpi_agent.command.placement import place, placement_request
from mpi_agent.command.plan import LaunchPlan, LaunchRequest
from mpi_agent.command.program_kind import ProgramKind, kind_of_program
from mpi_agent.command.said import Said
from mpi_agent.command.topics import Topic
from mpi_agent.errors import SettingsError, StackUnsupportedError
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack

__all__ = ["build_plan"]


def build_plan(request: LaunchRequest, hosts: HostList, stack: MpiStack | None) -> LaunchPlan:
    """Return the plan for a program on the hosts of the job.

    Args:
        stack: None only for a program that starts its processes itself.

    Raises:
        SlotsExceededError, HostsUnusedError: the numbers do not fit, see `command.placement`.
        SettingsError: the line cannot be run, or a host cannot be given as it is.
        StackUnsupportedError: the installed MPI has no dialect, and the program needs it.
    """
    kind = kind_of_program(request.program)
    dialect = _dialect(stack, kind)
    family = dialect.family if dialect is not None else None
    line = None
    if kind is ProgramKind.BARE and ":" in request.program[1:]:
        raise SettingsError(
            'cannot give ":" to a program as an argument: mpirun takes it for the start of another '
            "application",
            hint="call the program from a script, or write the whole mpirun line",
        )
    if kind is ProgramKind.MPIRUN_LINE:
        line = read_mpirun_line(request.program, family)
        _refuse_without_program(line)
    if dialect is not None and not dialect.takes_ipv6_addresses:
        _refuse_ipv6_addresses(hosts, dialect)
    said = Said(line, request.environ, dialect) if dialect is not None else None
    wanted = placement_request(
        line,
        request.environ,
        np=request.np,
        mapping_is_set=said is not None and said.by(Topic.MAP_BY) is not None,
        chooses_cpus=said is not None and said.chooses_cpus,
        allows_idle_hosts=request.allows_idle_hosts,
        strict=request.strict,
    )
    placement = place(wanted, hosts)
    if kind is ProgramKind.OTHER_LAUNCHER or stack is None or dialect is None or said is None:
        return plan_other_launcher(request, hosts, placement, dialect)
    return plan_mpirun(request, hosts, stack, said, placement)


def _dialect(stack: MpiStack | None, kind: ProgramKind) -> Dialect | None:
    """Return the dialect of the MPI; a program that needs no mpirun can do without any."""
    try:
        return dialect_of(stack) if stack is not None else None
    except StackUnsupportedError:
        if kind is ProgramKind.OTHER_LAUNCHER:
            return None
        raise


def _refuse_without_program(line: MpirunLine) -> None:
    if line.has(Topic.APPLICATIONS):
        file = line.values_of(Topic.APPLICATIONS)[0]
        raise SettingsError(
            f'cannot count the processes of an mpirun line whose programs stand in "{file}"',
            hint="write the programs on the line, separated by `:`",
        )
    last = line.options[-1] if line.options else None
    if line.program is None and last is not None and last.values and not last.is_implied:
        taken = shown_words((last.spelling, *last.values))[-1]
        raise SettingsError(
            f'cannot run an mpirun line without a program: {last.spelling} takes "{taken}" as its '
            "value",
            hint=f"check how many values {last.spelling} has, and put the program behind them",
        )
    if line.program is None:
        raise SettingsError(
            "cannot run an mpirun line without a program: "
            + shlex.join((line.called_as, *shown_words(line.tokens))),
            hint="put the program behind mpirun's options",
        )


def _refuse_ipv6_addresses(hosts: HostList, dialect: Dialect) -> None:
    for host in hosts.remote:
        if ":" in host.name:
            raise SettingsError(
                f'cannot launch on "{host.name}": {dialect.name.value} cannot dial a host that is '
                "given by its IPv6 address",
                hint="give the host by its name",
            )
