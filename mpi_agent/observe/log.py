"""The log on stderr: one line for each event, as text for people or as JSON for machines."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TextIO

from mpi_agent.job.events import Event, HostAdvanced, HostsChanged, ProbeEnded
from mpi_agent.observe.json_text import JsonObject, render_json
from mpi_agent.observe.json_values import event_values
from mpi_agent.observe.run_values import is_trouble
from mpi_agent.observe.tally import stage_name
from mpi_agent.observe.text import printable, render_details, render_event
from mpi_agent.observe.worker_values import is_worth_a_warning
from mpi_agent.setting_words import Form

__all__ = ["EventLog", "JsonLog", "Log", "event_name", "make_log", "put", "render_event"]


class EventLog(Protocol):
    """A log of events, which also tells why the agent gave up."""

    def __call__(self, event: Event) -> None:
        """Write an event, unless it stays silent in this form; an `EventSink`."""

    def error(self, summary: str, *, hint: str, evidence: tuple[str, ...], exit_code: int) -> None:
        """Write what ends the agent; the values are those of an `MpiAgentError`."""


def make_log(form: Form, stream: TextIO) -> EventLog:
    """Return the log in the form that was asked for."""
    return JsonLog(stream) if form is Form.JSON else Log(stream)


class Log:
    """Writes events as lines for people."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr

    def __call__(self, event: Event) -> None:
        """Write the event's line, if it has one; before it what explains it, so that it is last."""
        line = render_event(event)
        if line is not None:
            details = render_details(event)
            above = (f"mpi-agent: {text}" for text in details[:1])
            below = (f"    {text}" for text in details[1:])
            self._print(*above, *below, f"mpi-agent: {line}")

    def error(self, summary: str, *, hint: str, evidence: tuple[str, ...], exit_code: int) -> None:  # noqa: ARG002
        """Write the summary, what was seen, and the hint, a line each."""
        self._print(f"mpi-agent: {summary}", *(f"    {line}" for line in evidence))
        self._print(f"hint: {hint}")

    def _print(self, *lines: str) -> None:
        put(self._stream, "".join(f"{printable(line)}\n" for line in lines))


class JsonLog:
    """Writes events as JSON lines.

    Args:
        now_s: the wall clock, seconds since 1970.
    """

    def __init__(self, stream: TextIO, *, now_s: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._now_s = now_s

    def __call__(self, event: Event) -> None:
        """Write the event; a single probe is not told, there are too many."""
        if not isinstance(event, ProbeEnded):
            self._print(event_name(event), _level(event), _message(event), event_values(event))

    def error(self, summary: str, *, hint: str, evidence: tuple[str, ...], exit_code: int) -> None:
        """Write the failure as the event `failed`."""
        values: JsonObject = {"hint": hint, "evidence": evidence, "exit_code": exit_code}
        self._print("failed", "error", summary, values)

    def _print(self, name: str, level: str, message: str, values: JsonObject) -> None:
        at = datetime.fromtimestamp(self._now_s(), UTC).isoformat(timespec="milliseconds")
        first = {"at": at.replace("+00:00", "Z"), "event": name, "level": level, "message": message}
        put(self._stream, f"{render_json({**first, **values})}\n")


def put(stream: TextIO, text: str) -> None:
    """Write text for whoever reads the log; a reader that is gone does not end the job."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def event_name(event: Event) -> str:
    """Return the public name of an event's kind: `hosts_ready` for `HostsReady`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def _level(event: Event) -> str:
    changed = isinstance(event, HostsChanged)
    return "warning" if changed or is_trouble(event) or is_worth_a_warning(event) else "info"


def _message(event: Event) -> str:
    if isinstance(event, HostAdvanced):
        return f"host advanced name={event.host.host} stage={stage_name(event.host)}"
    return render_event(event) or ""
