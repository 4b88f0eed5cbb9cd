"""Workers that are played, and a launcher's channels to them for some time; nothing is real."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from mpi_agent.job.events import Event, EventSink, Noted
from mpi_agent.job.run_reports import HostSwept
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.watched import WatchedWorkers
from mpi_agent.ssh.remote import ChannelBrokenError, WorkerChannel
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import (
    Alive,
    Call,
    Draining,
    Farewell,
    LauncherId,
    Line,
    OutOfMemory,
    Over,
    Verb,
    Watching,
)
from tests.fakes import EventRecorder, run_in_virtual_time

__all__ = [
    "CALL",
    "DRAINING",
    "LEASE_S",
    "LOST",
    "NO_MEMORY",
    "REFUSED",
    "WATCHING",
    "PlayedChannel",
    "PlayedJob",
    "PlayedWorkers",
    "Said",
    "mute",
    "polite",
]

CALL = Call(verb=Verb.WATCH, launcher=LauncherId(name="launcher", container="1"), run_id="ab12")
DRAINING = Draining(signal_name="TERM", grace_s=25.0, ranks=1)
NO_MEMORY = OutOfMemory(kills=1, used_bytes=100, limit_bytes=200)
LEASE_S = 60.0


Said = Line | Exception
"""What a worker says, or how its channel ends."""

LOST = ChannelBrokenError("lost")
REFUSED = ChannelBrokenError("refused")
WATCHING = Watching(worker="w", lease_s=LEASE_S)


class PlayedChannel:
    """A conversation with one worker of the fakes.

    Args:
        first: what it says at the start.
        answers: what it says to each line, None for nothing.
    """

    def __init__(self, first: tuple[Said, ...], answers: Callable[[Line], Said | None]) -> None:
        self._lines: asyncio.Queue[Said] = asyncio.Queue()
        self._answers = answers
        self.heard: list[Line] = []
        self.is_closed = False
        for said in first:
            self.tell(said)

    def send(self, line: Line) -> None:
        """Hear a line and answer it."""
        self.heard.append(line)
        if (answer := self._answers(line)) is not None:
            self.tell(answer)

    async def receive(self) -> Line:
        """Return the next line that the worker says."""
        said = await self._lines.get()
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def tell(self, *said: Said) -> None:
        """Let the worker say something by itself."""
        for one in said:
            self._lines.put_nowait(one)


def polite(line: Line) -> Said | None:
    """Answer as a worker does."""
    return Farewell() if isinstance(line, Over) else Alive()


def mute(_: Line) -> Said | None:
    """Answer nothing."""
    return None


class PlayedWorkers:
    """Opens channels to workers of one kind.

    Args:
        first: what each says at the start, by its name.
        refuses: how many times opening fails, for each host.
        login_s: what a login takes.
        trouble: with which opening fails.

    Attributes:
        dead: names of hosts that are not there any more, so that logins fail at their limit.
        latest: the last channel to each host.
    """

    def __init__(
        self,
        *first: Said,
        first_of: Callable[[str], tuple[Said, ...]] | None = None,
        answers: Callable[[Line], Said | None] = polite,
        refuses: int = 0,
        login_s: float = 0.1,
        trouble: Exception = REFUSED,
    ) -> None:
        self._first_of = first_of or (lambda _: first or (WATCHING,))
        self._answers = answers
        self._login_s = login_s
        self.dead: set[str] = set()
        self._trouble = trouble
        self.refuses = refuses
        self.tried_at_s: dict[str, list[float]] = {}
        self.channels: list[PlayedChannel] = []
        self.latest: dict[str, PlayedChannel] = {}
        self.logging_in = 0
        self.most_logging_in = 0

    async def open(self, worker: SshTarget, call: Call) -> WorkerChannel:
        """Return a channel after the time of a login."""
        assert call == CALL
        tries = self.tried_at_s.setdefault(worker.name, [])
        tries.append(asyncio.get_running_loop().time())
        self.logging_in += 1
        self.most_logging_in = max(self.most_logging_in, self.logging_in)
        try:
            await asyncio.sleep(15.0 if worker.name in self.dead else self._login_s)
        finally:
            self.logging_in -= 1
        if len(tries) <= self.refuses or worker.name in self.dead:
            raise self._trouble
        channel = PlayedChannel(self._first_of(worker.name), self._answers)
        self.channels.append(channel)
        self.latest[worker.name] = channel
        return channel


Step = float | Callable[[], object]


class PlayedJob:
    """Watched workers `w-0`, `w-1` and so on, for some time.

    Attributes:
        watched: the launcher's channels, while and after it runs.
        swept: what the workers said that they ended.
        news_before_the_word: what was known when it was decided how the job goes on.
    """

    def __init__(
        self,
        workers: PlayedWorkers,
        count: int = 1,
        is_dialling: Callable[[], bool] = lambda: False,
        room: Callable[[int], int] = lambda count: count,
        log: EventSink | None = None,
        worker_timeout_s: float | None = None,
    ) -> None:
        self.workers = workers
        self.recorder = EventRecorder()
        self._emit = log or self.recorder
        self._room = room
        self.watched: WatchedWorkers
        self.ended_in_s = 0.0
        self.swept: tuple[HostSwept, ...] = ()
        self._worker_timeout_s = worker_timeout_s
        self.news: tuple[WorkerNews, ...] = ()
        self.news_before_the_word: tuple[WorkerNews, ...] = ()
        self._count = count
        self._is_dialling = is_dialling

    def runs(
        self, *steps: Step, code: int = 0, summary: str = "", is_final: bool = True
    ) -> PlayedJob:
        """Go through the steps, which are seconds or something to do; then the job is over."""

        async def work(loop: asyncio.AbstractEventLoop) -> None:
            targets = [SshTarget(name=f"w-{n}", port=22) for n in range(self._count)]
            async with WatchedWorkers(
                targets,
                self.workers,
                CALL,
                emit=self._emit,
                is_dialling=self._is_dialling,
                room=self._room,
                worker_timeout_s=self._worker_timeout_s,
            ) as watched:
                self.watched = watched
                if steps:
                    watched.begin()
                for step in steps:
                    if callable(step):
                        done = step()
                        if inspect.isawaitable(done):
                            await done
                    else:
                        await asyncio.sleep(step)
                over_at_s = loop.time()
                self.swept = await watched.sweep()
                self.news_before_the_word = watched.news
                await watched.end(code, summary, is_final=is_final)
                self.ended_in_s = loop.time() - over_at_s
            self.news = watched.news

        run_in_virtual_time(work)
        assert all(channel.is_closed for channel in self.workers.channels)
        return self

    def noted(self) -> list[str]:
        """Return the notes."""
        return [event.text for event in self.recorder.events if isinstance(event, Noted)]

    def events(self, kind: type[Event]) -> list[Event]:
        """Return the events of a kind."""
        return [event for event in self.recorder.events if isinstance(event, kind)]
