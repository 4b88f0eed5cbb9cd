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
        self._stop_came = asyncio.Event()
        self._stopped_by: signal.Signals | None = None

    def __enter__(self) -> SignalInbox:
        loop = asyncio.get_running_loop()
        for taken in _TAKEN:
            loop.add_signal_handler(taken, self.take, taken)
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

    def take(self, number: signal.Signals) -> None:
        """Take in a signal."""
        self._queue.put_nowait(number)
        if number in STOP_SIGNALS:
            self._stopped_by = self._stopped_by or number
            self._stop_came.set()

    async def next(self) -> signal.Signals:
        """Return the next signal."""
        return await self._queue.get()

    @property
    def is_stopped(self) -> bool:
        """Whether a stop signal ever came."""
        return self._stopped_by is not None

    async def stopped(self) -> None:
        """Return once a stop signal has come; it is left for whoever asks for the next one."""
        await self._stop_came.wait()

    async def unless_stopped(
        self,
        work: Coroutine[Any, Any, _T],
        *,
        doing: str,
        hint: str = "nothing was started on the workers",
    ) -> _T:
        """Return what the work returns; a stop signal cancels it.

        Once a stop has come nothing begins any more, and what ends in the same moment comes to
        nothing: a program would be started after the stop. Other signals are forgotten: there is
        nobody yet whom they are for.

        Raises:
            StoppedError: TERM, INT or HUP came first.
        """
        if self.is_stopped:
            work.close()
            raise self._stopped(doing, hint)
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self.stopped())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self.is_stopped:
                raise self._stopped(doing, hint)
            self._forget()
            return task.result()
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def _stopped(self, doing: str, hint: str) -> StoppedError:
        assert self._stopped_by is not None, "a stop has come"
        return StoppedError(
            f"cannot go on {doing}: told to stop by {self._stopped_by.name}",
            hint=hint,
            signal_number=self._stopped_by,
        )

    def _forget(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
