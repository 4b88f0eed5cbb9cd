"""One table of all settings: flag, variable, kind, default, help.

A value comes from the flag, else from the variable `MPI_AGENT_<FLAG>`, else from the default here;
None means that the agent finds it out. An unknown `MPI_AGENT_*` variable is reported, not fatal:
Kubernetes injects variables named after Services, so no setting is called PORT or HOST alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "ALL_SETTINGS",
    "Backend",
    "Kind",
    "Setting",
    "settings_of",
    "unknown_variables",
    "variable_of",
]

_PREFIX = "MPI_AGENT_"
_NOT_SETTINGS = frozenset({"MPI_AGENT_SHIM", "MPI_AGENT_FIRST_HOST", "MPI_AGENT_TRACEBACK"})


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
    """One row of the table: flag, kind, default, help and the commands that know it."""

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


_REPEATED = "may be repeated, and the variable separates by commas"

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
    _row("env", Kind.LIST, (*_LAUNCH, *_LOCAL), f"Variable for the ranks; {_REPEATED}."),
    _row("no-env", Kind.LIST, (*_LAUNCH, *_LOCAL), f"Variable kept from the ranks; {_REPEATED}."),
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
    _row("state-dir", Kind.TEXT, _LOCAL, "Directory for the job's temporary files.", "/tmp"),
    _row(
        "state-dir",
        Kind.TEXT,
        (*_LAUNCH, *_WORKER, *_READY),
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
