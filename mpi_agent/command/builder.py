"""Puts one mpirun command together: the user's words, and ours for what he left open."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.command.defaults import DEFAULTS, Default, Situation
from mpi_agent.command.dialects import Knob
from mpi_agent.command.hostfile import render_hostfile
from mpi_agent.command.placement import Placement
from mpi_agent.command.plan import (
    AGENT,
    Choice,
    LaunchPlan,
    LaunchRequest,
    PlannedVariable,
    SshAccess,
)
from mpi_agent.command.said import Said
from mpi_agent.command.ssh_arguments import read_ssh_arguments
from mpi_agent.command.topics import Topic
from mpi_agent.command.translate import Translation, translate, words_for
from mpi_agent.command.variables import (
    is_users_own,
    moved_variables,
    program_variables,
    removed_variables,
    users_own,
)
from mpi_agent.errors import SettingsError
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack

__all__ = ["MpirunBuilder", "situation_of"]

_DAEMON_PREFIX_ON_EVERY_PATH = "/usr"
_PARAMETER_OPTIONS = ("--mca", "--prtemca", "--pmixmca")
_BINDS = ("cpus-per-proc", "cpus-per-rank", "cpu-set", "cpu-list", "slot-list", "rankfile", "rf")
_LONGEST_WORD_BYTES = 131_071
"""Source: Linux, MAX_ARG_STRLEN with its final NUL; execve(2)."""


class MpirunBuilder:
    """Collects the choices for one mpirun command.

    Args:
        said: what the user said, in the dialect of the stack.
    """

    def __init__(
        self,
        request: LaunchRequest,
        hosts: HostList,
        stack: MpiStack,
        said: Said,
        placement: Placement,
    ) -> None:
        self._request = request
        self._hosts = hosts
        self._stack = stack
        self._said = said
        self._dialect = said.dialect
        self._placement = placement
        self._choices: list[Choice] = []
        self._kept: list[Choice] = []
        self._notes = [*placement.notes, *request.environment.notes]
        self._variables: list[PlannedVariable] = []
        self._translation = self._translated()

    def build(self) -> LaunchPlan:
        """Return the plan."""
        request, dialect = self._request, self._dialect
        own = program_variables(request, self._hosts, self._placement.np)
        self._variables += (*own, *moved_variables(self._translation.values))
        self._choose_hosts_and_mapping()
        self._choose_permission_and_prefix()
        self._say_renamed_variables()
        self._choose_defaults()
        if request.ssh is not None:
            self._choose_ssh(request.ssh)
        self._choose_variables()
        self._choose_np()
        shim = PlannedVariable(
            name="MPI_AGENT_SHIM", value="off", reason="mpirun below this one is the real one"
        )
        added = tuple(word for choice in self._choices for word in choice.words)
        return LaunchPlan(
            executable=self._stack.mpirun,
            argv=(self._called_as(), *added, *self._translation.tokens),
            variables=(*self._variables, shim),
            removed_variables=removed_variables(request.environ, dialect),
            hostfile_path=request.hostfile_path,
            hostfile_text=render_hostfile(self._hosts_to_render(), dialect.hostfile_form),
            np=self._placement.np,
            choices=tuple(self._choices),
            kept=tuple(self._kept),
            notes=tuple(dict.fromkeys(self._notes)),
            passages=request.environment.passages,
            daemon=self._daemon(),
            ssh_options=tuple(self._translation.ssh_options),
            dials_by_tree=request.ssh is not None and request.ssh.hosts_can_dial,
            dials_by_own_ssh=self._said.by(Topic.SSH_AGENT) is None,
        )

    def _hosts_to_render(self) -> HostList:
        """Return the hosts with the counts that place ranks as they are to be placed."""
        per_host = self._placement.per_host
        if per_host is None or not self._dialect.counts_win_over_per_host:
            return self._hosts
        hosts = tuple(replace(host, slots=per_host) for host in self._hosts.hosts)
        return replace(self._hosts, hosts=hosts)

    def _translated(self) -> Translation:
        line = self._said.line
        if line is None:
            return Translation(tokens=self._request.program)
        found = translate(
            line,
            self._dialect,
            hostfile_path=self._request.hostfile_path,
            environ=self._request.environ,
        )
        self._notes += (*line.doubts, *found.notes)
        return found

    def _called_as(self) -> str:
        """Return argv[0]: a bare name where a path would change what is done."""
        if self._dialect.called_by_path:
            return self._stack.mpirun
        line = self._said.line
        return line.called_as.rsplit("/", 1)[-1] if line is not None else "mpirun"

    def _daemon(self) -> str | None:
        """Return what mpirun will start on each host, as its own prefix mode finds it."""
        dialect, line = self._dialect, self._said.line
        if self._said.by(Topic.DAEMON):
            return None
        if line is not None and line.has(Topic.PREFIX) and not dialect.finds_its_daemon:
            return f"{line.values_of(Topic.PREFIX)[0]}/bin/{dialect.daemon}"
        if dialect.finds_its_daemon or self._stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH:
            return f"{self._stack.prefix}/bin/{dialect.daemon}"
        return dialect.daemon

    def _add(self, reason: str, *words: str, said_by: str = AGENT) -> None:
        if words:
            self._choices.append(Choice(words=words, reason=reason, said_by=said_by))

    def _say(self, topic: Topic, value: str, reason: str) -> None:
        """Say something that the user has not said."""
        spelling = self._dialect.spelling(topic)
        if spelling is None:
            return
        if found := self._said.by(topic):
            self._kept.append(found)
            return
        words = spelling.says(value)
        if words:
            self._add(reason, *words)
        elif spelling.knob is not None:
            self._set(spelling.knob, value, reason)

    def _set(self, knob: Knob, value: str, reason: str) -> None:
        """Turn a knob, on the line where there is an option for it."""
        if knob.option is not None:
            self._add(reason, knob.option, knob.name, value)
        else:
            self._variables.append(PlannedVariable(name=knob.variable, value=value, reason=reason))

    def _choose_hosts_and_mapping(self) -> None:
        keeps_hosts = self._request.keeps_host_option and not self._dialect.passes_everything
        if not keeps_hosts:
            source = f"rendered from {self._hosts.source}"
            self._say(Topic.HOSTFILE, self._request.hostfile_path, source)
        if not self._request.sets_defaults:
            return
        if self._placement.map_by is not None:
            reason = "explicit, so that every version does the same"
            self._add(reason, *self._dialect.mappings[self._placement.map_by])
        if not self._binds_by_itself():
            reason = "binding to cores fails where a container has fewer than slots"
            self._say(Topic.BIND_TO, "none", reason)

    def _binds_by_itself(self) -> bool:
        """Return whether the line gives ranks CPUs in a way that "none" contradicts."""
        line = self._said.line
        if line is None:
            return False
        mappings = [value.lower() for value in line.values_of(Topic.MAP_BY)]
        return any("pe=" in m or "pe-list" in m for m in mappings) or self._said.on_line(*_BINDS)

    def _choose_np(self) -> None:
        placement = self._placement
        total = (
            "as asked"
            if placement.np != self._hosts.total_slots
            else f"the sum of slots, {len(self._hosts.hosts)} host(s)"
        )
        self._say(Topic.NP, str(placement.np), f"{placement.np} = {total}")

    def _choose_permission_and_prefix(self) -> None:
        if self._request.runs_as_root:
            self._say(Topic.ROOT, "", "the container runs as root")
        needs_prefix = (
            not self._dialect.finds_its_daemon
            and self._stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH
        )
        if needs_prefix:
            reason = "the daemon is in no directory of a login's PATH"
            self._say(Topic.PREFIX, self._stack.prefix, reason)

    def _say_renamed_variables(self) -> None:
        """Say what the user set by variables that this version ignores in silence."""
        for name, words in self._dialect.renamed_variables.items():
            value = self._request.environ.get(name, "")
            if not is_users_own(name, self._request.environ):
                continue
            names = [word.lstrip("-") for word in words[:2] if word not in _PARAMETER_OPTIONS]
            if not self._said.on_line(name.removeprefix("OMPI_MCA_"), *names):
                said = words_for(words, value)
                self._add(f"{self._dialect.name.value} ignores the variable", *said, said_by=name)

    def _choose_defaults(self) -> None:
        situation = situation_of(self._request, self._hosts)
        for row in DEFAULTS:
            value = row.value(situation)
            if value is None or not (self._request.sets_defaults or row.is_needed):
                continue
            if found := self._said.decides(row.unless):
                self._kept.append(found)
                continue
            self._turn_knobs_of(row, value)

    def _turn_knobs_of(self, row: Default, value: str) -> None:
        for knob in row.knobs.get(self._dialect.name, ()):
            if found := self._said.by_knob(knob):
                self._kept.append(found)
            else:
                self._set(knob, value, row.reason)

    def _choose_ssh(self, ssh: SshAccess) -> None:
        """Have ssh dial by our configuration; what the user gave it moves there too."""
        knob = self._dialect.spellings[Topic.SSH_ARGUMENTS].knob
        if knob is not None:
            own = users_own(knob, self._request.environ)
            if own is not None:
                read = read_ssh_arguments(self._request.environ[own])
                self._translation.ssh_options += read.options
                self._translation.ssh_rest += read.rest
                self._notes.append(f"{own} was read into the job's ssh_config")
            words = " ".join(("-F", ssh.config_path, *self._translation.ssh_rest))
            self._set(knob, words, "key, port, user and host keys of this job")
        if self._dialect.passes_everything:
            reason = "no resource manager's variable may choose another way"
            self._say(Topic.LAUNCHER, "ssh", reason)
        if ssh.agent is not None:
            self._say(Topic.SSH_AGENT, ssh.agent, "the built-in ssh client dials")
        if self._dialect.passes_everything and not self._request.loopback_only:
            self._choose_way_back(ssh)

    def _choose_way_back(self, ssh: SshAccess) -> None:
        """Have Hydra's daemons call an address: workers may not resolve the launcher's name."""
        here, remote_count = self._request.surroundings, len(self._hosts.remote)
        reason = "workers may not be able to resolve the launcher's name"
        if self._said.by(Topic.INTERFACE) or self._said.by(Topic.LAUNCHER_ADDRESS):
            pass
        elif here.launcher_address and self._dialect.spelling(Topic.LAUNCHER_ADDRESS):
            self._say(Topic.LAUNCHER_ADDRESS, here.launcher_address, reason)
        elif here.launcher_interface:
            self._say(Topic.INTERFACE, here.launcher_interface, reason)
        if here.launcher_address and ":" in here.launcher_address:
            self._say(Topic.IPV6, "", "the hosts' addresses are of IPv6")
        if remote_count > 1 and not ssh.hosts_can_dial:
            self._say(Topic.TREE_WIDTH, str(remote_count), "the launcher dials every host itself")

    def _choose_variables(self) -> None:
        """Pass variables by name, so that no value stands in argv."""
        line = self._said.line
        if line is not None and line.parameter("mca_base_env_list"):
            self._notes.append("mca_base_env_list is given, so no variable is added with -x")
            return
        given = {variable.name for variable in self._variables}
        names = {*self._request.environment.names, *given, *self._translation.names}
        if self._dialect.passes_everything:
            self._pass_as_list(sorted(names - {self._ssh_variable()}))
            return
        own = {value.partition("=")[0] for value in line.values_of(Topic.VARIABLE)} if line else ()
        moved = {name for name, _ in self._translation.values}
        added: list[str] = []
        for name in sorted(names - (set(own) - moved)):
            words = self._dialect.spellings[Topic.VARIABLE].says(name)
            self._add(f"variable {name}", *words)
            added += words
        if self._dialect.passes_to_one_application and ":" in self._translation.tokens:
            self._repeat_for_each_application(tuple(added))

    def _repeat_for_each_application(self, words: tuple[str, ...]) -> None:
        """Put variables in front of every application; ours at the front are for the first."""
        tokens: list[str] = []
        for token in self._translation.tokens:
            tokens.append(token)
            if token == ":":
                tokens += words
        self._translation.tokens = tuple(tokens)
        if words:
            self._notes.append("variables are named for every application on the line")

    def _ssh_variable(self) -> str:
        knob = self._dialect.spellings[Topic.SSH_ARGUMENTS].knob
        return knob.variable if knob is not None else ""

    def _pass_as_list(self, names: list[str]) -> None:
        """Name all variables in one word, without which Hydra passes the whole environment."""
        line = self._said.line
        decided = line is not None and line.has(Topic.ALL_VARIABLES, Topic.NO_VARIABLES)
        if decided:
            self._notes.append("the line says which variables travel, so none is added")
            return
        if not names:
            self._say(Topic.NO_VARIABLES, "", "an empty list of variables crashes Intel MPI")
            return
        word = ",".join(names)
        if len(word) > _LONGEST_WORD_BYTES:
            raise SettingsError(
                f"cannot pass {len(names)} variables to the ranks: their names take "
                f"{len(word)} bytes, and one argument has room for {_LONGEST_WORD_BYTES}",
                hint="pass fewer with --env-prefix, or read them from a file in the program",
            )
        reason = "by name; without a list Hydra passes the launcher's whole environment"
        self._add(reason, *self._dialect.spellings[Topic.VARIABLES].says(word))


def situation_of(request: LaunchRequest, hosts: HostList) -> Situation:
    """Return what decides which defaults are needed."""
    return Situation(
        remote_count=len(hosts.remote),
        dials_by_tree=request.ssh is not None and request.ssh.hosts_can_dial,
        loopback_only=request.loopback_only,
        ports=request.port_range,
        surroundings=request.surroundings,
    )
