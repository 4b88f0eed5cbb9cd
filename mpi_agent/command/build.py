"""Request + hosts + stack = LaunchPlan: everything that will run, and the reason for each choice.

The user wins: what stands on the mpirun line or in an MCA variable is kept, gaps are filled right
behind the launcher's name, and what the installed version refuses is respelled and said.
"""

from __future__ import annotations

from mpi_agent.command.arguments import (
    MpirunLine,
    ProgramKind,
    kind_of_program,
    read_mpirun_line,
)
from mpi_agent.command.dialects import Dialect, dialect_of
from mpi_agent.command.placement import Placement, place, placement_request
from mpi_agent.command.plan import Choice, LaunchPlan, LaunchRequest
from mpi_agent.command.respell import keep_spelling_or_correct
from mpi_agent.command.variables import (
    is_set,
    program_variables,
    removed_variables,
    users_own_ssh_arguments,
)
from mpi_agent.errors import SettingsError
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack

__all__ = ["build_plan", "render_hostfile"]

_DAEMON_PREFIX_ON_EVERY_PATH = "/usr"


def build_plan(request: LaunchRequest, hosts: HostList, stack: MpiStack | None) -> LaunchPlan:
    """Return the plan for a program on the hosts of the job.

    Args:
        stack: None only for a program that starts its processes itself.

    Raises:
        SlotsExceededError, HostsUnusedError: the numbers do not fit, see `command.placement`.
        SettingsError: the line cannot be run, or a host cannot be given as it is.
        StackUnsupportedError: the installed MPI has no dialect.
    """
    kind = kind_of_program(request.program)
    line = read_mpirun_line(request.program) if kind is ProgramKind.MPIRUN_LINE else None
    if line is not None and not line.program:
        raise SettingsError(
            "cannot run an mpirun line without a program: " + " ".join(request.program),
            hint="put the program behind mpirun's options",
        )
    dialect = dialect_of(stack) if stack is not None else None
    if dialect is not None and not dialect.takes_ipv6_addresses:
        _refuse_ipv6_addresses(hosts, dialect)
    wanted = placement_request(
        line,
        request.environ,
        np=request.np,
        mapping_is_set=dialect is not None
        and is_set(dialect.mapping_policy, line, request.environ, dialect),
        allows_idle_hosts=request.allows_idle_hosts,
        strict=request.strict,
    )
    placement = place(wanted, hosts)
    if kind is ProgramKind.OTHER_LAUNCHER or stack is None or dialect is None:
        return _plan_other_launcher(request, hosts, placement, dialect)
    builder = _MpirunBuilder(request, hosts, stack, dialect, line, placement)
    return builder.build()


def _refuse_ipv6_addresses(hosts: HostList, dialect: Dialect) -> None:
    for host in hosts.remote:
        if ":" in host.name:
            raise SettingsError(
                f'cannot launch on "{host.name}": mpirun of {dialect.name} hangs on a host that is '
                "given by its IPv6 address",
                hint="give the host by its name",
            )


def render_hostfile(hosts: HostList) -> str:
    """Return an Open MPI hostfile: one line a host, slots always explicit."""
    return "".join(f"{host.name} slots={host.slots}\n" for host in hosts.hosts)


class _MpirunBuilder:
    """Collects the choices for one mpirun command."""

    def __init__(
        self,
        request: LaunchRequest,
        hosts: HostList,
        stack: MpiStack,
        dialect: Dialect,
        line: MpirunLine | None,
        placement: Placement,
    ) -> None:
        self._request = request
        self._hosts = hosts
        self._stack = stack
        self._dialect = dialect
        self._line = line
        self._placement = placement
        self._choices: list[Choice] = []
        self._notes = list(placement.notes)
        self._own_variables = program_variables(request, hosts, placement.np)

    def build(self) -> LaunchPlan:
        """Return the plan."""
        request, line = self._request, self._line
        tokens = self._user_tokens()
        self._choose_hosts_and_counts()
        self._choose_permission_and_prefix()
        self._choose_parameters()
        self._choose_ssh()
        self._choose_variables()
        added = tuple(word for choice in self._choices for word in choice.words)
        called_as = line.called_as.rsplit("/", 1)[-1] if line is not None else "mpirun"
        return LaunchPlan(
            executable=self._stack.mpirun,
            argv=(called_as, *added, *tokens),
            variables=(*self._own_variables, ("MPI_AGENT_SHIM", "off")),
            removed_variables=removed_variables(request.environ, self._dialect),
            hostfile_path=request.hostfile_path,
            hostfile_text=render_hostfile(self._hosts),
            np=self._placement.np,
            choices=tuple(self._choices),
            notes=tuple(self._notes),
            secret_names=frozenset(name for name, _ in request.environment.extra),
            daemon=self._daemon(),
        )

    def _daemon(self) -> str | None:
        """Return what mpirun will start on each host, as its own prefix mode finds it."""
        dialect = self._dialect
        if any(self._has(name) or self._is_set(name) for name in dialect.daemon_parameters):
            return None
        if self._line is not None and self._line.has("prefix"):
            return f"{self._line.values_of('prefix')[0]}/bin/{dialect.daemon}"
        return _default_daemon(dialect, self._stack)

    def _user_tokens(self) -> tuple[str, ...]:
        """Return the user's own words, corrected only where they would be refused or miss us."""
        if self._line is None:
            return self._request.program
        tokens, notes = keep_spelling_or_correct(
            self._line, self._dialect, self._request.hostfile_path, self._ssh_arguments()
        )
        self._notes += notes
        return tokens

    def _ssh_arguments(self) -> str | None:
        return f"-F {self._request.ssh.config_path}" if self._request.ssh else None

    def _add(self, reason: str, *words: str) -> None:
        self._choices.append(Choice(words=words, reason=reason))

    def _has(self, *names: str) -> bool:
        return self._line is not None and self._line.has(*names)

    def _choose_hosts_and_counts(self) -> None:
        source = self._hosts.source
        if not self._has("hostfile") and not self._request.keeps_host_option:
            self._add(f"rendered from {source}", "--hostfile", self._request.hostfile_path)
        if not self._has("np"):
            total = f"{self._placement.np} = " + (
                "as asked"
                if self._placement.np != self._hosts.total_slots
                else f"the sum of slots, {len(self._hosts.hosts)} host(s)"
            )
            self._add(total, "-np", str(self._placement.np))
        if self._placement.map_by is not None:
            self._add(
                "explicit, so that every version does the same", "--map-by", self._placement.map_by
            )
        if not self._has("bind-to") and not self._is_set(self._dialect.binding_policy):
            self._add(
                "binding to cores fails where a container has fewer than slots",
                "--bind-to",
                "none",
            )

    def _choose_permission_and_prefix(self) -> None:
        if self._request.runs_as_root and not self._has("allow-run-as-root"):
            self._add("the container runs as root", "--allow-run-as-root")
        needs_prefix = (
            not self._dialect.finds_its_daemon
            and self._stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH
        )
        if needs_prefix and not self._has("prefix"):
            self._add(
                "the daemon is in no directory of a login's PATH", "--prefix", self._stack.prefix
            )

    def _choose_parameters(self) -> None:
        for parameter in self._dialect.parameters:
            if not self._is_set(parameter.name):
                option = self._dialect.parameter_option
                self._add(parameter.reason, option, parameter.name, parameter.value)
        if self._request.loopback_only and not self._is_set("btl_tcp_if_include"):
            self._add("all hosts are on this machine", "--mca", "btl_tcp_if_include", "127.0.0.0/8")

    def _choose_ssh(self) -> None:
        arguments, ssh = self._ssh_arguments(), self._request.ssh
        if arguments is None or ssh is None:
            return
        option = self._dialect.parameter_option
        if not any(
            self._line is not None and self._line.parameter(name) is not None
            for name in self._dialect.ssh_arguments_aliases
        ):
            extra = users_own_ssh_arguments(self._request.environ, self._dialect)
            words = f"{arguments} {extra}".strip()
            self._add(
                "key, port, user and host keys of this job",
                option,
                self._dialect.ssh_arguments,
                words,
            )
        if ssh.agent is not None and not self._is_set(self._dialect.ssh_agent):
            self._add("the built-in ssh client dials", option, self._dialect.ssh_agent, ssh.agent)

    def _choose_variables(self) -> None:
        """Pass variables by name, so that no value stands in argv."""
        own = {value.partition("=")[0] for value in self._line.values_of("x")} if self._line else ()
        extra = (name for name, _ in self._own_variables)
        names = sorted({*self._request.environment.names, *extra})
        if self._line is not None and self._line.parameter("mca_base_env_list"):
            self._notes.append("mca_base_env_list is given, so no variable is added with -x")
            return
        for name in names:
            if name not in own:
                self._add(f"variable {name}", "-x", name)

    def _is_set(self, name: str) -> bool:
        return is_set(name, self._line, self._request.environ, self._dialect)


def _default_daemon(dialect: Dialect, stack: MpiStack) -> str:
    if dialect.finds_its_daemon or stack.prefix != _DAEMON_PREFIX_ON_EVERY_PATH:
        return f"{stack.prefix}/bin/{dialect.daemon}"
    return dialect.daemon


def _plan_other_launcher(
    request: LaunchRequest, hosts: HostList, placement: Placement, dialect: Dialect | None
) -> LaunchPlan:
    """Return the plan for a program that starts its processes itself: told by variables alone."""
    variables = [
        *program_variables(request, hosts, placement.np),
        ("MPI_AGENT_HOSTFILE", request.hostfile_path),
        ("MPI_AGENT_NP", str(placement.np)),
        ("MPI_AGENT_SLOTS", str(hosts.hosts[0].slots)),
        ("MPI_AGENT_FIRST_HOST", hosts.hosts[0].name),
        ("MPI_AGENT_SHIM", "off"),
        *(_parameters_as_variables(request, dialect) if dialect is not None else ()),
    ]
    name = request.program[0]
    return LaunchPlan(
        executable=name,
        argv=request.program,
        variables=tuple(variables),
        removed_variables=(),
        hostfile_path=request.hostfile_path,
        hostfile_text=render_hostfile(hosts),
        np=placement.np,
        choices=(),
        notes=(
            *placement.notes,
            f'"{name}" runs once, on the launcher, and is told the hosts by variables; '
            "put mpirun in front of it to run it on the hosts",
        ),
        secret_names=frozenset(n for n, _ in request.environment.extra),
    )


def _parameters_as_variables(
    request: LaunchRequest, dialect: Dialect
) -> tuple[tuple[str, str], ...]:
    """Return what an mpirun that the program calls by itself needs, where the user set nothing."""
    wanted = {
        dialect.default_hostfile: request.hostfile_path,
        dialect.binding_policy: "none",
        **{parameter.name: parameter.value for parameter in dialect.parameters},
    }
    if request.ssh is not None and request.ssh.agent is not None:
        wanted[dialect.ssh_agent] = request.ssh.agent
    prefix = dialect.parameter_variable_prefix
    found = [
        (prefix + name, value)
        for name, value in wanted.items()
        if not is_set(name, None, request.environ, dialect)
    ]
    if request.ssh is not None:
        own = users_own_ssh_arguments(request.environ, dialect)
        arguments = f"-F {request.ssh.config_path} {own}".strip()
        found.append((prefix + dialect.ssh_arguments, arguments))
    if request.runs_as_root:
        found += [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]
    return tuple(found)
