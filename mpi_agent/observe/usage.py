"""What ranks use, looked at when somebody asks, and not for each of many who ask at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from mpi_agent.cgroup import MemoryAccount, memory_account
from mpi_agent.job_processes import RankUsage, find_job_processes, usage_by_rank

__all__ = ["Recently", "Usage", "usage_here"]

_KEEP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is used now, as far as it can be seen.

    Attributes:
        memory: of the container in which the ranks run.
        notes: why something is not seen, a sentence each.
    """

    ranks: tuple[RankUsage, ...] = ()
    memory: MemoryAccount = field(default_factory=MemoryAccount)
    notes: tuple[str, ...] = ()


def usage_here() -> Usage:
    """Return what those ranks use that descend from this process, and the container's memory."""
    found = find_job_processes(below=os.getpid())
    return Usage(ranks=usage_by_rank(found.processes), memory=memory_account())


class Recently:
    """Looks at most once a second: who asks over HTTP is not known, and may ask too often.

    Args:
        now_s: the monotonic clock.
    """

    def __init__(self, look: Callable[[], Usage], *, now_s: Callable[[], float]) -> None:
        self._look = look
        self._now_s = now_s
        self._looks = threading.Lock()
        self._looked_at_s = float("-inf")
        self._usage = Usage()

    def __call__(self) -> Usage:
        """Return what was used within the last second."""
        with self._looks:
            if self._now_s() - self._looked_at_s >= _KEEP_S:
                self._usage = self._look()
                self._looked_at_s = self._now_s()
            return self._usage
