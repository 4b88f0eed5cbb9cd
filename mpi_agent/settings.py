"""One table of all settings, and the typed values each command takes from it.

A value comes from the flag, else from the variable `MPI_AGENT_<FLAG>`, else from the default here;
None means that the agent finds it out. An unknown `MPI_AGENT_*` variable is reported, not fatal:
Kubernetes injects variables named after Services, so no setting is called PORT or HOST alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from mpi_agent.errors import SettingsError

__all__ = [
    "ALL_SETTINGS",
    "Backend",
    "Given",
    "Kind",
    "LaunchSettings",
    "LocalSettings",
    "Setting",
    "WorkerSettings",
    "parse_duration_s",
    "settings_of",
    "unknown_variables",
    "variable_of",
]

_PREFIX = "MPI_AGENT_"
_NOT_SETTINGS = frozenset({"MPI_AGENT_SHIM", "MPI_AGENT_FIRST_HOST", "MPI_AGENT_TRACEBACK"})
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


class Kind(Enum):
    """How a value is written; the text is what help shows in its place."""

    TEXT = "TEXT"
    LIST = "NAME[=VALUE]"
    COUNT = "N"
    PORT_NUMBER = "PORT"
    DURATION = "DURATION"
    SWITCH = ""
    BACKEND = "auto|openssh|builtin"


class Backend(Enum):
    """Which ssh is used: OpenSSH's programs or the built-in ones."""

    AUTO = "auto"
    OPENSSH = "openssh"
    BUILTIN = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table: flag, unit, default, help and the commands that know it."""

    name: str
    kind: Kind
    help: str
    commands: tuple[str, ...]
    default: str | None = None

    @property
    def flag(self) -> str:
        """The flag as it is typed."""
        return f"--{self.name}"


_LAUNCH, _WORKER, _LOCAL, _READY = ("launch", "plan"), ("worker",), ("local",), ("ready",)


def _row(
    name: str, kind: Kind, commands: tuple[str, ...], text: str, default: str | None = None
) -> Setting:
    return Setting(name=name, kind=kind, help=text, commands=commands, default=default)


ALL_SETTINGS: tuple[Setting, ...] = (
    _row("hosts", Kind.TEXT, _LAUNCH, "Hosts of the job, as NAME[:SLOTS],..."),
    _row("hostfile", Kind.TEXT, _LAUNCH, "File that lists the job's hosts (any MPI's form)."),
    _row("workers", Kind.COUNT, _LAUNCH, "How many hosts a discover script must list."),
    _row("workers", Kind.COUNT, _LOCAL, "Workers to start on this machine.", "2"),
    _row("slots", Kind.COUNT, _LAUNCH, "Slots of a host whose source gives no count."),
    _row("slots", Kind.COUNT, _LOCAL, "Slots of each worker.", "1"),
    _row("np", Kind.COUNT, (*_LAUNCH, *_LOCAL), "Processes; default: the sum of slots."),
    _row("timeout", Kind.DURATION, (*_LAUNCH, *_LOCAL), "Limit of the wait; 0 means none.", "10m"),
    _row("parallel", Kind.COUNT, (*_LAUNCH, *_LOCAL), "Probes in flight at a time.", "128"),
    _row(
        "grace", Kind.DURATION, (*_LAUNCH, *_LOCAL, *_WORKER), "Time between TERM and KILL.", "25s"
    ),
    _row(
        "mpi",
        Kind.TEXT,
        (*_LAUNCH, *_LOCAL),
        "Which MPI: auto, a name such as openmpi5, a prefix or an mpirun.",
        "auto",
    ),
    _row("env", Kind.LIST, (*_LAUNCH, *_LOCAL), "Variable for the ranks; may be repeated."),
    _row("no-env", Kind.LIST, (*_LAUNCH, *_LOCAL), "Variable kept from the ranks; repeatable."),
    _row(
        "allow-idle-hosts",
        Kind.SWITCH,
        (*_LAUNCH, *_LOCAL),
        "Run even if some hosts of the job get no process.",
    ),
    _row("strict", Kind.SWITCH, (*_LAUNCH, *_LOCAL), "Idle slots are an error, not a note."),
    _row("ssh", Kind.BACKEND, (*_LAUNCH, *_LOCAL), "Which ssh client mpirun uses.", "auto"),
    _row("ssh-port", Kind.PORT_NUMBER, _LAUNCH, "Port of the workers' ssh servers."),
    _row("ssh-port", Kind.PORT_NUMBER, _WORKER, "Port to listen on; default 2222."),
    _row("ssh-key", Kind.TEXT, (*_LAUNCH, *_WORKER), "The job's private key."),
    _row("ssh-user", Kind.TEXT, _LAUNCH, "Account on the workers; default: this one's name."),
    _row(
        "insecure-host-keys",
        Kind.SWITCH,
        _LAUNCH,
        "Do not check host keys: for workers that do not run the agent.",
    ),
    _row("sshd", Kind.BACKEND, (*_WORKER, *_LOCAL), "Which ssh server a worker runs.", "auto"),
    _row("listen-address", Kind.TEXT, _WORKER, "Address to listen on; default: all."),
    _row("worker-name", Kind.TEXT, _WORKER, "This worker's name; default: the host name."),
    _row(
        "ready-file",
        Kind.TEXT,
        (*_WORKER, *_READY),
        "File that exists while the worker is ready; default: `ready` in the state directory.",
    ),
    _row(
        "state-dir",
        Kind.TEXT,
        (*_LAUNCH, *_WORKER, *_READY, *_LOCAL),
        "Private directory; default: the first writable of /run/mpi-agent, "
        "/tmp/mpi-agent-<uid>, /dev/shm/mpi-agent-<uid>.",
    ),
)


def settings_of(command: str) -> tuple[Setting, ...]:
    """Return the rows that a command knows, in the order of the table."""
    return tuple(row for row in ALL_SETTINGS if command in row.commands)


def variable_of(name: str) -> str:
    """Return the environment variable of a setting: `ssh-port` is `MPI_AGENT_SSH_PORT`."""
    return _PREFIX + name.upper().replace("-", "_")


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return one sentence for each `MPI_AGENT_*` variable that no setting has."""
    known = {variable_of(row.name) for row in ALL_SETTINGS} | _NOT_SETTINGS
    strangers = sorted(n for n in environ if n.startswith(_PREFIX) and n not in known)
    return tuple(_describe_stranger(name, sorted(known)) for name in strangers)


def _describe_stranger(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"variable {name} is no setting" + (f"; {near[0]} is" if near else "")


def parse_duration_s(text: str) -> float:
    """Return seconds for `90s`, `10m`, `1h30m`, `250ms`, or a bare number of seconds.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise ValueError("not a duration such as 90s or 10m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


class Given:
    """What the user gave to one command: flags first, then variables, then the table's default."""

    def __init__(
        self, command: str, flags: Mapping[str, str | None], environ: Mapping[str, str]
    ) -> None:
        self._rows = {row.name: row for row in settings_of(command)}
        self._flags = flags
        self._environ = environ

    def text(self, name: str) -> str | None:
        """Return the value as written, None when nobody gave one and there is no default."""
        return self._value(name)[0]

    def count(self, name: str) -> int | None:
        """Return a whole number of at least 1."""
        value, origin = self._value(name)
        if value is None:
            return None
        if not re.fullmatch(r"\d+", value.strip()) or int(value) < 1:
            raise _bad_value(value, origin, "not a whole number of at least 1")
        return int(value)

    def port(self, name: str) -> int | None:
        """Return a TCP port."""
        number = self.count(name)
        if number is not None and number > 65535:
            raise _bad_value(str(number), self._value(name)[1], "ports end at 65535")
        return number

    def duration_s(self, name: str) -> float:
        """Return seconds; settings of this kind always have a default."""
        value, origin = self._value(name)
        try:
            return parse_duration_s(value or "0")
        except ValueError as error:
            raise _bad_value(value or "", origin, str(error)) from error

    def switch(self, name: str) -> bool:
        """Return whether a switch is on."""
        value, origin = self._value(name)
        word = (value or "").strip().lower()
        if word not in _TRUE | _FALSE:
            raise _bad_value(word, origin, "neither true nor false")
        return word in _TRUE

    def backend(self, name: str) -> Backend:
        """Return the ssh back end chosen."""
        value, origin = self._value(name)
        try:
            return Backend((value or "auto").strip().lower())
        except ValueError as error:
            raise _bad_value(value or "", origin, "none of auto, openssh, builtin") from error

    def names(self, name: str) -> tuple[str, ...]:
        """Return the items of a repeated flag, or of a variable that separates them by commas."""
        value, _ = self._value(name)
        separator = "\0" if self._flags.get(name) is not None else ","
        return tuple(item for item in (value or "").split(separator) if item.strip())

    def _value(self, name: str) -> tuple[str | None, str]:
        row = self._rows[name]
        flag = self._flags.get(name)
        if flag is not None:
            return flag, row.flag
        variable = variable_of(name)
        if self._environ.get(variable):
            return self._environ[variable], f"variable {variable}"
        return row.default, "default"


def _bad_value(value: str, origin: str, reason: str) -> SettingsError:
    return SettingsError(
        f'cannot use "{value}" for {origin}: {reason}', hint=f"correct {origin} or leave it out"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """What `launch` and `plan` were told; None means: find out.

    Attributes:
        timeout_s: limit of the wait, None for none.
    """

    hosts: str | None
    hostfile: str | None
    workers: int | None
    slots: int | None
    np: int | None
    timeout_s: float | None
    parallel: int
    grace_s: float
    mpi: str
    env: tuple[str, ...]
    no_env: tuple[str, ...]
    allow_idle_hosts: bool
    strict: bool
    ssh: Backend
    ssh_port: int | None
    ssh_key: str | None
    ssh_user: str | None
    insecure_host_keys: bool
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> LaunchSettings:
        """Return the typed values.

        Raises:
            SettingsError: a value cannot be understood, or two contradict each other.
        """
        if given.text("hosts") and given.text("hostfile"):
            raise SettingsError(
                "cannot take the hosts from two places: hosts and hostfile are both given",
                hint="give --hosts or --hostfile, not both",
            )
        return cls(
            hosts=given.text("hosts"),
            hostfile=given.text("hostfile"),
            workers=given.count("workers"),
            slots=given.count("slots"),
            np=given.count("np"),
            timeout_s=given.duration_s("timeout") or None,
            parallel=given.count("parallel") or 1,
            grace_s=given.duration_s("grace"),
            mpi=given.text("mpi") or "auto",
            env=given.names("env"),
            no_env=given.names("no-env"),
            allow_idle_hosts=given.switch("allow-idle-hosts"),
            strict=given.switch("strict"),
            ssh=given.backend("ssh"),
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            ssh_user=given.text("ssh-user"),
            insecure_host_keys=given.switch("insecure-host-keys"),
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What `worker` was told; None means: find out."""

    ssh_port: int | None
    ssh_key: str | None
    sshd: Backend
    listen_address: str | None
    worker_name: str | None
    ready_file: str | None
    grace_s: float
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> WorkerSettings:
        """Return the typed values; raises SettingsError like `LaunchSettings.from_given`."""
        return cls(
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            sshd=given.backend("sshd"),
            listen_address=given.text("listen-address"),
            worker_name=given.text("worker-name"),
            ready_file=given.text("ready-file"),
            grace_s=given.duration_s("grace"),
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What `local` was told; None means: find out."""

    workers: int
    slots: int
    np: int | None
    timeout_s: float | None
    parallel: int
    grace_s: float
    mpi: str
    env: tuple[str, ...]
    no_env: tuple[str, ...]
    allow_idle_hosts: bool
    strict: bool
    ssh: Backend
    sshd: Backend
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> LocalSettings:
        """Return the typed values; raises SettingsError like `LaunchSettings.from_given`."""
        return cls(
            workers=given.count("workers") or 1,
            slots=given.count("slots") or 1,
            np=given.count("np"),
            timeout_s=given.duration_s("timeout") or None,
            parallel=given.count("parallel") or 1,
            grace_s=given.duration_s("grace"),
            mpi=given.text("mpi") or "auto",
            env=given.names("env"),
            no_env=given.names("no-env"),
            allow_idle_hosts=given.switch("allow-idle-hosts"),
            strict=given.switch("strict"),
            ssh=given.backend("ssh"),
            sshd=given.backend("sshd"),
            state_dir=given.text("state-dir"),
        )
