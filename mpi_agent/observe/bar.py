"""A live line on a terminal while hosts are waited for; it makes way for every other line.

`mpi-agent: [######----] 5/8 ready  12 s of 600 s  waiting for pi-worker-[3,6-7]: 3 connection...`
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from mpi_agent.job.events import Event, HostsReady, ProbeEnded, WaitProgressed, WaitStarted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.observe.log import EventLog, put
from mpi_agent.observe.tally import tally
from mpi_agent.observe.text import printable, render_event

__all__ = ["Bar", "LiveLog", "render_bar", "terminal_width"]

REDRAW_PAUSE_S = 0.2
_CELLS = 10
_ERASE = "\r\x1b[K"
"""Back to the first column, then clear to the end of the line (ECMA-48, EL)."""


def terminal_width(stream: TextIO) -> int:
    """Return the columns of the terminal behind a stream; 0 for none, or one nobody looks at.

    A container with `tty: true` has a terminal of no columns until somebody attaches to it.
    """
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def render_bar(report: ReadinessReport) -> str:
    """Return the line for a report."""
    ready, total = report.ready_count, len(report.hosts)
    filled = "#" * (_CELLS * ready // max(total, 1))
    limit = "" if report.timeout_s is None else f" of {report.timeout_s:.0f} s"
    line = (
        f"mpi-agent: [{filled:-<{_CELLS}}] {ready}/{total} ready  {report.elapsed_s:.0f} s{limit}"
    )
    return printable(line + _render_laggards(report))


def _render_laggards(report: ReadinessReport) -> str:
    if not report.laggards:
        return ""
    names = fold_names(tuple(host.host for host in report.laggards))
    reasons = ", ".join(
        f"{count} {obstacle.value if obstacle else 'no answer yet'}"
        for obstacle, count in tally(report).by_obstacle
    )
    return f"  waiting for {names}: {reasons}"


class Bar:
    """Draws the line, at most five times a second.

    Args:
        now_s: the monotonic clock.
        width: returns the columns of the terminal as it is now.
    """

    def __init__(
        self, stream: TextIO, *, now_s: Callable[[], float], width: Callable[[], int]
    ) -> None:
        self._stream = stream
        self._now_s = now_s
        self._width = width
        self._drawn_at_s = -REDRAW_PAUSE_S
        self._is_drawn = False

    def draw(self, report: ReadinessReport) -> None:
        """Draw where the hosts stand, unless that was done a moment ago."""
        now_s = self._now_s()
        if now_s - self._drawn_at_s < REDRAW_PAUSE_S:
            return
        self._drawn_at_s, self._is_drawn = now_s, True
        # a full last column would let some terminals wrap
        self._write(_ERASE + render_bar(report)[: max(0, self._width() - 1)])

    def erase(self) -> None:
        """Leave the line empty, with the cursor in its first column."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        put(self._stream, text)


class LiveLog:
    """A text log that shows the bar between its lines; an `EventLog`."""

    def __init__(self, log: EventLog, bar: Bar) -> None:
        self._log = log
        self._bar = bar
        self._is_waiting = False

    def __call__(self, event: Event) -> None:
        """Draw what a probe changed; write every other event in place of the bar."""
        if isinstance(event, ProbeEnded | WaitProgressed):
            if self._is_waiting:
                self._bar.draw(event.report)
        elif render_event(event) is not None:
            if isinstance(event, WaitStarted | HostsReady):
                self._is_waiting = isinstance(event, WaitStarted)
            self._bar.erase()
            self._log(event)

    def error(self, summary: str, *, hint: str, evidence: tuple[str, ...], exit_code: int) -> None:
        """Write what ends the agent in place of the bar."""
        self._is_waiting = False
        self._bar.erase()
        self._log.error(summary, hint=hint, evidence=evidence, exit_code=exit_code)

    def erase(self) -> None:
        """Make way for a line that somebody else prints."""
        self._bar.erase()
