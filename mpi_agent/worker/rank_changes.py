"""What has changed about the ranks of one run since the last look, and what its launcher is told.

A rank is there from the look that found it until its topmost process has ended, by its pid and its
start: a program that writes a title over its environment is still the same one. What a rank leaves
behind, below nothing of its run, carries its number too and is no rank; nor is it ever told to have
ended. Numbers may come twice, since what `MPI_Comm_spawn` starts counts anew from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpi_agent.job_processes import JobProcess
from mpi_agent.process_table import ProcessKey
from mpi_agent.ssh.worker_words import Line, Presence, RankGone
from mpi_agent.worker.process_ends import ProcessEnd

__all__ = ["RankChanges"]


class RankChanges:
    """The ranks of one run, as they are known here.

    Attributes:
        has_ranks: one was seen.
    """

    def __init__(self) -> None:
        self.has_ranks = False
        self._ranks: dict[ProcessKey, int] = {}
        self._daemons = 0
        self._told: Presence | None = None

    @property
    def keys(self) -> tuple[ProcessKey, ...]:
        """The topmost processes of the ranks that are there."""
        return tuple(self._ranks)

    def ended(self, key: ProcessKey, end: ProcessEnd) -> tuple[Line, ...]:
        """Return what is told because a process has ended; nothing if it led no rank of the run."""
        rank = self._ranks.pop(key, None)
        if rank is None:
            return ()
        return (RankGone(rank=rank, code=end.code, signal=end.signal),)

    def looked(
        self,
        processes: Iterable[JobProcess],
        *,
        daemons: int,
        end_of: Callable[[ProcessKey], ProcessEnd | None],
    ) -> tuple[Line, ...]:
        """Return what is told after a look: ranks that ended, then how many are there now.

        Args:
            processes: of the run, live ones.
            end_of: see `process_ends.end_of`.
        """
        gone = [line for key in self.keys if (end := end_of(key)) for line in self.ended(key, end)]
        for process in processes:
            if process.leads_rank and not process.is_orphan and process.rank is not None:
                self._ranks.setdefault(process.key, process.rank)
        self.has_ranks = self.has_ranks or bool(self._ranks)
        self._daemons = daemons
        return (*gone, *self.presence())

    def presence(self, *, is_asked: bool = False) -> tuple[Line, ...]:
        """Return what is here, if that is not what was told last.

        Args:
            is_asked: whoever is told now may have heard nothing of what was told before.
        """
        now = Presence(daemons=self._daemons, ranks=len(self._ranks))
        if now == (self._told or Presence(daemons=0, ranks=0)) and not (is_asked and self._told):
            return ()
        self._told = now
        return (now,)
