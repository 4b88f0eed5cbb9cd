"""Puts one mpirun command together: the user's words, and ours for what he left open."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.command.arguments import family_of_name
from mpi_agent.command.choices import Choices
from mpi_agent.command.default_choices import choose_defaults
from mpi_agent.command.dialling import (
    choose_ssh,
    dials_by_own_ssh,
    dials_by_tree,
    refuse_what_hangs,
)
from mpi_agent.command.hostfile import render_hostfile
from mpi_agent.command.mapping import choose_hosts_and_mapping, choose_np, say_renamed_variables
from mpi_agent.command.passing import choose_variables
from mpi_agent.command.placement import Placement
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, PlannedVariable
from mpi_agent.command.said import Said
from mpi_agent.command.tags import choose_tags
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.translate import Translation, translate
from mpi_agent.command.variables import (
    PLAIN_SHELL,
    moved_variables,
    program_variables,
    removed_variables,
)
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack

__all__ = ["plan_mpirun"]

_DAEMON_PREFIX_ON_EVERY_PATH = "/usr"
_SHIM = PlannedVariable(
    name="MPI_AGENT_SHIM", value="off", reason="mpirun below this one is the real one"
)


def plan_mpirun(
    request: LaunchRequest, hosts: HostList, stack: MpiStack, said: Said, placement: Placement
) -> LaunchPlan:
    """Return the plan for an mpirun of this stack.

    Args:
        said: what the user said, in the dialect of the stack.
    """
    own_variables = program_variables(request, hosts, placement.np)
    translation = _translated(request, said, own_variables)
    choices = Choices(said, translation, (*own_variables, *moved_variables(translation.values)))
    choose_hosts_and_mapping(choices, request, hosts, placement)
    _choose_permission_and_prefix(choices, request, stack)
    say_renamed_variables(choices)
    tag_form = choose_tags(choices, request)
    choose_defaults(choices, request, hosts)
    if request.ssh is not None:
        choose_ssh(choices, request, request.ssh, hosts)
    refuse_what_hangs(choices, hosts)
    choose_variables(choices, request)
    choose_np(choices, hosts, placement)
    doubts = said.line.doubts if said.line is not None else ()
    notes = (
        *(*placement.notes, *request.environment.notes),
        *(*doubts, *translation.notes, *choices.notes),
    )
    form = said.dialect.hostfile_form
    return LaunchPlan(
        executable=stack.mpirun,
        argv=(_called_as(said, stack), *choices.words, *translation.tokens),
        variables=(*choices.variables, PLAIN_SHELL, _SHIM),
        removed_variables=removed_variables(request.environ, said.dialect),
        hostfile_path=request.hostfile_path,
        hostfile_text=render_hostfile(_hosts_to_render(said, hosts, placement), form),
        np=placement.np,
        choices=tuple(choices.added),
        kept=tuple(choices.kept),
        notes=tuple(dict.fromkeys(notes)),
        passages=request.environment.passages,
        daemon=_daemon(said, stack),
        ssh_options=tuple(translation.ssh_options),
        dials_by_tree=dials_by_tree(choices, hosts),
        dials_by_own_ssh=dials_by_own_ssh(choices),
        tag_form=tag_form,
    )


def _translated(
    request: LaunchRequest, said: Said, own_variables: tuple[PlannedVariable, ...]
) -> Translation:
    """Return the user's words as this launcher takes them.

    A variable counts as set if it will be when mpirun starts.
    """
    if said.line is None:
        return Translation(tokens=request.program)
    removed = {v.name for v in removed_variables(request.environ, said.dialect)}
    kept = {name: value for name, value in request.environ.items() if name not in removed}
    return translate(
        said.line,
        said.dialect,
        hostfile_path=request.hostfile_path,
        environ={**kept, **{variable.name: variable.value for variable in own_variables}},
    )


def _choose_permission_and_prefix(
    choices: Choices, request: LaunchRequest, stack: MpiStack
) -> None:
    if request.runs_as_root:
        choices.say(Topic.ROOT, "", "the container runs as root")
    if not choices.dialect.finds_its_daemon and stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH:
        reason = "the daemon is in no directory of a login's PATH"
        choices.say(Topic.PREFIX, stack.prefix, reason)


def _hosts_to_render(said: Said, hosts: HostList, placement: Placement) -> HostList:
    """Return the hosts with the counts that place ranks as they are to be placed."""
    per_host = placement.per_host
    if per_host is None or not said.dialect.counts_win_over_per_host:
        return hosts
    return replace(hosts, hosts=tuple(replace(host, slots=per_host) for host in hosts.hosts))


def _called_as(said: Said, stack: MpiStack) -> str:
    """Return argv[0]: a bare name where a path would change what is done."""
    if said.dialect.called_by_path:
        return stack.mpirun
    line = said.line
    if line is None or family_of_name(line.called_as) not in {None, said.dialect.family}:
        return "mpirun"
    return line.called_as.rsplit("/", 1)[-1]


def _daemon(said: Said, stack: MpiStack) -> str | None:
    """Return what mpirun will start on each host, as its own prefix mode finds it."""
    dialect, line = said.dialect, said.line
    if said.by(Topic.DAEMON):
        return None
    if line is not None and line.has(Topic.PREFIX) and dialect.family is Family.OPEN_MPI:
        return f"{line.values_of(Topic.PREFIX)[0]}/bin/{dialect.daemon}"
    if dialect.finds_its_daemon or stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH:
        return f"{stack.prefix}/bin/{dialect.daemon}"
    return dialect.daemon
