"""The job's processes on this worker: found, told, ended. Whatever descends from us can be theirs.

A worker is a subreaper, so what its sessions leave behind is still below it. Of that, only what
belongs to a run is touched: a person's own login is not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from mpi_agent.job_processes import JobProcess, find_job_processes, signal_ranks
from mpi_agent.process_signals import Ended, end_processes, is_sent

__all__ = ["RanksHere", "Work"]

_ORPHANS_GRACE_S = 3.0
_LAST_GRACE_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_DAEMONS = frozenset({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_pr"})
"""What mpirun starts on a host, by the 15 bytes that the kernel keeps of a name.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.18; proc(5), "comm".
"""


class RanksHere:
    """Finds and ends processes of runs below this process."""

    def find(self) -> tuple[JobProcess, ...]:
        """Return the live processes of all runs."""
        return find_job_processes(below=os.getpid()).processes

    def work(self) -> Work:
        """Return what works here now, apart from the daemons that started it."""
        return Work(self.find)

    async def until_gone(self) -> None:
        """Return once nothing of any run is left."""
        pause_s = _FIRST_PAUSE_S
        while self.find():
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def end_runs(self, run_ids: tuple[str, ...]) -> Ended:
        """End what is left of runs that nobody waits for: TERM, and KILL three seconds later."""
        wanted = frozenset(run_ids)
        return await end_processes(
            lambda: [process.pid for process in self.find() if process.run_id in wanted],
            grace_s=_ORPHANS_GRACE_S,
        )

    async def end_all(self) -> Ended:
        """End what is left of every run: TERM, for daemons, and KILL a moment later."""
        return await end_processes(lambda: [p.pid for p in self.find()], grace_s=_LAST_GRACE_S)


class Work:
    """The ranks of MPI's runs, and all processes of the others, from one moment on.

    Which runs are MPI's is looked at once, while their ranks or daemons are there: a daemon whose
    ranks have ended would look like a program afterwards. What horovodrun, deepspeed or a script
    started has neither, and cannot be told apart.

    Args:
        find: returns the processes of all runs as they are now.
    """

    def __init__(self, find: Callable[[], tuple[JobProcess, ...]]) -> None:
        self._find = find
        self._mpi_runs = frozenset(
            process.run_id
            for process in find()
            if process.rank is not None or _name_of(process.pid) in _DAEMONS
        )

    def find(self) -> tuple[JobProcess, ...]:
        """Return what is still there of it, with what it has started since."""
        return tuple(
            process
            for process in self._find()
            if process.rank is not None or process.run_id not in self._mpi_runs
        )

    def signal(self, signal_number: int) -> int:
        """Send a signal to each rank, and to each process of runs that have none; count them."""
        found = self.find()
        others = [process.pid for process in found if process.rank is None]
        return signal_ranks(found, signal_number) + sum(
            is_sent(os.kill, pid, signal_number) for pid in others
        )

    async def kill(self) -> Ended:
        """Kill what is left of it."""
        return await end_processes(lambda: [p.pid for p in self.find()], grace_s=0.0)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""
