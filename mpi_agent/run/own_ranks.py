"""The ranks on the launcher's own container, where no ssh and no agent is in between."""

from __future__ import annotations

import asyncio
import os
import signal

from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, RankCpu, SignalPassed
from mpi_agent.job_processes import JobProcess, find_job_processes, signal_ranks, usage_by_rank
from mpi_agent.process_signals import end_processes
from mpi_agent.run_id import RunId
from mpi_agent.segments import Segments

__all__ = ["OwnRanks"]

_GRACE_S = 2.0
_PACE_S = 2.0
_LOOKS_A_LOOK = 50
"""Of the time that a look takes, the pause behind it, so that ranks have their CPUs to themselves.
"""


class OwnRanks:
    """What of a run is in this container.

    Args:
        name: of the host, as the job calls it.
        run_id: of the run. Another launch of this container has another one.
        segments: the shared memory that is here.
    """

    def __init__(self, name: str, run_id: RunId, segments: Segments | None = None) -> None:
        self.name = name
        self._run_id = str(run_id)
        self._segments = segments or Segments()
        self._had_ranks = False

    async def watch(self) -> None:
        """Remember again and again which shared memory the ranks here use, until cancelled.

        Without it only that of ranks is known which are still there in the end.
        """
        clock = asyncio.get_running_loop().time
        while True:
            began_s = clock()
            self._look(self._below_us(), is_last=False)
            await asyncio.sleep(max(_PACE_S, _LOOKS_A_LOOK * (clock() - began_s)))

    def presence(self) -> HostPresence:
        """Return what is here now; mpirun itself is the daemon."""
        ranks = sum(process.leads_rank for process in self._below_us())
        self._had_ranks = self._had_ranks or ranks > 0
        return HostPresence(host=self.name, daemons=1, ranks=ranks, had_ranks=self._had_ranks)

    def pass_signal(self, sig: signal.Signals) -> SignalPassed:
        """Send a signal to the ranks here; return how many got it."""
        return SignalPassed(host=self.name, ranks=signal_ranks(self._below_us(), sig))

    def measure(self) -> HostUsage:
        """Return what the ranks here used until now."""
        used = usage_by_rank(self._below_us())
        ranks = tuple(RankCpu(rank=usage.rank, cpu_s=usage.cpu_s) for usage in used)
        return HostUsage(host=self.name, ranks=ranks)

    async def end(self) -> HostSwept:
        """End what is left here of the run, once mpirun is gone: TERM and then KILL.

        When nothing is left of it, the shared memory that it leaves is removed.
        """
        self._look(self._left(), is_last=True)
        ended = await end_processes(lambda: [one.pid for one in self._left()], grace_s=_GRACE_S)
        return HostSwept(
            host=self.name,
            ended=ended.gone,
            killed=ended.killed,
            left=ended.left,
            segments=0 if ended.left else self._segments.remove(self._run_id),
        )

    def _look(self, processes: tuple[JobProcess, ...], *, is_last: bool) -> None:
        self._segments.looked(self._run_id, processes, is_last=is_last)

    def _below_us(self) -> tuple[JobProcess, ...]:
        """Return the run's processes that descend from us.

        The ssh that dials a host is one too, and leads no rank.
        """
        found = find_job_processes(below=os.getpid()).processes
        return tuple(process for process in found if process.run_id in (None, self._run_id))

    def _left(self) -> tuple[JobProcess, ...]:
        """Return every process of the run, also one whose parent is gone."""
        found = find_job_processes().processes
        return tuple(process for process in found if process.run_id == self._run_id)
