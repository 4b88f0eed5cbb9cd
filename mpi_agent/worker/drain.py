"""How a worker ends in good order: its ranks are told, their time is used, the rest is killed.

The order is what makes it an order: not ready before anything else, ranks before daemons, for a
daemon that ends takes its ranks along at once, and the launcher before anything is ended.
"""

from __future__ import annotations

import asyncio
import signal
import time

from mpi_agent.job.events import EventSink, SignalReceived
from mpi_agent.job.worker_events import WorkerDrained, WorkerDraining
from mpi_agent.ssh.worker_words import Draining, GraceOver
from mpi_agent.worker.control import Control
from mpi_agent.worker.keeper import ServerKeeper
from mpi_agent.worker.ranks import RanksHere
from mpi_agent.worker.readiness import Readiness
from mpi_agent.worker.stop_signals import StopSignals

__all__ = ["Drain"]

_FAREWELL_LIMIT_S = 1.0
_LEAST_GRACE_S = 2.0
_GRACE_AFTER_JOB_S = 5.0


class Drain:
    """Takes a worker down.

    Args:
        drain_signal: what ranks get.
        grace_s: how long ranks and other sessions may take, from the signal on.
    """

    def __init__(
        self,
        *,
        readiness: Readiness,
        keeper: ServerKeeper,
        control: Control,
        ranks: RanksHere,
        drain_signal: signal.Signals,
        grace_s: float,
        emit: EventSink,
    ) -> None:
        self._readiness = readiness
        self._keeper = keeper
        self._control = control
        self._ranks = ranks
        self._drain_signal = drain_signal
        self._grace_s = grace_s
        self._emit = emit

    async def after_signal(self, received: signal.Signals, stop: StopSignals) -> None:
        """End because we were told to; a second signal ends the grace period."""
        started_at_s = time.monotonic()
        self._readiness.close(f"it received {received.name}")
        self._keeper.stop_listening()
        told = self._ranks.work().signal(self._drain_signal)
        ranks = told.count
        line = Draining(signal_name=received.name, grace_s=self._grace_s, ranks=ranks)
        self._control.tell_draining(line, told)
        self._emit(
            WorkerDraining(
                signal_name=received.name,
                drain_signal_name=self._drain_signal.name,
                ranks=ranks,
                grace_s=self._grace_s,
            )
        )
        await self._end(stop, started_at_s)

    async def after_failure(self, why: str, stop: StopSignals) -> None:
        """End because ssh cannot be served any more, with the same time for the ranks."""
        started_at_s = time.monotonic()
        self._readiness.close(why)
        self._ranks.work().signal(self._drain_signal)
        await self._end(stop, started_at_s)

    async def after_job(self) -> None:
        """End because the launcher said that the job is over; nothing of it is left by then."""
        started_at_s = time.monotonic()
        self._readiness.close("the job is over")
        await self._control.say_farewell(limit_s=_FAREWELL_LIMIT_S)
        self._keeper.stop_listening()
        killed = await self._keeper.stop(min(self._grace_s, _GRACE_AFTER_JOB_S))
        self._emit(WorkerDrained(took_s=time.monotonic() - started_at_s, killed=killed))

    async def _end(self, stop: StopSignals, started_at_s: float) -> None:
        is_hurried = await self._use_grace(stop)
        work, left = self._ranks.work(), {process.run_id for process in self._ranks.find()}
        self._control.tell(GraceOver(), run_ids=[run_id for run_id in left if run_id])
        killed = (await work.kill()).killed
        await self._control.say_farewell(limit_s=_FAREWELL_LIMIT_S)
        killed += (await self._ranks.end_all()).killed
        left_s = 0.0 if is_hurried else self._grace_s - (time.monotonic() - started_at_s)
        killed += await self._keeper.stop(max(left_s, min(self._grace_s, _LEAST_GRACE_S)))
        self._emit(WorkerDrained(took_s=time.monotonic() - started_at_s, killed=killed))

    async def _use_grace(self, stop: StopSignals) -> bool:
        """Return once nothing of any run is left, or when it may take no more time.

        Daemons have their time too: they go when mpirun has seen its ranks go, and a daemon that is
        ended before that takes the ranks of all hosts along. The answer is whether somebody was
        impatient.
        """
        gone = asyncio.create_task(self._ranks.until_gone())
        again = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait(
                (gone, again), timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            if again.done():
                name = again.result().name
                self._emit(SignalReceived(name=name, action="the grace period is over"))
            return again.done()
        finally:
            for task in (gone, again):
                task.cancel()
            await asyncio.gather(gone, again, return_exceptions=True)
