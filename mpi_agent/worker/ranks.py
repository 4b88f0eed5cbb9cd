"""The job's processes on this worker: found, told, ended. Whatever descends from us can be theirs.

A worker is a subreaper, so what its sessions leave behind is still below it. Of that, only what
belongs to a run is touched: a person's own login is not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.job_processes import JobProcess, find_job_processes, signal_ranks, usage_by_rank
from mpi_agent.mpi_processes import DAEMON_NAMES
from mpi_agent.process_signals import Ended, end_processes, is_sent
from mpi_agent.ssh.worker_words import MOST_NUMBERS, Usage

__all__ = ["RanksHere", "RanksTold", "Work", "count_daemons"]

_LAST_GRACE_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


@dataclass(frozen=True, slots=True)
class RanksTold:
    """How many ranks got a signal, one run's id for each; None where they have none."""

    run_ids: tuple[str | None, ...] = ()

    @property
    def count(self) -> int:
        """Of all runs."""
        return len(self.run_ids)

    def of(self, run_id: str) -> int:
        """Return how many are of one run."""
        return self.run_ids.count(run_id)


class RanksHere:
    """Finds, tells and ends processes of runs below this process."""

    def find(self) -> tuple[JobProcess, ...]:
        """Return the live processes of all runs."""
        return find_job_processes(below=os.getpid()).processes

    def work(self) -> Work:
        """Return what works here now, apart from the daemons that started it."""
        return Work(self.find)

    def signal(self, run_id: str, signal_number: int) -> int:
        """Send a signal to what works for one run here; return how many got it."""
        return Work(lambda: self._of(run_id)).signal(signal_number).count

    def usage(self, run_id: str) -> Usage:
        """Return what each rank of one run used, with all that it started; in order of ranks."""
        used = usage_by_rank(self._of(run_id))[:MOST_NUMBERS]
        return Usage(
            rank_numbers=tuple(one.rank for one in used),
            cpu_s=tuple(round(one.cpu_s, 2) for one in used),
        )

    def _of(self, run_id: str) -> tuple[JobProcess, ...]:
        return tuple(process for process in self.find() if process.run_id == run_id)

    async def until_gone(self) -> None:
        """Return once nothing of any run is left."""
        pause_s = _FIRST_PAUSE_S
        while self.find():
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def end_runs(self, run_ids: tuple[str, ...], *, grace_s: float) -> Ended:
        """End what is left of runs that nobody waits for: TERM, and KILL after the grace."""
        wanted = frozenset(run_ids)
        return await end_processes(
            lambda: [process.pid for process in self.find() if process.run_id in wanted],
            grace_s=grace_s,
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
            if process.rank is not None or _name_of(process.pid) in DAEMON_NAMES
        )

    def find(self) -> tuple[JobProcess, ...]:
        """Return what is still there of it, with what it has started since."""
        return tuple(
            process
            for process in self._find()
            if process.rank is not None or process.run_id not in self._mpi_runs
        )

    def signal(self, signal_number: int) -> RanksTold:
        """Send a signal to each rank, and to each process of runs that have none."""
        told = (one for one in self.find() if _is_told(one, signal_number))
        return RanksTold(tuple(one.run_id for one in told))

    async def kill(self) -> Ended:
        """Kill what is left of it."""
        return await end_processes(lambda: [p.pid for p in self.find()], grace_s=0.0)


def count_daemons(processes: Iterable[JobProcess]) -> int:
    """Return how many daemons of mpirun there are among processes."""
    return sum(one.rank is None and _name_of(one.pid) in DAEMON_NAMES for one in processes)


def _is_told(process: JobProcess, signal_number: int) -> bool:
    if process.rank is None:
        return is_sent(os.kill, process.pid, signal_number)
    return signal_ranks((process,), signal_number) > 0


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""
