"""What launcher and worker say to each other, as values and as lines of JSON.

There is one way: a login with the job's key runs `worker-call VERB`, which carries lines between
its own streams and the worker's unix socket. The first line names the verb. `status` and `clean`
are answered by one line. `watch` begins a run and stays open: the worker tells at once what the
launcher must know, the launcher says now and then that it lives, and at the end that the job is
over, which the worker answers with a farewell. What is no line of this protocol is answered with a
refusal and the end of the conversation. A line of a kind that one side does not know is passed
over, so is a field, so that an older agent can speak with a newer one.

A launcher is known by its name and its container: when the same name comes back in another
container, what the former left behind belongs to nobody any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from math import isfinite
from typing import Any, ClassVar, TypeVar, get_type_hints

__all__ = [
    "LONGEST_LINE_BYTES",
    "RUN_MARK",
    "SOCKET_NAME",
    "Alive",
    "Call",
    "Cleaned",
    "Draining",
    "Farewell",
    "GraceOver",
    "LauncherId",
    "Line",
    "OutOfMemory",
    "Over",
    "ProtocolError",
    "Refused",
    "Verb",
    "Watching",
    "parse_call",
    "parse_line",
    "render_call",
    "render_line",
]

SOCKET_NAME = "worker.sock"
"""In the worker's state directory: where its agent is spoken with."""
RUN_MARK = "run"
"""Beside it while something of a run may be left: there may be something to clean."""
LONGEST_LINE_BYTES = 65536
_LONGEST_WORD = 4096
_LONGEST_RUN_ID = 128
_NO_VERB = "there is no verb"
_MOST_PROCESSES, _MOST_BYTES, _MOST_SECONDS = 10**6, 1 << 63, 10**9
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "exit_code": (0, 255),
    "ended": (0, _MOST_PROCESSES),
    "killed": (0, _MOST_PROCESSES),
    "left": (0, _MOST_PROCESSES),
    "ranks": (0, _MOST_PROCESSES),
    "kills": (1, _MOST_PROCESSES),
    "used_bytes": (0, _MOST_BYTES),
    "limit_bytes": (0, _MOST_BYTES),
    "grace_s": (0, _MOST_SECONDS),
    "lease_s": (0, _MOST_SECONDS),
}
"""Of the numbers in lines, by their names; what is beyond is no line of this protocol."""


class ProtocolError(ValueError):
    """A line is not one of this protocol."""


class Verb(Enum):
    """What a worker can be asked."""

    STATUS = "status"
    CLEAN = "clean"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherId:
    """Who a launcher is.

    Attributes:
        name: of its host.
        container: the same for every process in one container, another one after a restart.
    """

    name: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The first line of a conversation.

    Attributes:
        launcher: None for a person, who is no run's next launcher either.
        run_id: of the run that begins, with `watch`; empty otherwise. Printable ASCII, because
            processes are found by these bytes in their environment.
    """

    verb: Verb
    launcher: LauncherId | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a conversation after the first."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Check each number: one that cannot be would make whoever reads it stumble later."""
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name, None)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} cannot be {_shown(value)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive(Line):
    """The launcher is still there; the worker says the same in return."""

    kind: ClassVar[str] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Line):
    """The launcher's job has ended.

    Attributes:
        exit_code: of the job, 0 to 255.
    """

    kind: ClassVar[str] = "over"
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned(Line):
    """The worker's answer to `clean`: what became of the processes of nobody's runs.

    Attributes:
        ended: how many are gone.
        killed: how many of those did not end by themselves.
        left: how many are still there, and are told to end again and again; an older agent does
            not say.
    """

    kind: ClassVar[str] = "cleaned"
    ended: int
    killed: int
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Line):
    """The worker's answer to `watch`.

    Attributes:
        lease_s: how long its ranks live without a word of the launcher; None for ever.
    """

    kind: ClassVar[str] = "watching"
    worker: str
    lease_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining(Line):
    """The worker is told to end, and how long its ranks may take.

    Attributes:
        ranks: how many were told so; 0 where no program runs on this worker.
    """

    kind: ClassVar[str] = "draining"
    signal_name: str
    grace_s: float
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceOver(Line):
    """The worker ends what is left here of the launcher's run, now: ranks, or their daemon.

    It is said before the first of them is ended, because mpirun may say anything afterwards.
    """

    kind: ClassVar[str] = "grace-over"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(Line):
    """The kernel killed processes of the worker's container because they took too much memory."""

    kind: ClassVar[str] = "out-of-memory"
    kills: int
    used_bytes: int | None
    limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell(Line):
    """The worker's last line: all it had to tell has been told."""

    kind: ClassVar[str] = "farewell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Line):
    """The worker's last line to whoever said what it does not take."""

    kind: ClassVar[str] = "refused"
    why: str

    @property
    def is_for_ever(self) -> bool:
        """Whether that worker does not know what was asked; any other reason may pass."""
        return self.why.startswith(_NO_VERB)


_LINES: Mapping[str, type[Line]] = {
    line.kind: line
    for line in (
        Alive,
        Over,
        Cleaned,
        Watching,
        Draining,
        GraceOver,
        OutOfMemory,
        Farewell,
        Refused,
    )
}
_Value = TypeVar("_Value")


def render_call(call: Call) -> bytes:
    """Return a conversation's first line."""
    values: dict[str, object] = {"verb": call.verb.value}
    if call.launcher is not None:
        values["launcher"] = asdict(call.launcher)
    if call.run_id:
        values["run_id"] = call.run_id
    return _render(values)


def parse_call(raw: bytes) -> Call:
    """Return what a first line asks for.

    Raises:
        ProtocolError: it asks for nothing that a worker knows.
    """
    values = _parse(raw)
    try:
        verb = Verb(values.get("verb"))
    except ValueError as error:
        raise ProtocolError(f"{_NO_VERB} {_shown(values.get('verb'))}") from error
    launcher, run_id = values.get("launcher"), values.get("run_id", "")
    if not _is_word(run_id) or not run_id.isascii() or len(run_id) > _LONGEST_RUN_ID:
        raise ProtocolError(f"the run_id cannot be {_shown(run_id)}")
    call = Call(
        verb=verb,
        launcher=None if launcher is None else _make(LauncherId, launcher),
        run_id=run_id,
    )
    if verb is Verb.WATCH and not (call.launcher and call.run_id):
        raise ProtocolError("watch needs a launcher and a run_id")
    return call


def render_line(line: Line) -> bytes:
    """Return a line with its end."""
    return _render({"kind": line.kind, **asdict(line)})


def parse_line(raw: bytes) -> Line | None:
    """Return a line, None for one of a kind that is not known here.

    Raises:
        ProtocolError: it is no line of this protocol.
    """
    values = _parse(raw)
    kind = values.get("kind")
    if not isinstance(kind, str):
        raise ProtocolError(f"{_shown(raw)} has no kind")
    line = _LINES.get(kind)
    return None if line is None else _make(line, values)


def _render(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:  # the latter for a line of "[[[[["
        raise ProtocolError(f"{_shown(raw)} is not JSON") from error
    if not isinstance(values, dict):
        raise ProtocolError(f"{_shown(raw)} is not an object")
    return values


def _make(of: type[_Value], values: Any) -> _Value:
    """Return a value from those of its fields that are known here.

    A field with a default is younger than the others, and an older agent does not know it.
    """
    hints = get_type_hints(of)
    known: dict[str, Any] = {}
    for field in fields(of):  # type: ignore[arg-type]
        try:
            value = values[field.name]
        except (KeyError, TypeError) as error:
            if field.default is not MISSING:
                continue
            raise ProtocolError(f"{of.__name__} lacks {field.name}") from error
        if not _fits(value, hints[field.name]):
            raise ProtocolError(f"{field.name} of {of.__name__} cannot be {_shown(value)}")
        known[field.name] = value
    try:
        return of(**known)
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a field's type; whole numbers stand for seconds too."""
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return isinstance(value, hint) and _is_word(value)
    if isinstance(value, int):
        return isinstance(value, hint) or isinstance(0.0, hint)
    return isinstance(value, hint) and (not isinstance(value, float) or isfinite(value))


def _is_word(value: object) -> bool:
    """Return whether a value is text that can stand in a log as it is."""
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_WORD


def _shown(value: object) -> str:
    shown = repr(value[:60] if isinstance(value, bytes | str) else value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
