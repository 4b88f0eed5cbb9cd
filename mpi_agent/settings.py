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

from mpi_agent.setting_words import (
    Backend,
    DrainSignal,
    ExitWithLauncher,
    Form,
    HostfileDialect,
    KeyExchange,
    LoginFiles,
    PlanForm,
    StallAction,
)

__all__ = [
    "ALL_SETTINGS",
    "Kind",
    "Setting",
    "settings_of",
    "unknown_variables",
    "variable_of",
]

_PREFIX = "MPI_AGENT_"
_NOT_SETTINGS = frozenset(
    "MPI_AGENT_SHIM MPI_AGENT_FIRST_HOST MPI_AGENT_HOST_COUNT MPI_AGENT_TRACEBACK"
    " MPI_AGENT_RUN_ID MPI_AGENT_RESTART_COUNT MPI_AGENT_WORKER_CALL".split()
)


class Kind(Enum):
    """How a value is written; the text is what help shows in its place."""

    TEXT = "TEXT"
    LIST = "NAME[=VALUE]"
    COUNT = "N"
    COUNT_FROM_0 = "N (from 0)"
    COUNT_OR_AUTO = "N|auto"
    PORT_NUMBER = "PORT"
    PORT_RANGE = "FIRST-LAST"
    DURATION = "DURATION"
    SIZE = "SIZE"
    SWITCH = ""
    CHOICE = "WORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table: flag, kind, default, help and the commands that know it.

    Attributes:
        choices: the words that a choice allows; empty for every other kind.
        stands_for: what help shows in place of the value, where the kind's own word says less.
    """

    name: str
    kind: Kind
    help: str
    commands: tuple[str, ...]
    default: str | None = None
    choices: tuple[str, ...] = ()
    stands_for: str = ""

    @property
    def flag(self) -> str:
        """The flag as it is typed."""
        return f"--{self.name}"

    @property
    def placeholder(self) -> str:
        """What stands for the value in help and on pages; empty for a switch."""
        return "|".join(self.choices) or self.stands_for or self.kind.value


_LAUNCH, _WAIT, _WORKER = ("launch", "plan"), ("wait",), ("worker",)
_LOCAL, _READY, _SIDECAR, _CALL = ("local",), ("ready",), ("sidecar",), ("worker-call",)
_PLAN, _HOSTS, _HOSTFILE = ("plan",), ("hosts",), ("hostfile",)
_EXPLAIN = ("explain",)
_JOB = (*_LAUNCH, *_WAIT)
_FINDS = (*_JOB, *_HOSTS, *_HOSTFILE)
_RUN = (*_LAUNCH, *_LOCAL)
_ANY_WAIT = (*_JOB, *_LOCAL)


def _row(
    name: str, kind: Kind, commands: tuple[str, ...], text: str, default: str | None = None
) -> Setting:
    return Setting(name=name, kind=kind, help=text, commands=commands, default=default)


def _choice(
    name: str, words: type[Enum], commands: tuple[str, ...], text: str, default: Enum
) -> Setting:
    return Setting(
        name=name,
        kind=Kind.CHOICE,
        help=text,
        commands=commands,
        default=default.value,
        choices=tuple(word.value for word in words),
    )


def _list(name: str, item: str, commands: tuple[str, ...], text: str) -> Setting:
    return Setting(name=name, kind=Kind.LIST, help=text, commands=commands, stands_for=item)


_REPEATED = "may be repeated, and the variable separates by commas"

ALL_SETTINGS: tuple[Setting, ...] = (
    _row("hosts", Kind.TEXT, _FINDS, "Hosts of the job, as NAME[:SLOTS],..."),
    _row("hostfile", Kind.TEXT, _FINDS, "File that lists the job's hosts (any MPI's form)."),
    _row("workers", Kind.COUNT, _FINDS, "How many hosts a discover script must list."),
    _row("workers", Kind.COUNT, _LOCAL, "Workers to start on this machine.", "2"),
    _row("min-workers", Kind.COUNT, _WAIT, "How many ready hosts are enough; default: all."),
    _row(
        "min-workers",
        Kind.COUNT,
        ("launch",),
        "How many ready hosts are enough once --timeout is over; default: all.",
    ),
    _row(
        "slots",
        Kind.COUNT_OR_AUTO,
        _FINDS,
        "Slots of a host whose source gives no count; auto: as many as it has GPUs, else CPUs.",
    ),
    _row("slots", Kind.COUNT, _LOCAL, "Slots of each worker.", "1"),
    _row("np", Kind.COUNT, _RUN, "Processes; default: the sum of slots."),
    _row("timeout", Kind.DURATION, (*_FINDS, *_LOCAL), "Limit of the wait; 0 means none.", "10m"),
    _row("parallel", Kind.COUNT, _ANY_WAIT, "Probes in flight at a time.", "128"),
    _row("grace", Kind.DURATION, (*_RUN, *_WORKER), "Time between TERM and KILL.", "25s"),
    _choice(
        "stop-signal",
        DrainSignal,
        _RUN,
        "What ranks get when the job is told to stop.",
        DrainSignal.TERM,
    ),
    _row(
        "launch-timeout",
        Kind.DURATION,
        _RUN,
        "Limit from mpirun's start to ranks on every host; 0: none; default: from their number.",
    ),
    _row(
        "straggler-grace",
        Kind.DURATION,
        _RUN,
        "How long ranks may go on after one has failed; 0 means for ever.",
        "30s",
    ),
    _row(
        "worker-timeout",
        Kind.DURATION,
        _RUN,
        "Silence after which a worker is lost; 0 means never.",
        "15s",
    ),
    Setting(
        name="max-restarts",
        kind=Kind.COUNT_FROM_0,
        help="How often the program is begun again; 0: never.",
        commands=_RUN,
        default="0",
        stands_for="N",
    ),
    _row(
        "restart-window",
        Kind.DURATION,
        _RUN,
        "Only restarts within this time count; 0 means all do.",
        "0",
    ),
    _row(
        "restart-delay",
        Kind.DURATION,
        _RUN,
        "Pause before the first restart; doubled each time, up to 5m.",
        "1s",
    ),
    _list(
        "restart-on",
        "VERDICT",
        _RUN,
        f"Endings after which the program is begun again; {_REPEATED}; default: workers-lost and"
        " launch-failed.",
    ),
    _row(
        "stall-timeout",
        Kind.DURATION,
        _RUN,
        "Report a program that wrote nothing for this long; 0: never.",
        "0",
    ),
    _choice(
        "stall-action",
        StallAction,
        _RUN,
        "What becomes of a stalled program: it is reported, or ended with code 203.",
        StallAction.REPORT,
    ),
    _row("tag", Kind.SWITCH, _RUN, "Put each rank's number in front of its lines."),
    _row("log-dir", Kind.TEXT, _RUN, "Directory on the launcher for a file of each rank's output."),
    _row(
        "log-limit", Kind.SIZE, _RUN, "Most bytes of each of these files; 0 means no limit.", "64M"
    ),
    _row(
        "mpi",
        Kind.TEXT,
        (*_FINDS, *_LOCAL),
        "Which MPI: auto, a name such as openmpi5, a prefix or an mpirun.",
        "auto",
    ),
    _row("env", Kind.LIST, _RUN, f"Variable for the ranks; {_REPEATED}."),
    _list("env-file", "FILE", _RUN, f"File of variables for the ranks; {_REPEATED}."),
    _list("env-prefix", "PREFIX", _RUN, f"Start of names that go to the ranks; {_REPEATED}."),
    _list("no-env", "NAME", _RUN, f"Variable kept from the ranks, or NAME*; {_REPEATED}."),
    _row(
        "allow-idle-hosts",
        Kind.SWITCH,
        _RUN,
        "Run even if some hosts of the job get no process.",
    ),
    _row("strict", Kind.SWITCH, _RUN, "Contradictions, such as idle slots, are errors."),
    _row(
        "port-range",
        Kind.PORT_RANGE,
        _LAUNCH,
        "Ports on which daemons and ranks may listen, for NetworkPolicies.",
    ),
    _row("no-defaults", Kind.SWITCH, _RUN, "Add only what is necessary or asked for."),
    _row("exec", Kind.SWITCH, _LAUNCH, "Become mpirun after the wait, without supervision."),
    _choice("ssh", Backend, _RUN, "Which ssh client mpirun uses.", Backend.AUTO),
    _choice(
        "ssh-kex",
        KeyExchange,
        _RUN,
        "Which key exchange that client prefers: a cheap one, or its own default.",
        KeyExchange.AUTO,
    ),
    _row("ssh-port", Kind.PORT_NUMBER, _JOB, "Port of the workers' ssh servers."),
    _row("ssh-port", Kind.PORT_NUMBER, _WORKER, "Port to listen on; default 2222."),
    _row("ssh-port", Kind.PORT_NUMBER, _SIDECAR, "Port of the ssh server next door; default 2222."),
    _row("ssh-address", Kind.TEXT, _SIDECAR, "Its address.", "127.0.0.1"),
    _row("ssh-key", Kind.TEXT, (*_JOB, *_WORKER), "The job's private key."),
    _row("ssh-user", Kind.TEXT, _JOB, "Account on the workers; default: this one's name."),
    _row(
        "insecure-host-keys",
        Kind.SWITCH,
        _JOB,
        "Do not check host keys: for workers that do not run the agent.",
    ),
    _choice("sshd", Backend, (*_WORKER, *_LOCAL), "Which ssh server a worker runs.", Backend.AUTO),
    _row("listen-address", Kind.TEXT, _WORKER, "Address to listen on; default: all."),
    _row("worker-name", Kind.TEXT, _WORKER, "This worker's name; default: the host name."),
    _choice(
        "login-files",
        LoginFiles,
        _WORKER,
        "Whether sessions read bash's start-up files.",
        LoginFiles.SKIP,
    ),
    _choice(
        "drain-signal",
        DrainSignal,
        _WORKER,
        "What ranks get when this worker is told to end.",
        DrainSignal.TERM,
    ),
    _row(
        "launcher-gone",
        Kind.DURATION,
        _WORKER,
        "How long ranks live on without their launcher; 0 means for ever.",
        "60s",
    ),
    _choice(
        "exit-with-launcher",
        ExitWithLauncher,
        _WORKER,
        "End when the launcher says that the job is over: with 0, or with the job's code.",
        ExitWithLauncher.NEVER,
    ),
    _row(
        "ready-file",
        Kind.TEXT,
        (*_WORKER, *_READY),
        "File that exists while the worker is ready; default: `ready` in the state directory.",
    ),
    _row(
        "http-port",
        Kind.PORT_NUMBER,
        (*_JOB, *_WORKER),
        "Port that serves health, status and metrics; default: none.",
    ),
    _row("http-port", Kind.PORT_NUMBER, _SIDECAR, "Port of its HTTP pages.", "9390"),
    _choice(
        "output",
        Form,
        _WAIT,
        "json prints every host on stdout; text prints nothing there.",
        Form.TEXT,
    ),
    _choice(
        "output",
        PlanForm,
        _PLAN,
        "text explains, json tells everything, shell is a script that runs it.",
        PlanForm.TEXT,
    ),
    _row(
        "environment",
        Kind.SWITCH,
        _PLAN,
        "Print a table of every variable: whether it travels, and why.",
    ),
    _choice("output", Form, _HOSTS, "json tells every host's slots and role.", Form.TEXT),
    _choice("output", Form, _EXPLAIN, "json tells every finding.", Form.TEXT),
    _choice(
        "dialect",
        HostfileDialect,
        _HOSTFILE,
        "Whose form; auto is that of the MPI installed here.",
        HostfileDialect.AUTO,
    ),
    _choice(
        "log-format",
        Form,
        (*_FINDS, *_LOCAL, *_WORKER, *_SIDECAR),
        "How the log on stderr is written.",
        Form.TEXT,
    ),
    _row("state-dir", Kind.TEXT, _LOCAL, "Directory for the job's temporary files.", "/tmp"),
    _row(
        "state-dir",
        Kind.TEXT,
        (*_JOB, *_WORKER, *_READY, *_CALL),
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
