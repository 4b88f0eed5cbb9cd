"""The plan for what is not mpirun: horovodrun, deepspeed, torchrun, pdsh, a script.

It runs once, on the launcher, and is told the job by variables, by the words its own command line
has for it, and by an `ssh` in front of PATH that dials as mpirun's would.

Source: pdsh(1) 2.34, PDSH_RCMD_TYPE; it finds its ssh in PATH, as horovodrun and deepspeed do.
"""

from __future__ import annotations

from mpi_agent.command.default_choices import situation_of
from mpi_agent.command.defaults import DEFAULTS
from mpi_agent.command.dialects import Dialect, DialectName
from mpi_agent.command.dialling import agent_for, reason_for_agent
from mpi_agent.command.handing_over import kept_back, secrets_on_lines
from mpi_agent.command.hostfile import HostfileForm, render_hostfile
from mpi_agent.command.launcher_words import with_words, words_left_open
from mpi_agent.command.placement import Placement
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, PlannedVariable, RemovedVariable
from mpi_agent.command.said import Said
from mpi_agent.command.ssh_arguments import read_ssh_arguments
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.variables import (
    PLAIN_SHELL,
    program_variables,
    removed_variables,
    users_own,
)
from mpi_agent.job.hosts import HostList

__all__ = ["plan_other_launcher"]

_PER_HOST = "I_MPI_PERHOST"


def plan_other_launcher(
    request: LaunchRequest, hosts: HostList, placement: Placement, dialect: Dialect | None
) -> LaunchPlan:
    """Return the plan for a program that starts its processes itself.

    Args:
        dialect: of the mpirun that it may call, None where none is installed.
    """
    name = request.program[0]
    choices = words_left_open(request, placement.np)
    form = dialect.hostfile_form if dialect is not None else HostfileForm.SLOTS
    if choices:
        form = HostfileForm.SLOTS
    told = (
        PLAIN_SHELL,
        _variable("MPI_AGENT_HOSTFILE", request.hostfile_path, "the rendered hostfile"),
        _variable("MPI_AGENT_SLOTS", str(hosts.hosts[0].slots), "slots of the first host"),
        _variable("MPI_AGENT_SHIM", "off", "mpirun below this program is the real one"),
    )
    ssh_options, launchers = _for_the_launcher(request, hosts, dialect)
    return LaunchPlan(
        executable=name,
        argv=with_words(request.program, choices),
        variables=(
            *program_variables(request, hosts, placement.np),
            *told,
            *_for_its_ssh(request),
            *launchers,
        ),
        removed_variables=_removed(request, hosts),
        hostfile_path=request.hostfile_path,
        hostfile_text=render_hostfile(hosts, form),
        np=placement.np,
        choices=choices,
        notes=(
            *placement.notes,
            *request.environment.notes,
            f'"{name}" runs once, on the launcher, and is told the hosts by variables; '
            "put mpirun in front of it to run it on the hosts",
            *secrets_on_lines(request),
            *_untagged(request),
        ),
        passages=request.environment.passages,
        ssh_options=ssh_options,
    )


def _removed(request: LaunchRequest, hosts: HostList) -> tuple[RemovedVariable, ...]:
    """Return what the program is started without, sorted by name."""
    found = (*kept_back(request, hosts), *removed_variables(request.environ, None))
    by_name = {variable.name: variable for variable in found}
    return tuple(by_name[name] for name in sorted(by_name))


def _untagged(request: LaunchRequest) -> tuple[str, ...]:
    """Return what has to be said of output that was to be tagged."""
    name = request.program[0]
    if request.splits_output:
        why = f'"{name}" writes for its ranks, so that output cannot be told apart by rank'
        return (f"--log-dir: {why}: all is in one file",)
    if request.tags_output:
        return (f'--tag: is left out: "{name}" starts its ranks itself, and tags them or not',)
    return ()


def _variable(name: str, value: str, reason: str) -> PlannedVariable:
    return PlannedVariable(name=name, value=value, reason=reason)


def _for_its_ssh(request: LaunchRequest) -> tuple[PlannedVariable, ...]:
    """Return what makes its own ssh, and pdsh's, dial by the job's ssh_config."""
    ssh = request.ssh
    if ssh is None:
        return ()
    found = []
    if ssh.directory is not None:
        path = f"{ssh.directory}:{request.environ.get('PATH', '')}".rstrip(":")
        found.append(_variable("PATH", path, "an ssh of the job stands in front"))
    if "PDSH_RCMD_TYPE" not in request.environ:
        found.append(_variable("PDSH_RCMD_TYPE", "ssh", "pdsh dials with ssh"))
    return tuple(found)


def _for_the_launcher(
    request: LaunchRequest, hosts: HostList, dialect: Dialect | None
) -> tuple[tuple[tuple[str, str], ...], tuple[PlannedVariable, ...]]:
    """Return what an mpirun that the program calls by itself needs, where the user set nothing."""
    if dialect is None:
        return (), ()
    said = Said(None, request.environ, dialect)
    found: list[PlannedVariable] = []
    if dialect.name is DialectName.INTEL_MPI and not request.environ.get(_PER_HOST):
        fewest = min(host.slots for host in hosts.hosts)
        reason = "Intel MPI reads no counts in a hostfile that a variable names"
        found.append(_variable(_PER_HOST, str(fewest), reason))
    for name, value, reason in _hostfile_and_binding(request, dialect):
        found.append(_variable(name, value, reason))
    for row in DEFAULTS:
        wanted = row.value(situation_of(request, hosts))
        if wanted is None or said.decides(row.unless):
            continue
        if not (request.sets_defaults or row.is_needed):
            continue
        found += (
            _variable(knob.variable, wanted, row.reason)
            for knob in row.knobs.get(dialect.name, ())
            if said.by_knob(knob) is None
        )
    if request.runs_as_root and dialect.family is Family.OPEN_MPI:
        for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            found.append(_variable(name, "1", "the container runs as root"))
    options, ssh_variables = _ssh_of_the_launcher(request, dialect, said)
    return options, (*found, *ssh_variables)


def _hostfile_and_binding(
    request: LaunchRequest, dialect: Dialect
) -> tuple[tuple[str, str, str], ...]:
    reason = "for an mpirun that it calls"
    found = [(dialect.hostfile_variable, request.hostfile_path, f"the hostfile, {reason}")]
    spelling = dialect.spelling(Topic.BIND_TO)
    if spelling is not None and spelling.knob is not None and request.sets_defaults:
        said = Said(None, request.environ, dialect)
        if said.by_knob(spelling.knob) is None:
            found.append((spelling.knob.variable, "none", f"no binding to cores, {reason}"))
    return tuple(found)


def _ssh_of_the_launcher(
    request: LaunchRequest, dialect: Dialect, said: Said
) -> tuple[tuple[tuple[str, str], ...], tuple[PlannedVariable, ...]]:
    if request.ssh is None:
        return (), ()
    knob = dialect.ssh_arguments
    own = users_own(knob, request.environ)
    read = read_ssh_arguments(request.environ[own] if own else "")
    words = " ".join(("-F", request.ssh.config_path, *read.rest))
    found = [_variable(knob.variable, words, "mpirun's ssh dials by the job's ssh_config")]
    agent = agent_for(dialect, request.ssh)
    if agent is not None and said.by(Topic.SSH_AGENT) is None:
        reason = reason_for_agent(request.ssh)
        found.append(_variable(dialect.ssh_agent_variable, agent, reason))
    found += _way_back(request, dialect, said)
    return read.options, tuple(found)


def _way_back(request: LaunchRequest, dialect: Dialect, said: Said) -> tuple[PlannedVariable, ...]:
    """Return where Hydra's daemons are to call: workers may not resolve the launcher's name."""
    interface, back = request.surroundings.launcher_interface, dialect.spelling(Topic.INTERFACE)
    calls_by_name = dialect.passes_everything and not request.loopback_only
    if not calls_by_name or interface is None or said.by(Topic.INTERFACE):
        return ()
    if back is None or back.knob is None:
        return ()
    reason = "workers may not be able to resolve the launcher's name"
    return (_variable(back.knob.variable, interface, reason),)
