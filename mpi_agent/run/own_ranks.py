"""The ranks on the launcher's own container, where no ssh and no agent is in between."""

from __future__ import annotations

import os
import signal

from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, RankCpu, SignalPassed
from mpi_agent.job_processes import JobProcess, find_job_processes, signal_ranks, usage_by_rank
from mpi_agent.process_signals import end_processes
from mpi_agent.run_id import RunId

__all__ = ["OwnRanks"]

_GRACE_S = 2.0


class OwnRanks:
    """What of a run is in this container.

    Args:
        name: of the host, as the job calls it.
        run_id: of the run. Another launch of this container has another one.
    """

    def __init__(self, name: str, run_id: RunId) -> None:
        self.name = name
        self._run_id = str(run_id)
        self._had_ranks = False

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
        """End what is left here of the run, once mpirun is gone: TERM and then KILL."""
        ended = await end_processes(self._left, grace_s=_GRACE_S)
        return HostSwept(host=self.name, ended=ended.gone, killed=ended.killed, left=ended.left)

    def _below_us(self) -> tuple[JobProcess, ...]:
        """Return the run's processes that descend from us.

        The ssh that dials a host is one too, and leads no rank.
        """
        found = find_job_processes(below=os.getpid()).processes
        return tuple(process for process in found if process.run_id in (None, self._run_id))

    def _left(self) -> tuple[int, ...]:
        """Return every process of the run, also one whose parent is gone."""
        found = find_job_processes().processes
        return tuple(process.pid for process in found if process.run_id == self._run_id)
