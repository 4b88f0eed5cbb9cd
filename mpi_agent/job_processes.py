"""Which processes of this container belong to a run, what they use, and how they are told to end.

A process belongs to a run when its environment carries the run's id or a rank's number, or when it
descends from such a process. Workers use it, and a sidecar for the container next door.

A process is its pid and its start: a pid whose start changed is somebody else's.
Of environments only the run's id and the ranks' numbers are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mpi_agent.mpi_processes import LOCAL_RANK_VARIABLES, RANK_VARIABLES
from mpi_agent.process_signals import is_sent
from mpi_agent.process_table import (
    ProcessKey,
    ProcessStat,
    environ_of,
    every_stat,
    stat_of,
    value_in,
)
from mpi_agent.variable_names import RUN_ID_VARIABLE

__all__ = [
    "FoundProcesses",
    "JobProcess",
    "RankUsage",
    "find_job_processes",
    "rank_usage",
    "signal_ranks",
    "usage_by_rank",
]

_MOST_RANK_DIGITS = 10
_MOST_ID_BYTES = 129
"""One more than an id of ours has, so that a longer one is not taken for one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProcess:
    """One live process of a run.

    What its own environment does not tell is taken from its parent.

    Attributes:
        started_at_s: seconds after the machine's start.
        run_id: None for a rank of a run that nobody gave an id.
        rank: None for daemons, and for what they start besides ranks.
        local_rank: None too where the launcher does not tell it.
        leads_rank: the topmost process of its rank; the program itself or a shell around it.
        is_orphan: nothing of its run is above it.
    """

    pid: int
    started_at_s: float
    run_id: str | None
    rank: int | None
    local_rank: int | None
    leads_rank: bool
    is_orphan: bool = False

    @property
    def key(self) -> ProcessKey:
        """What the process is known by."""
        return ProcessKey(self.pid, self.started_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcesses:
    """What was found, parents before their children.

    Attributes:
        unreadable: how many have an environment that we may not read; some may be of a run.
    """

    processes: tuple[JobProcess, ...]
    unreadable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUsage:
    """What a process used until now, or all processes of a rank.

    Attributes:
        pid: of the rank's topmost process, where it stands for all of them.
        cpu_s: with that of its children that have ended.
        memory_bytes: resident; memory that ranks share counts for each.
    """

    rank: int
    local_rank: int | None
    pid: int
    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """What an environment says of its process's place in a run."""

    run_id: str | None = None
    rank: int | None = None
    local_rank: int | None = None

    @property
    def is_of_a_run(self) -> bool:
        return self.run_id is not None or self.rank is not None


_NO_MARK = _Mark()


def find_job_processes(*, below: int | None = None) -> FoundProcesses:
    """Return the live processes of runs, by their environment and by descent.

    Zombies and this process are left out. A program that wrote a title over its environment is
    known by its parent's.

    Args:
        below: a pid; what does not descend from it is not looked at. None: all we can see.
    """
    stats = {stat.pid: stat for stat in every_stat()}
    children: dict[int, list[ProcessStat]] = {}
    for stat in stats.values():
        parent = stat.parent if stat.parent in stats else 0
        children.setdefault(parent, []).append(stat)
    found: list[JobProcess] = []
    unreadable = 0
    waiting = [(stat, _NO_MARK) for stat in children.get(below or 0, ())]
    for stat, inherited in waiting:  # which grows until the last leaf was looked at
        mark = _NO_MARK
        if stat.pid != os.getpid() and not stat.is_zombie:
            environ = environ_of(stat.pid)
            unreadable += environ is None
            mark = _mark_of(environ or b"", inherited)
        if mark.is_of_a_run:
            found.append(_job_process(stat, mark, inherited))
        waiting += [(child, mark) for child in children.get(stat.pid, ())]
    return FoundProcesses(processes=tuple(found), unreadable=unreadable)


def _job_process(stat: ProcessStat, mark: _Mark, parent: _Mark) -> JobProcess:
    is_same_rank = (mark.run_id, mark.rank) == (parent.run_id, parent.rank)
    return JobProcess(
        pid=stat.pid,
        started_at_s=stat.started_at_s,
        run_id=mark.run_id,
        rank=mark.rank,
        local_rank=mark.local_rank,
        leads_rank=mark.rank is not None and not is_same_rank,
        is_orphan=mark.run_id != parent.run_id,
    )


def signal_ranks(processes: Iterable[JobProcess], signal_number: int) -> int:
    """Send a signal to each rank, never to a daemon; return how many ranks got it.

    The process group of the rank's topmost process gets it, so that a shell around the program does
    not keep it; that process alone where it leads none.
    """
    return sum(_signal_rank(process, signal_number) for process in processes if process.leads_rank)


def _signal_rank(process: JobProcess, signal_number: int) -> bool:
    stat = stat_of(process.pid)
    if stat is None or stat.started_at_s != process.started_at_s or stat.is_zombie:
        return False
    send = os.killpg if stat.group == stat.pid else os.kill
    return is_sent(send, process.pid, signal_number)


def rank_usage(process: JobProcess) -> RankUsage | None:
    """Return what one process of a rank used; None for one that is gone, or is of no rank."""
    stat = stat_of(process.pid)
    if process.rank is None or stat is None or stat.started_at_s != process.started_at_s:
        return None
    return RankUsage(
        rank=process.rank,
        local_rank=process.local_rank,
        pid=process.pid,
        cpu_s=stat.cpu_s,
        memory_bytes=stat.memory_bytes,
    )


def usage_by_rank(processes: Iterable[JobProcess]) -> tuple[RankUsage, ...]:
    """Return what each rank used with all that it started, in the order of ranks.

    What `MPI_Comm_spawn` starts counts anew from 0, and is added to those ranks of its run.
    """
    sums: dict[tuple[int, str], RankUsage] = {}
    for process in processes:
        if usage := rank_usage(process):
            key = (usage.rank, process.run_id or "")
            first = sums.get(key)
            sums[key] = usage if first is None else _added(first, usage)
    return tuple(sums[key] for key in sorted(sums))


def _added(first: RankUsage, more: RankUsage) -> RankUsage:
    return replace(
        first,
        cpu_s=first.cpu_s + more.cpu_s,
        memory_bytes=first.memory_bytes + more.memory_bytes,
    )


def _mark_of(environ: bytes, inherited: _Mark) -> _Mark:
    """Return what an environment says; what it lacks is as in the parent's."""
    run_id = value_in(environ, RUN_ID_VARIABLE)[:_MOST_ID_BYTES].decode(errors="replace")
    rank = _first_number(environ, RANK_VARIABLES)
    if rank is None:
        rank, local_rank = inherited.rank, inherited.local_rank
    else:
        local_rank = _first_number(environ, LOCAL_RANK_VARIABLES)
    return _Mark(run_id or inherited.run_id, rank, local_rank)


def _first_number(environ: bytes, names: Sequence[str]) -> int | None:
    values = (value_in(environ, name) for name in names)
    return next((int(value) for value in values if _is_number(value)), None)


def _is_number(value: bytes) -> bool:
    """Return whether a value can be a rank's number; anybody may set any value.

    Source: docs.python.org/3.11, "Integer string conversion length limitation": `int` refuses more
    than 4,300 digits.
    """
    return value.isdigit() and len(value) <= _MOST_RANK_DIGITS
