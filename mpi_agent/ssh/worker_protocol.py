"""What launcher and worker say to each other, as lines of JSON.

There is one way: a login with the job's key runs `worker-call VERB`, which carries lines between
its own streams and the worker's unix socket. The first line names the verb. `status` and `clean`
are answered by one line. `watch` begins a run and stays open: the worker tells at once what the
launcher must know, the launcher says now and then that it lives, and at the end that the job is
over, which the worker answers with a farewell. What is no line of this protocol is answered with a
refusal and the end of the conversation. A line of a kind that one side does not know is passed
over, so is a field, so that an older agent can speak with a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from math import isfinite
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mpi_agent.ssh.worker_words import (
    MOST_NUMBERS,
    NO_VERB,
    Alive,
    Call,
    Cleaned,
    Draining,
    Farewell,
    GraceOver,
    LauncherId,
    Line,
    Measure,
    OutOfMemory,
    Over,
    PassSignal,
    Presence,
    RankGone,
    Refused,
    Restarting,
    Signalled,
    Sweep,
    Swept,
    Throttled,
    Usage,
    Verb,
    Watching,
    shown,
)

__all__ = [
    "LAUNCHERS_NAME",
    "LONGEST_LINE_BYTES",
    "RUN_MARK",
    "SOCKET_NAME",
    "ProtocolError",
    "parse_call",
    "parse_line",
    "render_call",
    "render_line",
]

SOCKET_NAME = "worker.sock"
"""In the worker's state directory: where its agent is spoken with."""
RUN_MARK = "run"
"""Beside it while something of a run may be left: there may be something to clean."""
LAUNCHERS_NAME = "launchers"
"""Beside both: the launcher containers that began a run there, one in a line, the first one first.
Each is known by the first two parts of a run's id, its job and its container."""
LONGEST_LINE_BYTES = 65536
_LONGEST_WORD = 4096
_LONGEST_RUN_ID = 128


class ProtocolError(ValueError):
    """A line is not one of this protocol."""


_LINES: Mapping[str, type[Line]] = {
    line.kind: line
    for line in (
        Alive,
        Over,
        Restarting,
        Sweep,
        PassSignal,
        Measure,
        Cleaned,
        Watching,
        Presence,
        RankGone,
        Signalled,
        Usage,
        Swept,
        Draining,
        GraceOver,
        OutOfMemory,
        Throttled,
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
        raise ProtocolError(f"{NO_VERB} {shown(values.get('verb'))}") from error
    launcher, run_id = values.get("launcher"), values.get("run_id", "")
    if not _is_word(run_id) or not run_id.isascii() or len(run_id) > _LONGEST_RUN_ID:
        raise ProtocolError(f"the run_id cannot be {shown(run_id)}")
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
        raise ProtocolError(f"{shown(raw)} has no kind")
    line = _LINES.get(kind)
    return None if line is None else _make(line, values)


def _render(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:  # the latter for a line of "[[[[["
        raise ProtocolError(f"{shown(raw)} is not JSON") from error
    if not isinstance(values, dict):
        raise ProtocolError(f"{shown(raw)} is not an object")
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
            raise ProtocolError(f"{field.name} of {of.__name__} cannot be {shown(value)}")
        known[field.name] = tuple(value) if isinstance(value, list) else value
    try:
        return of(**known)
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a field's type; whole numbers stand for seconds too."""
    if get_origin(hint) is tuple:
        is_short = isinstance(value, list) and len(value) <= MOST_NUMBERS
        return is_short and all(_fits(one, get_args(hint)[0]) for one in value)  # type: ignore[attr-defined]
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
