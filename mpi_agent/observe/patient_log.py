"""A log that nobody waits for: events are written by a thread, in the order in which they happened.

Whoever reads stderr may be slow, or stop reading: a node's disk is full, a terminal is held. A
worker that waited for its log would answer no login meanwhile, and its sshd, whose words nobody
takes, would stop too. So events wait here; when too many do, the latest are left out and counted.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from types import TracebackType

from mpi_agent.job.events import Event, EventSink, Noted

__all__ = ["PatientLog"]

_MOST_WAITING = 10_000
_END_LIMIT_S = 2.0


class PatientLog:
    """Hands events on to a log from a thread of its own; an `EventSink`.

    `with` ends it: what still waits is written first, unless that takes longer than the limit.
    """

    def __init__(
        self, log: EventSink, *, most: int = _MOST_WAITING, end_limit_s: float = _END_LIMIT_S
    ) -> None:
        self._log = log
        self._end_limit_s = end_limit_s
        self._waiting: queue.Queue[Event | None] = queue.Queue(most)
        self._left_out = 0
        self._writer = threading.Thread(target=self._write, name="log", daemon=True)

    def __call__(self, event: Event) -> None:
        """Take an event; it is left out when too many wait."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._left_out += 1

    def __enter__(self) -> PatientLog:
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=self._end_limit_s)
            self._writer.join(self._end_limit_s)

    def _write(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._log(event)
            if self._left_out and self._waiting.empty():
                self._confess()
        if self._left_out:
            self._confess()

    def _confess(self) -> None:
        """Say how many events are missing."""
        count, self._left_out = self._left_out, 0
        self._log(Noted(text=f"left {count} events out of this log: nobody read it for a while"))
