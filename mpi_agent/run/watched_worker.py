"""What the launcher knows of one worker that it watches: what it said, whether it can be reached.

An ending is explained by what the worker said, and by nothing else. Whether it can be reached
decides alone how long the end of the program waits for it.
"""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.job.events import Event, Noted
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import Draining, Farewell, GraceOver, Line, OutOfMemory

__all__ = ["GIVEN_UP_AFTER_S", "WatchedWorker"]

GIVEN_UP_AFTER_S = 20.0
"""since when every try failed; longer than a login may take, so that there was more than one"""

_MEMORY_PAUSE_S = 1.0


class WatchedWorker:
    """One worker; times are those of the event loop.

    Attributes:
        is_stranger: it has no agent that can be spoken with.
        has_heard_all: it said farewell; nothing more will come.
    """

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.is_stranger = False
        self.has_heard_all = False
        self.news = WorkerNews(host=target.name)
        self._is_open = self._was_open = False
        self._failures = 0
        self._failing_since_s = 0.0
        self._untold: WorkerExceededMemory | None = None
        self._memory_told_at_s: float | None = None

    def opened(self) -> None:
        """Note that it can be spoken with."""
        self._is_open = self._was_open = True
        self._failures = 0

    def closed(self, at_s: float) -> None:
        """Note that it cannot be spoken with, or not any more."""
        self._is_open = False
        if not self._failures:
            self._failing_since_s = at_s
        self._failures += 1

    def turned_away(self) -> None:
        """Note that nobody there takes the call; for ever, unless somebody did before."""
        self.is_stranger = not self._was_open

    def is_given_up(self, at_s: float) -> bool:
        """Return whether nobody need wait for a word of it any more.

        One that is being evicted lets nobody in; another one may only have lost its network.
        """
        if self._is_open or self.has_heard_all or not self._failures:
            return False
        failing_s = at_s - self._failing_since_s
        return self.news.is_evicted or (self._failures > 1 and failing_s >= GIVEN_UP_AFTER_S)

    def take(self, line: Line, *, at_s: float) -> tuple[Event, ...]:
        """Keep what a line tells; return what is to be told of it now."""
        host = self.target.name
        match line:
            case Farewell():
                self.has_heard_all = True
            case Draining(signal_name=name, grace_s=grace_s, ranks=ranks):
                before, most = self.news, max(ranks, self.news.ranks)
                self.news = replace(before, is_evicted=True, ranks=most)
                if not before.is_evicted:
                    return (WorkerEvicted(host=host, signal_name=name, grace_s=grace_s),)
            case GraceOver() if not self.news.is_lost:
                self.news = replace(self.news, is_lost=True)
                return (Noted(text=f"{host} ends what is left of the program there"),)
            case OutOfMemory():
                self._add(line)
        return self._memory_told(at_s) if self._may_tell_memory(at_s) else ()

    def rest(self) -> tuple[Event, ...]:
        """Return what is still to be told when nothing more will come."""
        return self._memory_told(0.0)

    def _add(self, line: OutOfMemory) -> None:
        """Add to what is known and to what is to be told."""
        news = self.news
        used = max(line.used_bytes or 0, news.used_bytes or 0) or line.used_bytes
        limit = news.limit_bytes if line.limit_bytes is None else line.limit_bytes
        self.news = replace(news, kills=news.kills + line.kills, used_bytes=used, limit_bytes=limit)
        untold = 0 if self._untold is None else self._untold.kills
        self._untold = WorkerExceededMemory(
            host=news.host, kills=untold + line.kills, used_bytes=used, limit_bytes=limit
        )

    def _may_tell_memory(self, at_s: float) -> bool:
        """Return whether it is a second since the last time: a worker may say it without end."""
        told_at_s = self._memory_told_at_s
        return told_at_s is None or at_s - told_at_s >= _MEMORY_PAUSE_S

    def _memory_told(self, at_s: float) -> tuple[Event, ...]:
        told, self._untold = self._untold, None
        if told is None:
            return ()
        self._memory_told_at_s = at_s
        return (told,)
