"""Watches whether the kernel kills processes of this container because they take too much memory.

Whoever started them learns "signal 9" and no more; the kernel's counter tells the reason. It counts
what happened before we looked for the first time too, which is nobody's news.

A look that fails is told, once for each reason, and the next one is made all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mpi_agent.cgroup import CGROUP_ROOT, memory_account
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.worker_events import MemoryExceeded

__all__ = ["MemoryWatch", "watch_memory"]


class MemoryWatch:
    """Remembers the counter, so that each growth is told once.

    Whether `watch_memory` or a `look` sees it first does not matter: the other one is silent then.
    """

    def __init__(self, root: Path = CGROUP_ROOT) -> None:
        self._root = root
        account = memory_account(root)
        self._kills = account.kills
        self._most_used_bytes = account.used_bytes

    def look(self) -> MemoryExceeded | None:
        """Return what happened since the last look; None when nobody was killed."""
        account = memory_account(self._root)
        self._most_used_bytes = max(self._most_used_bytes or 0, account.used_bytes or 0) or None
        before, self._kills = self._kills, account.kills
        if before is None or account.kills is None or account.kills <= before:
            return None
        return MemoryExceeded(
            kills=account.kills - before,
            used_bytes=account.most_used_bytes or self._most_used_bytes,
            limit_bytes=account.limit_bytes,
            total_kills=account.kills,
        )


async def watch_memory(
    watch: MemoryWatch,
    *,
    tell: Callable[[MemoryExceeded], None],
    pace_s: float,
    emit: EventSink,
) -> None:
    """Look until cancelled, and tell each time that the counter has grown.

    Args:
        pace_s: between two looks.
    """
    told: set[str] = set()
    while True:
        try:
            if (exceeded := watch.look()) is not None:
                tell(exceeded)
        except Exception as error:  # whatever is wrong, what happens next must not be missed
            why = f"{type(error).__name__}: {error}"
            if why not in told:
                told.add(why)
                emit(Noted(text=f"cannot watch the container's memory: {why}; it is tried again"))
        await asyncio.sleep(pace_s)
