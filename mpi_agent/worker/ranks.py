"""The job's processes on this worker: found, told, ended. Whatever descends from us can be theirs.

A worker is a subreaper, so what its sessions leave behind is still below it. Of that, only what
belongs to a run is touched: a person's own login is not.
"""

from __future__ import annotations

import asyncio
import contextlib
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
_LAST_GRACE_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


class RanksHere:
    """Finds and ends processes of runs below this process."""

    def find(self) -> tuple[JobProcess, ...]:
        """Return the live processes of all runs."""
        return find_job_processes(below=os.getpid()).processes

    def signal(self, signal_number: int) -> int:
        """Send a signal to each rank, and to no daemon; return how many got it.

        A run without ranks is one whose launcher is not MPI's, as of horovodrun or deepspeed: what
        it started here is not told apart, and gets the signal as a whole.
        """
        found = self.find()
        for process in _without_ranks(found):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal_number)
        return signal_ranks(found, signal_number)

    async def end_runs(self, run_ids: tuple[str, ...]) -> Ended:
        """End what is left of runs that nobody waits for: TERM, and KILL three seconds later."""
        wanted = frozenset(run_ids)
        return await end_processes(lambda: self._pids_of(wanted), grace_s=_ORPHANS_GRACE_S)

    async def kill_ranks(self) -> Ended:
        """Kill the ranks, and all of runs that have none; daemons are left to see it."""
        return await end_processes(lambda: [p.pid for p in _that_work(self.find())], grace_s=0.0)

    async def end_all(self) -> Ended:
        """End what is left of every run: TERM, for daemons, and KILL a moment later."""
        return await end_processes(lambda: [p.pid for p in self.find()], grace_s=_LAST_GRACE_S)

    async def until_done(self) -> None:
        """Return once no rank is left, nor anything of a run that had none; daemons may be there.

        A daemon whose ranks are gone waits for its mpirun, so it is not waited for.
        """
        daemons = {p.pid for p in self.find()} - {p.pid for p in _that_work(self.find())}
        pause_s = _FIRST_PAUSE_S
        while any(process.pid not in daemons for process in _that_work(self.find())):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _pids_of(self, run_ids: Collection[str]) -> list[int]:
        return [process.pid for process in self.find() if process.run_id in run_ids]


def _without_ranks(processes: tuple[JobProcess, ...]) -> list[JobProcess]:
    """Return the processes of runs that have no ranks here."""
    with_ranks = {process.run_id for process in processes if process.rank is not None}
    return [process for process in processes if process.run_id not in with_ranks]


def _that_work(processes: tuple[JobProcess, ...]) -> list[JobProcess]:
    """Return the ranks, and all processes of runs that have none here."""
    ranks = [process for process in processes if process.rank is not None]
    return [*ranks, *_without_ranks(processes)]
