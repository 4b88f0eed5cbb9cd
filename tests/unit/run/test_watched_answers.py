"""What workers are asked while the program runs, what they tell of its ranks, and of its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from mpi_agent.job.events import RankFailed
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, RankCpu, SignalPassed
from mpi_agent.job.worker_news import RankExit
from mpi_agent.run.watched import END_LIMIT_S
from mpi_agent.run.watched_worker import Heard
from mpi_agent.ssh.remote import NoAgentError
from mpi_agent.ssh.worker_words import (
    Alive,
    Farewell,
    Line,
    Measure,
    Over,
    PassSignal,
    Presence,
    RankGone,
    Restarting,
    Signalled,
    Sweep,
    Swept,
    Usage,
    Watching,
)
from tests.unit.run.played_workers import (
    DRAINING,
    LEASE_S,
    LOST,
    WATCHING,
    PlayedJob,
    PlayedWorkers,
    Said,
)

NEW = Watching(worker="w", lease_s=LEASE_S, container="c1")
OTHER = Watching(worker="w", lease_s=LEASE_S, container="c2")


NOTHING_LEFT = Swept(ended=0, killed=0, left=0, segments=0)


def knowing(line: Line) -> Said | None:
    """Answer as an agent does that knows every question."""
    match line:
        case PassSignal():
            return Signalled(ranks=4)
        case Measure():
            return Usage(rank_numbers=(0, 1), cpu_s=(1.5, 2.5))
        case Sweep():
            return NOTHING_LEFT
        case Over() | Restarting():
            return Farewell()
    return Alive()


def not_knowing(line: Line) -> Said | None:
    """Answer as an agent does that passes over what it does not know."""
    return None if isinstance(line, PassSignal | Measure | Restarting) else knowing(line)


class _Asked:
    """A job of three workers one of which is asked for something.

    Args:
        first_of: what each says at the start.
    """

    def __init__(
        self,
        first_of: Callable[[str], tuple[Said, ...]] = lambda _: (NEW,),
        answers: Callable[[Line], Said | None] = knowing,
    ) -> None:
        self.workers = PlayedWorkers(first_of=first_of, answers=answers)
        self.job = PlayedJob(self.workers, count=3)
        self.passed: tuple[SignalPassed, ...] = ()
        self.usage: tuple[HostUsage, ...] = ()
        self.took_s = 0.0

    async def ask(self) -> None:
        """Pass a signal, and measure."""
        loop = asyncio.get_running_loop()
        began_at_s = loop.time()
        self.passed = await self.job.watched.pass_signal(signal.SIGUSR1)
        self.took_s = loop.time() - began_at_s
        self.usage = await self.job.watched.measure()


def test_a_signal_is_passed_by_every_worker_and_each_tells_how_many_ranks_got_it() -> None:
    """And is called by its name."""
    asked = _Asked()

    asked.job.runs(1.0, asked.ask)

    assert asked.passed == tuple(SignalPassed(host=f"w-{n}", ranks=4) for n in range(3))
    assert PassSignal(signal_name="SIGUSR1") in asked.workers.channels[0].heard


def test_usage_is_told_for_each_rank() -> None:
    """By its number."""
    asked = _Asked()

    asked.job.runs(1.0, asked.ask)

    ranks = (RankCpu(rank=0, cpu_s=1.5), RankCpu(rank=1, cpu_s=2.5))
    assert asked.usage == tuple(HostUsage(host=f"w-{n}", ranks=ranks) for n in range(3))


def test_a_worker_that_does_not_answer_holds_a_signal_up_for_three_seconds() -> None:
    """And nobody knows of its ranks."""
    asked = _Asked(answers=not_knowing)

    asked.job.runs(1.0, asked.ask)

    assert {passed.ranks for passed in asked.passed} == {None}
    assert asked.took_s == pytest.approx(3.0)
    assert asked.usage == ()


def test_an_older_agent_and_a_broken_channel_are_not_waited_for() -> None:
    """One would pass the question over; a host without an agent is not in the answer at all."""
    firsts: dict[str, tuple[Said, ...]] = {
        "w-0": (WATCHING,),
        "w-1": (NEW, LOST),
        "w-2": (NoAgentError(),),
    }
    asked = _Asked(first_of=lambda name: firsts[name])

    asked.job.runs(0.2, asked.ask)

    assert asked.passed == (
        SignalPassed(host="w-0", ranks=None),
        SignalPassed(host="w-1", ranks=None),
    )
    assert asked.took_s < 0.01
    assert asked.job.watched.strangers == ("w-2",)


def test_a_channel_that_breaks_over_a_question_ends_the_waiting_for_its_answer() -> None:
    """At once."""
    asked = _Asked(answers=lambda line: LOST if isinstance(line, PassSignal) else knowing(line))

    asked.job.runs(1.0, asked.ask)

    assert {passed.ranks for passed in asked.passed} == {None}
    assert asked.took_s < 0.01


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one() -> None:
    """Answers come in the order of the questions."""
    held: list[Line] = []

    def slow(line: Line) -> Said | None:
        if isinstance(line, PassSignal):
            held.append(line)
            return None
        return knowing(line)

    workers = PlayedWorkers(NEW, answers=slow)
    job = PlayedJob(workers)
    passed: list[SignalPassed] = []

    async def ask_twice() -> None:
        passed.extend(await job.watched.pass_signal(signal.SIGTERM))
        second = asyncio.create_task(job.watched.pass_signal(signal.SIGTERM))
        await asyncio.sleep(0.1)
        for ranks in (1, 2):
            workers.channels[0].tell(Signalled(ranks=ranks))
        passed.extend(await second)

    job.runs(1.0, ask_twice)

    assert [one.ranks for one in passed] == [None, 2]


def test_presence_is_what_a_worker_told_last_and_that_there_were_ranks_stays_known() -> None:
    """Also after a channel broke; an agent that told nothing yet has nothing."""
    firsts: dict[str, tuple[Said, ...]] = {"w-0": (NEW,), "w-1": (NEW,), "w-2": (WATCHING,)}
    asked = _Asked(first_of=lambda name: firsts[name])
    seen: list[tuple[HostPresence, ...]] = []

    def look() -> None:
        seen.append(asked.job.watched.presence)

    def tell(*said: Said) -> Callable[[], None]:
        return lambda: asked.workers.latest["w-1"].tell(*said)

    asked.job.runs(
        1.0,
        look,
        tell(Presence(daemons=1, ranks=4)),
        0.1,
        look,
        tell(Presence(daemons=1, ranks=0), LOST),
        0.1,
        look,
    )

    nothing = HostPresence(host="w-0", daemons=0, ranks=0, had_ranks=False)
    assert [presence[0] for presence in seen] == [nothing] * 3
    assert [len(presence) for presence in seen] == [2, 2, 2]
    assert [p[1].ranks for p in seen] == [0, 4, 0]
    assert [p[1].had_ranks for p in seen] == [False, True, True]
    assert asked.job.news == ()


def test_ranks_that_end_badly_are_told_once_and_all_ends_are_kept() -> None:
    """A worker says it again on a channel that is made anew."""
    seven = RankGone(rank=3, code=7, signal=None)
    segv = RankGone(rank=4, code=None, signal=11)
    well, unseen = (
        RankGone(rank=5, code=0, signal=None),
        RankGone(rank=6, code=None, signal=None),
    )
    workers = PlayedWorkers(NEW)
    job = PlayedJob(workers)

    def tell(*said: Said) -> Callable[[], None]:
        return lambda: workers.channels[-1].tell(*said)

    job.runs(1.0, tell(seven, segv, well, unseen, LOST), 1.0, tell(seven), 1.0)

    assert job.events(RankFailed) == [
        RankFailed(host="w-0", rank=3, how="exit code 7"),
        RankFailed(host="w-0", rank=4, how="signal 11 (SIGSEGV)"),
    ]
    (news,) = job.news
    assert news.saw_ranks
    at_s = news.rank_exits[0].at_s
    assert news.rank_exits[0] == RankExit(rank=3, code=7, signal=None, at_s=at_s)
    assert at_s == pytest.approx(1.0)
    assert [gone.rank for gone in news.rank_exits] == [3, 4, 5, 6]


def test_of_a_thousand_ranks_that_fail_only_the_first_are_told() -> None:
    """The others were ended for it."""
    workers = PlayedWorkers(NEW)
    job = PlayedJob(workers)

    def tell() -> None:
        for rank in range(1000):
            workers.channels[0].tell(RankGone(rank=rank, code=None, signal=9))

    job.runs(1.0, tell, 1.0)

    assert len(job.events(RankFailed)) == 16
    assert len(job.news[0].rank_exits) == 1000


def test_what_workers_ended_is_heard_before_they_are_told_how_the_job_goes_on() -> None:
    """Nothing is known of one that does not answer; nothing was told by an older agent."""
    swept = Swept(ended=3, killed=1, left=0, segments=2)
    firsts: dict[str, tuple[Said, ...]] = {"w-0": (NEW,), "w-1": (WATCHING,), "w-2": (NEW,)}
    workers = PlayedWorkers(
        first_of=lambda name: firsts[name],
        answers=lambda line: None if isinstance(line, Sweep) else knowing(line),
    )
    job = PlayedJob(workers, count=3)

    async def answer() -> None:
        while Sweep() not in workers.latest["w-0"].heard:
            await asyncio.sleep(0.01)
        workers.latest["w-0"].tell(swept)

    tasks: list[asyncio.Task[None]] = []
    job.runs(1.0, lambda: tasks.append(asyncio.create_task(answer())))

    assert job.swept == (
        HostSwept(host="w-0", ended=3, killed=1, left=0, segments=2),
        HostSwept(host="w-1"),
        HostSwept(host="w-2", answered=False),
    )


def test_a_host_that_is_lost_is_not_waited_for_and_not_told_again() -> None:
    """Its channel may look open."""
    workers = PlayedWorkers(NEW, answers=lambda _: None)
    job = PlayedJob(workers)

    job.runs(1.0, lambda: job.watched.give_up("w-0"), code=201)

    assert job.ended_in_s < 0.6
    assert job.noted() == []
    assert job.swept == (HostSwept(host="w-0", answered=False),)


def test_workers_hear_how_it_ended_and_whether_it_is_begun_again() -> None:
    """In one line that the protocol can hold."""
    over, again = PlayedWorkers(NEW, answers=knowing), PlayedWorkers(NEW, answers=knowing)

    PlayedJob(over).runs(1.0, code=201, summary="pi-worker-3\nlost")
    PlayedJob(again).runs(1.0, code=201, summary="x" * 9999, is_final=False)

    assert over.channels[0].heard == [Sweep(), Over(exit_code=201, summary="pi-worker-3 lost")]
    assert again.channels[0].heard == [Sweep(), Restarting(exit_code=201, summary="x" * 2000)]


def test_the_last_words_of_a_worker_are_known_before_it_is_decided_how_the_job_goes_on() -> None:
    """Which rank failed first, say: its code decides whether the program is begun again."""
    workers = PlayedWorkers(NEW, answers=lambda line: None if line == Sweep() else knowing(line))
    job = PlayedJob(workers)

    async def answer() -> None:
        while Sweep() not in workers.latest["w-0"].heard:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        workers.latest["w-0"].tell(RankGone(rank=1, code=7, signal=None), NOTHING_LEFT)

    tasks: list[asyncio.Task[None]] = []
    job.runs(1.0, lambda: tasks.append(asyncio.create_task(answer())), code=7)

    assert [gone.code for gone in job.news_before_the_word[0].rank_exits] == [7]
    assert workers.channels[0].heard == [Sweep(), Over(exit_code=7)]
    assert job.ended_in_s == pytest.approx(0.5, abs=0.05)


def test_a_worker_whose_sweep_takes_too_long_hears_the_last_word_all_the_same() -> None:
    """And the end is bounded."""
    workers = PlayedWorkers(NEW, answers=lambda line: None if line == Sweep() else knowing(line))
    job = PlayedJob(workers).runs(1.0, code=3)

    assert workers.channels[0].heard[-1] == Over(exit_code=3)
    assert job.ended_in_s == pytest.approx(END_LIMIT_S, abs=0.1)


def heard_after(*firsts: tuple[Said, ...]) -> Heard:
    """Return what is known of a worker whose channel was opened so, again and again."""
    beginnings = list(firsts)
    workers = PlayedWorkers(first_of=lambda _: beginnings.pop(0), answers=knowing)
    job = PlayedJob(workers)
    found: list[Heard | None] = []
    job.runs(5.0, lambda: found.append(job.watched.heard("w-0")))
    assert found[0] is not None
    return found[0]


def test_another_container_on_a_channel_that_is_opened_again_is_remembered() -> None:
    """The same one is not, and an older agent does not say."""
    assert heard_after((NEW, LOST), (OTHER,)).is_replaced
    assert heard_after((NEW, LOST), (OTHER, LOST), (NEW,)).is_replaced
    assert not heard_after((NEW, LOST), (NEW,)).is_replaced
    assert not heard_after((WATCHING, LOST), (NEW,)).is_replaced
    assert not heard_after((NEW, LOST), (WATCHING,)).is_replaced


def test_what_a_channel_tells_of_life() -> None:
    """When it was heard last, and how it left."""
    alive = heard_after((NEW,))
    left = heard_after((NEW, DRAINING, Farewell()))

    assert alive.is_open
    assert alive.last_word_s == pytest.approx(0.1)
    assert (left.is_open, left.is_evicted, left.has_left) == (False, True, True)


def test_a_host_without_an_agent_tells_nothing_of_life() -> None:
    """Nor does one that is not watched."""
    workers = PlayedWorkers(NoAgentError())
    job = PlayedJob(workers)
    found: list[Heard | None] = []

    job.runs(1.0, lambda: found.append(job.watched.heard("w-0")))

    assert found == [None]
    assert job.watched.heard("elsewhere") is None


def test_a_launcher_that_stood_still_closes_no_channel() -> None:
    """What the workers said meanwhile is heard a moment later."""
    workers = PlayedWorkers(NEW)
    job = PlayedJob(workers, worker_timeout_s=15.0)

    def stand_still() -> None:
        loop = asyncio.get_running_loop()
        loop.skip(300.0)  # type: ignore[attr-defined]

    job.runs(20.0, stand_still, 20.0)

    assert len(workers.channels) == 1
