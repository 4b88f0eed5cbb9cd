"""The launcher's channels to its workers: when they are opened, what is said, how long it takes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from mpi_agent.job.events import Event, Noted
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.watched import END_LIMIT_S, WatchedWorkers, interval_s
from mpi_agent.ssh.remote import ChannelBrokenError, NoAgentError, WorkerChannel
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_protocol import (
    Alive,
    Call,
    Draining,
    Farewell,
    LauncherId,
    Line,
    OutOfMemory,
    Over,
    Refused,
    Verb,
    Watching,
)
from tests.fakes import EventRecorder, run_in_virtual_time

CALL = Call(verb=Verb.WATCH, launcher=LauncherId(name="launcher", container="1"), run_id="ab12")
DRAINING = Draining(signal_name="TERM", grace_s=25.0)
NO_MEMORY = OutOfMemory(kills=1, used_bytes=100, limit_bytes=200)
LEASE_S = 60.0


Said = Line | Exception
"""What a worker says, or how its channel ends."""

LOST = ChannelBrokenError("lost")
WATCHING = Watching(worker="w", lease_s=LEASE_S)


class _Channel:
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

    def tell(self, said: Said) -> None:
        """Let the worker say something by itself."""
        self._lines.put_nowait(said)


def polite(line: Line) -> Said | None:
    """Answer as a worker does."""
    return Farewell() if isinstance(line, Over) else Alive()


def mute(_: Line) -> Said | None:
    """Answer nothing."""
    return None


class _Workers:
    """Opens channels to workers of one kind.

    Args:
        first: what each says at the start, by its name.
        refuses: how many times opening fails, for each host.
        login_s: what a login takes.
    """

    def __init__(
        self,
        *first: Said,
        first_of: Callable[[str], tuple[Said, ...]] | None = None,
        answers: Callable[[Line], Said | None] = polite,
        refuses: int = 0,
        login_s: float = 0.1,
    ) -> None:
        self._first_of = first_of or (lambda _: first or (WATCHING,))
        self._answers = answers
        self._login_s = login_s
        self.refuses = refuses
        self.tried_at_s: dict[str, list[float]] = {}
        self.channels: list[_Channel] = []
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
            await asyncio.sleep(self._login_s)
        finally:
            self.logging_in -= 1
        if len(tries) <= self.refuses:
            raise ChannelBrokenError("refused")
        channel = _Channel(self._first_of(worker.name), self._answers)
        self.channels.append(channel)
        return channel


class _Job:
    """Watched workers `w-0`, `w-1` and so on, for some time."""

    def __init__(
        self, workers: _Workers, count: int = 1, is_dialling: Callable[[], bool] = lambda: False
    ) -> None:
        self.workers = workers
        self.recorder = EventRecorder()
        self.ended_in_s = 0.0
        self.news: tuple[WorkerNews, ...] = ()
        self._count = count
        self._is_dialling = is_dialling

    def runs(self, *steps: float | Callable[[], None], code: int = 0) -> _Job:
        """Go through the steps, which are seconds or something to do; then the job is over."""

        async def work(loop: asyncio.AbstractEventLoop) -> None:
            targets = [SshTarget(name=f"w-{n}", port=22) for n in range(self._count)]
            async with WatchedWorkers(
                targets, self.workers, CALL, emit=self.recorder, is_dialling=self._is_dialling
            ) as watched:
                if steps:
                    watched.begin()
                for step in steps:
                    if callable(step):
                        step()
                    else:
                        await asyncio.sleep(step)
                over_at_s = loop.time()
                await watched.end(code)
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


@pytest.mark.parametrize(
    ("lease_s", "every_s"), [(60.0, 15.0), (20.0, 5.0), (600.0, 15.0), (None, 15.0), (0.0, 0.05)]
)
def test_a_worker_is_told_four_times_in_its_lease_that_we_live(
    lease_s: float | None, every_s: float
) -> None:
    """And every 15 seconds at least."""
    assert interval_s(lease_s) == every_s


def test_a_worker_hears_that_we_live_and_in_the_end_the_code() -> None:
    """A minute of a program, with the usual lease."""
    job = _Job(_Workers()).runs(61.0, code=7)
    (channel,) = job.workers.channels

    assert channel.heard == [Alive(), Alive(), Alive(), Alive(), Over(exit_code=7)]
    assert job.ended_in_s < 0.01
    assert job.recorder.events == []


def test_a_program_that_ends_before_any_login_is_told_too() -> None:
    """Workers that end with their launcher wait for this word."""
    job = _Job(_Workers(), count=3).runs(code=1)

    assert [c.heard for c in job.workers.channels] == [[Over(exit_code=1)]] * 3
    assert job.ended_in_s == pytest.approx(0.1)


def test_at_most_16_logins_go_on_at_a_time() -> None:
    """The launcher has a program to look after."""
    workers = _Workers()

    _Job(workers, count=100).runs(10.0)

    assert workers.most_logging_in == 16
    assert len(workers.channels) == 100


def test_as_long_as_mpirun_dials_only_the_first_16_are_watched() -> None:
    """Its ssh clients need the same processors."""
    dialling = [True]
    seen = []
    workers = _Workers()

    _Job(workers, count=40, is_dialling=lambda: dialling[0]).runs(
        5.0,
        lambda: seen.append(len(workers.channels)),
        dialling.clear,
        lambda: dialling.append(False),
        2.0,
        lambda: seen.append(len(workers.channels)),
    )

    assert seen == [16, 40]


def test_the_end_is_bounded_for_a_thousand_hosts_that_were_never_reached() -> None:
    """And those are named in one line."""
    job = _Job(_Workers(login_s=3.0), count=1000).runs()

    assert job.ended_in_s == pytest.approx(END_LIMIT_S)
    (note,) = job.noted()
    assert note.endswith("said no farewell within 5 s of the program's end")
    assert "w-[16-999]" in note


def test_a_worker_that_never_says_farewell_holds_the_end_up_for_a_bounded_time() -> None:
    """Its agent may hang."""
    job = _Job(_Workers(answers=lambda line: None if isinstance(line, Over) else Alive()))
    job.runs(1.0)

    assert job.ended_in_s == pytest.approx(END_LIMIT_S)
    assert job.noted() == ["w-0 said no farewell within 5 s of the program's end"]


def test_a_channel_that_breaks_is_opened_again_and_nothing_is_concluded() -> None:
    """The network, or an sshd that was made anew."""
    workers = _Workers()
    job = _Job(workers).runs(1.0, lambda: workers.channels[0].tell(LOST), 5.0, code=3)

    first, second = workers.channels
    assert Over(exit_code=3) not in first.heard
    assert second.heard == [Over(exit_code=3)]
    assert job.recorder.events == []


def test_a_silent_worker_is_dialled_again() -> None:
    """A connection may look open for a quarter of an hour after its other end is gone."""
    workers = _Workers(answers=mute)

    _Job(workers).runs(31.0)

    assert len(workers.channels) == 2


def test_a_host_that_lets_nobody_in_is_tried_less_and_less_often() -> None:
    """Soon at first, then every ten seconds: sooner than its lease ends."""
    workers = _Workers(refuses=1000)

    _Job(workers).runs(60.0)

    tries = workers.tried_at_s["w-0"]
    pauses = [round(later - sooner - 0.1, 2) for sooner, later in itertools.pairwise(tries)]
    assert pauses[:8] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_a_channel_that_breaks_at_once_every_time_is_not_dialled_without_pause() -> None:
    """Being let in is no success yet."""
    workers = _Workers(WATCHING, LOST)

    _Job(workers).runs(30.0)

    assert len(workers.channels) < 10


def test_hosts_without_an_agent_are_told_in_one_line_and_left_alone() -> None:
    """Older agents, whose sessions have no such variable."""
    workers = _Workers(first_of=lambda name: (WATCHING if name == "w-1" else NoAgentError(),))

    job = _Job(workers, count=5).runs(30.0)

    assert job.noted() == ["w-[0,2-4]: the agent there cannot be spoken with; not watched"]
    assert len(workers.tried_at_s["w-0"]) == 1


def test_a_worker_that_does_not_take_the_call_is_left_alone() -> None:
    """It speaks another protocol."""
    workers = _Workers(Refused(why="there is no verb 'watch'"))

    job = _Job(workers).runs(30.0)

    assert job.noted() == ["w-0: the agent there cannot be spoken with; not watched"]


def test_a_worker_that_was_watched_is_called_again_after_a_refusal() -> None:
    """It may have many callers; its ranks would end when nobody is heard for too long."""
    busy = (Refused(why="64 others are speaking"),)
    beginnings: list[tuple[Said, ...]] = [(WATCHING, LOST), busy, busy, (WATCHING,)]
    workers = _Workers(first_of=lambda _: beginnings.pop(0))

    job = _Job(workers).runs(30.0)

    assert len(workers.channels) == 4
    assert workers.channels[-1].heard[-1] == Over(exit_code=0)
    assert job.noted() == []


def test_what_a_worker_tells_is_an_event_and_news_for_the_ending() -> None:
    """Told once, however often the channel is opened anew."""
    workers = _Workers(WATCHING, DRAINING)

    job = _Job(workers).runs(
        1.0,
        lambda: workers.channels[0].tell(NO_MEMORY),
        lambda: workers.channels[0].tell(LOST),
        5.0,
    )

    assert job.events(WorkerEvicted) == [
        WorkerEvicted(host="w-0", signal_name="TERM", grace_s=25.0)
    ]
    assert job.events(WorkerExceededMemory) == [
        WorkerExceededMemory(host="w-0", kills=1, used_bytes=100, limit_bytes=200)
    ]
    assert job.news == (
        WorkerNews(host="w-0", is_evicted=True, kills=1, used_bytes=100, limit_bytes=200),
    )


def test_what_is_told_between_the_end_and_the_farewell_counts() -> None:
    """The kernel's count may be read only then."""
    workers = _Workers(answers=mute)

    async def farewell(channel: _Channel) -> None:
        while Over(exit_code=137) not in channel.heard:
            await asyncio.sleep(0.01)
        channel.tell(NO_MEMORY)
        channel.tell(Farewell())

    tasks: list[asyncio.Task[None]] = []
    job = _Job(workers).runs(
        1.0,
        lambda: tasks.append(asyncio.create_task(farewell(workers.channels[0]))),
        code=137,
    )

    assert [news.kills for news in job.news] == [1]


def test_an_evicted_worker_that_cannot_be_reached_any_more_is_gone() -> None:
    """Without a note that it did not answer: that was to be expected."""
    workers = _Workers(WATCHING, DRAINING)

    def go() -> None:
        workers.refuses = 1000
        workers.channels[0].tell(LOST)

    job = _Job(workers).runs(1.0, go, 5.0)

    assert job.news == (WorkerNews(host="w-0", is_evicted=True, is_gone=True),)
    assert job.noted() == []


def test_an_evicted_worker_that_said_farewell_before_the_end_is_gone_too() -> None:
    """It has ended; it is not called again."""
    workers = _Workers(WATCHING, DRAINING)

    job = _Job(workers).runs(1.0, lambda: workers.channels[0].tell(Farewell()), 5.0)

    assert job.news == (WorkerNews(host="w-0", is_evicted=True, is_gone=True),)
    assert len(workers.channels) == 1
