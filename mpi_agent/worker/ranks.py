"""The job's processes on this worker: found, told, ended. Whatever descends from us can be theirs.

A worker is a subreaper, so what its sessions leave behind is still below it. Of that, only what
belongs to a run is touched: a person's own login is not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection

from mpi_agent.job_processes import (
    Ended,
    JobProcess,
    end_processes,
    find_job_processes,
    signal_ranks,
)

__all__ = ["RanksHere"]

_ORPHANS_GRACE_S = 3.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


class RanksHere:
    """Finds and ends processes of runs below this process."""

    def find(self) -> tuple[JobProcess, ...]:
        """Return the live processes of all runs."""
        return find_job_processes(below=os.getpid()).processes

    def signal(self, signal_number: int) -> int:
        """Send a signal to each rank, and to no daemon; return how many got it."""
        return signal_ranks(self.find(), signal_number)

    async def end_runs(self, run_ids: tuple[str, ...]) -> Ended:
        """End what is left of runs that nobody waits for: TERM, and KILL three seconds later."""
        wanted = frozenset(run_ids)
        return await end_processes(lambda: self._pids_of(wanted), grace_s=_ORPHANS_GRACE_S)

    async def kill_all(self) -> Ended:
        """Kill what is left of every run."""
        return await end_processes(lambda: [p.pid for p in self.find()], grace_s=0.0)

    async def until_gone(self) -> None:
        """Return once no process of any run is left."""
        pause_s = _FIRST_PAUSE_S
        while self.find():
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _pids_of(self, run_ids: Collection[str]) -> list[int]:
        return [process.pid for process in self.find() if process.run_id in run_ids]
