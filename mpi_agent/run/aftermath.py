"""What is left to do when mpirun is gone, and signals that come meanwhile.

Whoever stops us counts the seconds: a first stop leaves as much time as there is after any stop, a
second one none. Other signals were for the program, and must not reach the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import TypeVar

from mpi_agent.job.events import EventSink, Noted, SignalReceived
from mpi_agent.run.signals import STOP_SIGNALS, SignalInbox

__all__ = ["Aftermath"]

_AFTER_A_STOP_S = 4.0
_T = TypeVar("_T")


class Aftermath:
    """The time from mpirun's end to the end of the attempt; `async with` takes signals in.

    Args:
        ends_at_s: on the loop's clock, when all has to be over; None where nobody stopped us.
    """

    def __init__(self, inbox: SignalInbox, *, emit: EventSink, ends_at_s: float | None) -> None:
        self._inbox = inbox
        self._emit = emit
        self._ends_at_s = ends_at_s
        self._limits: set[asyncio.Timeout] = set()

    async def __aenter__(self) -> Aftermath:
        self._heeding = asyncio.create_task(self._heed())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._heeding.cancel()
        await asyncio.gather(self._heeding, return_exceptions=True)

    @property
    def is_hurried(self) -> bool:
        """Whether we were told to stop."""
        return self._ends_at_s is not None

    def limit_s(self, usual_s: float) -> float:
        """Return how long something may take: as usual, unless we were told to stop."""
        if self._ends_at_s is None:
            return usual_s
        return max(0.0, min(usual_s, self._ends_at_s - _now_s()))

    async def within_time(self, work: Coroutine[None, None, _T], *, doing: str) -> _T | None:
        """Return what the work returns, None where it was cut short, which is told."""
        try:
            async with asyncio.timeout_at(self._ends_at_s) as limit:
                self._limits.add(limit)
                try:
                    return await work
                finally:
                    self._limits.remove(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            self._emit(Noted(text=f"{doing} was cut short by the stop"))
            return None

    async def _heed(self) -> None:
        while True:
            received = await self._inbox.next()
            action = "the program has ended"
            if received in STOP_SIGNALS:
                action = f"{action}; {self._hurry()}"
            self._emit(SignalReceived(name=received.name, action=action))

    def _hurry(self) -> str:
        """Leave less time; return what that means."""
        is_first, now_s = self._ends_at_s is None, _now_s()
        self._ends_at_s = now_s + (_AFTER_A_STOP_S if is_first else 0.0)
        for limit in self._limits:
            limit.reschedule(self._ends_at_s)
        return f"{_AFTER_A_STOP_S:g} s are left" if is_first else "nothing is waited for"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
