"""What the launcher knows of one worker that it watches: what it said, whether it can be reached.

An ending is explained by what the worker said, and by nothing else. Whether it can be reached
decides how long the end of the program waits for it, and when it was heard last whether it lives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpi_agent.job.endings import signal_name
from mpi_agent.job.events import Event, Noted, RankFailed
from mpi_agent.job.run_reports import HostPresence, HostSwept
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import RankExit, WorkerNews
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import (
    Draining,
    Farewell,
    GraceOver,
    Line,
    OutOfMemory,
    Presence,
    RankGone,
    Swept,
    Throttled,
    Watching,
)

__all__ = ["GIVEN_UP_AFTER_S", "OUT_OF_REACH_AFTER_S", "Heard", "WatchedWorker"]

GIVEN_UP_AFTER_S = 20.0
"""since when every try failed; longer than a login may take, so that there was more than one"""

OUT_OF_REACH_AFTER_S = 3.0
"""since when its channel is broken; an ssh server that is made anew is back within a second"""

_MEMORY_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the channel to a worker tells of whether it lives.

    Attributes:
        is_open: it can be spoken with.
        last_word_s: when it said anything, None where it never did; by the event loop's time.
        is_replaced: another container answered when the channel was opened again.
        is_evicted: it said that it is told to end.
        ends_all: it said that it ends what is left of the program.
        has_left: it said farewell, and had nothing to end.
    """

    is_open: bool
    last_word_s: float | None
    is_replaced: bool
    is_evicted: bool
    ends_all: bool
    has_left: bool


class WatchedWorker:
    """One worker; times are those of the event loop.

    Attributes:
        is_stranger: it has no agent that can be spoken with.
        has_told_all: nothing more will come of it that explains an ending.
        has_heard_all: it said farewell; nothing more will come.
        answers_questions: its agent knows more than `alive` and `over`.
        swept: what it ended when the program had ended, None where it did not say.
    """

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.is_stranger = False
        self.has_told_all = False
        self.has_heard_all = False
        self.answers_questions = False
        self.news = WorkerNews(host=target.name)
        self.swept: HostSwept | None = None
        self._presence: HostPresence | None = None
        self._container = ""
        self._is_replaced = False
        self._last_word_s: float | None = None
        self._is_open = self._was_open = False
        self._failures = 0
        self._failing_since_s = 0.0
        self._total_kills = 0
        self._untold: WorkerExceededMemory | None = None
        self._memory_told_at_s: float | None = None

    @property
    def heard(self) -> Heard:
        """What tells whether it lives."""
        return Heard(
            is_open=self._is_open,
            last_word_s=self._last_word_s,
            is_replaced=self._is_replaced,
            is_evicted=self.news.is_evicted,
            ends_all=self.news.is_lost,
            has_left=self.has_heard_all and not self.news.is_lost,
        )

    @property
    def presence(self) -> HostPresence | None:
        """What of the run is there; None where nobody there can tell.

        One whose agent tells it, and told nothing yet, has nothing of the run.
        """
        if self._presence is None and self._is_open and self.answers_questions:
            return HostPresence(host=self.target.name, daemons=0, ranks=0, had_ranks=False)
        return self._presence

    def had_nothing(self, since_s: float) -> bool:
        """Return whether it was heard since a time, and knows of nothing of the run there.

        Ranks that have ended count; a daemon that is gone does not.
        """
        if not self.answers_questions or self._last_word_s is None or self._last_word_s < since_s:
            return False
        seen = self._presence
        return not self.news.saw_ranks and (seen is None or not seen.daemons)

    def opened(self, watching: Watching, at_s: float) -> None:
        """Note that it can be spoken with, and who it is.

        An older agent does not say which container it is, and knows no questions.
        """
        self._is_open = self._was_open = True
        self._failures = 0
        self._last_word_s = at_s
        self.answers_questions = bool(watching.container)
        if self._container and watching.container not in ("", self._container):
            self._is_replaced = True
            self._total_kills = 0
        self._container = self._container or watching.container

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

    def is_out_of_reach(self, at_s: float) -> bool:
        """Return whether its channel broke and stayed so, so that a sweep need not wait for it.

        That is no verdict: it is still tried until the very end.
        """
        has_broken = self._was_open and not self._is_open and self._failures > 0
        return has_broken and at_s - self._failing_since_s >= OUT_OF_REACH_AFTER_S

    def take(self, line: Line, *, at_s: float) -> tuple[Event, ...]:
        """Keep what a line tells; return what is to be told of it now."""
        host = self.target.name
        self._last_word_s = at_s
        match line:
            case Farewell():
                self.has_heard_all = True
                self.has_told_all = True
            case Presence(daemons=daemons, ranks=count):
                self._note_presence(daemons, count)
            case RankGone():
                return self._note_exit(line, at_s)
            case Swept():
                self._note_swept(line)
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
            case Throttled(periods=periods, throttled=throttled):
                self.news = replace(self.news, periods=periods, throttled=throttled)
        return self._memory_told(at_s) if self._may_tell_memory(at_s) else ()

    def rest(self) -> tuple[Event, ...]:
        """Return what is still to be told when nothing more will come."""
        return self._memory_told(0.0)

    def _note_swept(self, line: Swept) -> None:
        """Add up what it ended: it looks once when it is asked to, and once more at the end."""
        before = self.swept or HostSwept(host=self.target.name)
        self.swept = replace(
            before,
            ended=before.ended + line.ended,
            killed=before.killed + line.killed,
            left=line.left,
            segments=before.segments + line.segments,
        )
        self.has_told_all = True

    def _note_presence(self, daemons: int, ranks: int) -> None:
        had_ranks = ranks > 0 or self.news.saw_ranks
        self.news = replace(self.news, saw_ranks=had_ranks)
        before = self._presence
        self._presence = HostPresence(
            host=self.target.name,
            daemons=daemons,
            ranks=ranks,
            had_ranks=had_ranks,
            had_daemons=daemons > 0 or (before is not None and before.had_daemons),
        )

    def _note_exit(self, line: RankGone, at_s: float) -> tuple[Event, ...]:
        """Keep how a rank ended, once: a worker may say it again on a channel that is made anew."""
        if any(known.rank == line.rank for known in self.news.rank_exits):
            return ()
        gone = RankExit(rank=line.rank, code=line.code, signal=line.signal, at_s=at_s)
        exits = (*self.news.rank_exits, gone)
        self.news = replace(self.news, saw_ranks=True, rank_exits=exits)
        if not gone.is_bad:
            return ()
        return (RankFailed(host=self.target.name, rank=gone.rank, how=_how(gone)),)

    def _add(self, line: OutOfMemory) -> None:
        """Add to what is known and to what is to be told, unless it was said before.

        A worker may say it again on a channel that is made anew; an older one does not tell how
        many there were in all, and is believed.
        """
        if line.total_kills and line.total_kills <= self._total_kills:
            return
        self._total_kills, news = line.total_kills, self.news
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


def _how(gone: RankExit) -> str:
    if gone.signal is None:
        return f"exit code {gone.code}"
    name = signal_name(gone.signal)
    return f"signal {gone.signal} ({name})" if name.startswith("SIG") else name
