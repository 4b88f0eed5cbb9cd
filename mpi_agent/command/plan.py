"""What is asked of a launch, and the plan that answers it: enough to print, run, compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mpi_agent.command.dialects import TagForm
from mpi_agent.command.hiding import shown_words
from mpi_agent.environment import Passage, RankEnvironment
from mpi_agent.run_id import RunId
from mpi_agent.variable_names import (
    MAX_RESTARTS_VARIABLE,
    RESTART_COUNT_VARIABLE,
    RUN_ID_VARIABLE,
)

__all__ = [
    "AGENT",
    "COMMAND_LINE",
    "Choice",
    "LaunchPlan",
    "LaunchRequest",
    "PlannedVariable",
    "RemovedVariable",
    "SshAccess",
    "Surroundings",
]

AGENT = "mpi-agent"
COMMAND_LINE = "the command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """How mpirun reaches the hosts.

    Attributes:
        config_path: our ssh_config; its path has no blanks, because launchers split at them.
        agent: command used in place of `ssh`, None for OpenSSH's own; split at blanks.
        agent_program: the same as one file, for launchers that take no command.
        apart: command that calls OpenSSH's own with streams of its own; split at blanks.
        hosts_can_dial: every host has the same configuration at the same path and lets the others
            in, so that daemons may start further daemons.
        key_path: the job's private key.
        port: of all hosts, None where it is not known yet or differs between them.
        directory: holds programs called `ssh` that dial by this configuration, for launchers that
            find theirs in PATH; None where files there cannot be executed.
    """

    config_path: str
    agent: str | None = None
    agent_program: str | None = None
    apart: str | None = None
    hosts_can_dial: bool = False
    key_path: str | None = None
    port: int | None = None
    directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What was found out about the launcher's container and the hosts, as far as defaults ask.

    Attributes:
        network: the network that owns the hosts' and the launcher's addresses, as CIDR; None where
            it is not known (yet), or where nothing needs to be said.
        launcher_address: where the hosts reach the launcher; None where it is not known.
        launcher_interface: the interface that has this address.
        has_rdma: there are RDMA devices, or may be: the launcher or a host has one, or a host was
            not asked, or did not tell.
        process_vm_readv_works: in the launcher's container. A host cannot be asked without a
            program of ours there; pods of one job share their security profile.
        session_directory: where daemons keep their files, None for their own choice.
    """

    network: str | None = None
    launcher_address: str | None = None
    launcher_interface: str | None = None
    has_rdma: bool = False
    process_vm_readv_works: bool = True
    session_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What the user asked for, before any dialect.

    Attributes:
        program: what stood behind `--`.
        environ: the launcher's environment.
        environment: what of it travels to the ranks.
        hostfile_path: where the rendered hostfile will be; its path has no blanks.
        ssh: None when every host is local.
        runs_as_root: mpirun must be told that this is meant.
        loopback_only: all hosts are on this machine, so that nothing need leave it.
        keeps_host_option: the hosts come from the line's own `-H`, which stays.
        port_range: first and last port that daemons and ranks may listen on.
        worker_timeout_s: silence after which a worker is lost; None for never.
        tags_output: each rank's number is put in front of its lines.
        splits_output: it is put there so that output can be told apart by rank.
        sets_defaults: False leaves out everything that is neither asked for nor necessary.
    """

    program: tuple[str, ...]
    environ: Mapping[str, str]
    environment: RankEnvironment
    hostfile_path: str
    ssh: SshAccess | None
    runs_as_root: bool
    np: int | None = None
    allows_idle_hosts: bool = False
    strict: bool = False
    loopback_only: bool = False
    keeps_host_option: bool = False
    port_range: tuple[int, int] | None = None
    worker_timeout_s: float | None = 15.0
    sets_defaults: bool = True
    tags_output: bool = False
    splits_output: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Words of the command, why they stand there, and who said so.

    Attributes:
        said_by: the agent, the command line, or the variable that asks for it.
    """

    words: tuple[str, ...]
    reason: str
    said_by: str = AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVariable:
    """A variable that the command is started with beyond the launcher's own environment.

    Attributes:
        is_secret: its value must not be shown.
        stays_here: for ranks on the launcher itself, which inherit it; it is not passed by name.
    """

    name: str
    value: str
    reason: str
    said_by: str = AGENT
    is_secret: bool = False
    stays_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedVariable:
    """A variable of the launcher's environment that the command is started without."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Complete: enough to print, to run, to compare.

    Attributes:
        executable: file that is executed; argv[0] may be a bare name on purpose, because Open
            MPI 4 called by an absolute path turns its prefix mode on.
        variables: set on top of the launcher's own environment, in order.
        removed_variables: taken out of it.
        choices: what the agent added to argv.
        kept: what the user said about something that the agent would otherwise have decided.
        notes: sentences the user should read.
        passages: every variable of the launcher, whether it travels to the ranks, and why.
        daemon: what is started on each host first: an absolute path, or a bare name that the
            login's PATH must find; None where that cannot be told.
        ssh_options: keyword and value that the user gave to mpirun's ssh, for our ssh_config.
        dials_by_tree: daemons start further daemons.
        dials_by_own_ssh: mpirun dials by our ssh_config, so what it dialled can be told.
        tag_form: by which output can be told apart by rank; None where it cannot.
    """

    executable: str
    argv: tuple[str, ...]
    variables: tuple[PlannedVariable, ...]
    removed_variables: tuple[RemovedVariable, ...]
    hostfile_path: str
    hostfile_text: str
    np: int
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    kept: tuple[Choice, ...] = ()
    passages: tuple[Passage, ...] = ()
    daemon: str | None = None
    ssh_options: tuple[tuple[str, str], ...] = ()
    dials_by_tree: bool = False
    dials_by_own_ssh: bool = False
    tag_form: TagForm | None = None

    @property
    def shown_argv(self) -> tuple[str, ...]:
        """The argv for logs, without values of variables that the user wrote into it."""
        return shown_words(self.argv)

    def of_run(
        self, run_id: RunId | str, *, restart_count: int = 0, max_restarts: int = 0
    ) -> LaunchPlan:
        """Return the plan as one run of it: its argv is the same, and three variables say which.

        Args:
            run_id: mpirun's ssh carries it to every host, and it is passed by name; empty where
                nobody watches the run.
            restart_count: how often the program was begun before.
            max_restarts: how often the agent would begin it again.
        """
        values = {
            RUN_ID_VARIABLE: str(run_id),
            RESTART_COUNT_VARIABLE: str(restart_count),
            MAX_RESTARTS_VARIABLE: str(max_restarts),
        }
        variables = (replace(v, value=values.get(v.name, v.value)) for v in self.variables)
        return replace(self, variables=tuple(variables))

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of the command.

        What is set stands last, and the very last is nobody's: MPICH's `-genvlist` loses that one.
        """
        removed = {variable.name for variable in self.removed_variables}
        removed |= {variable.name for variable in self.variables}
        kept = {n: v for n, v in environ.items() if n not in removed}
        return {**kept, **{variable.name: variable.value for variable in self.variables}}
