"""Signals to the agent, taken in from the first moment and passed on as values.

STOP, TSTP and CONT are left alone: floods of CONT are known to upset mpirun.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from mpi_agent.errors import StoppedError
from mpi_agent.run.stopping import STOP_SIGNALS

__all__ = ["STOP_SIGNALS", "SignalInbox"]

_T = TypeVar("_T")

_TAKEN = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class SignalInbox:
    """Collects signals in order; `with` installs and restores the handlers."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def __enter__(self) -> SignalInbox:
        loop = asyncio.get_running_loop()
        for taken in _TAKEN:
            loop.add_signal_handler(taken, self._queue.put_nowait, taken)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for taken in _TAKEN:
            loop.remove_signal_handler(taken)

    async def next(self) -> signal.Signals:
        """Return the next signal."""
        return await self._queue.get()

    async def unless_stopped(
        self,
        work: Coroutine[Any, Any, _T],
        *,
        doing: str,
        hint: str = "nothing was started on the workers",
    ) -> _T:
        """Return what the work returns; a stop signal cancels it.

        Raises:
            StoppedError: TERM, INT or HUP came first.
        """
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._next_stop())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            name = stop.result().name
            raise StoppedError(
                f"cannot go on {doing}: told to stop by {name}",
                hint=hint,
                signal_number=stop.result(),
            )
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    async def _next_stop(self) -> signal.Signals:
        while (received := await self.next()) not in STOP_SIGNALS:
            pass
        return received
