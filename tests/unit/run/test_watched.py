"""The launcher's channels to its workers: when they are opened, what is said, how long it takes."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.channel_talk import interval_s
from mpi_agent.run.watched import END_LIMIT_S
from mpi_agent.ssh.remote import NoAgentError
from mpi_agent.ssh.worker_words import Alive, Farewell, GraceOver, Line, Over, Refused
from tests.unit.run.played_workers import (
    DRAINING,
    LOST,
    NO_MEMORY,
    WATCHING,
    PlayedChannel,
    PlayedJob,
    PlayedWorkers,
    Said,
    mute,
    polite,
)


@pytest.mark.parametrize(
    ("lease_s", "every_s"), [(60.0, 15.0), (20.0, 5.0), (600.0, 15.0), (None, 15.0), (0.0, 0.05)]
)
def test_a_worker_is_told_four_times_in_its_lease_that_we_live(
    lease_s: float | None, every_s: float
) -> None:
    """And every 15 seconds at least."""
    assert interval_s(lease_s) == every_s


@pytest.mark.parametrize(
    ("count", "every_s"), [(1, 3.0), (64, 3.0), (532, 4.0), (1000, 5.0), (5000, 5.0)]
)
def test_silence_is_noticed_in_time_and_many_workers_cost_little(
    count: int, every_s: float
) -> None:
    """With the usual timeout; a lease that is shorter counts more."""
    assert interval_s(60.0, worker_timeout_s=15.0, count=count) == pytest.approx(every_s)
    assert interval_s(4.0, worker_timeout_s=15.0, count=count) == 1.0


def test_a_worker_hears_that_we_live_and_in_the_end_the_code() -> None:
    """A minute of a program, with the usual lease."""
    job = PlayedJob(PlayedWorkers()).runs(61.0, code=7)
    (channel,) = job.workers.channels

    assert channel.heard == [Alive(), Alive(), Alive(), Alive(), Over(exit_code=7)]
    assert job.ended_in_s < 0.01
    assert job.recorder.events == []


def test_a_program_that_ends_before_any_login_is_told_too() -> None:
    """Workers that end with their launcher wait for this word."""
    job = PlayedJob(PlayedWorkers(), count=3).runs(code=1)

    assert [c.heard for c in job.workers.channels] == [[Over(exit_code=1)]] * 3
    assert job.ended_in_s == pytest.approx(0.1)


def test_at_most_16_logins_go_on_at_a_time() -> None:
    """The launcher has a program to look after."""
    workers = PlayedWorkers()

    PlayedJob(workers, count=100).runs(10.0)

    assert workers.most_logging_in == 16
    assert len(workers.channels) == 100


def test_as_long_as_mpirun_dials_only_the_first_16_are_watched() -> None:
    """Its ssh clients need the same processors."""
    dialling = [True]
    seen = []
    workers = PlayedWorkers()

    PlayedJob(workers, count=40, is_dialling=lambda: dialling[0]).runs(
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
    job = PlayedJob(PlayedWorkers(login_s=3.0), count=1000).runs()

    assert job.ended_in_s <= END_LIMIT_S + 0.6
    (note,) = job.noted()
    assert note.endswith("said no farewell within 5.5 s of the program's end")
    assert "w-[16-999]" in note


def test_a_worker_that_never_says_farewell_holds_the_end_up_for_a_bounded_time() -> None:
    """Its agent may hang."""
    job = PlayedJob(PlayedWorkers(answers=lambda line: None if isinstance(line, Over) else Alive()))
    job.runs(1.0)

    assert job.ended_in_s == pytest.approx(END_LIMIT_S)
    assert job.noted() == ["w-0 said no farewell within 5.0 s of the program's end"]


def test_a_channel_that_breaks_is_opened_again_and_nothing_is_concluded() -> None:
    """The network, or an sshd that was made anew."""
    workers = PlayedWorkers()
    job = PlayedJob(workers).runs(1.0, lambda: workers.channels[0].tell(LOST), 5.0, code=3)

    first, second = workers.channels
    assert Over(exit_code=3) not in first.heard
    assert second.heard == [Over(exit_code=3)]
    assert job.recorder.events == []


def test_a_silent_worker_is_dialled_again() -> None:
    """A connection may look open for a quarter of an hour after its other end is gone."""
    workers = PlayedWorkers(answers=mute)

    PlayedJob(workers).runs(31.0)

    assert len(workers.channels) == 2


def test_a_host_that_lets_nobody_in_is_tried_less_and_less_often() -> None:
    """Soon at first, then every ten seconds: sooner than its lease ends."""
    workers = PlayedWorkers(refuses=1000)

    PlayedJob(workers).runs(60.0)

    tries = workers.tried_at_s["w-0"]
    pauses = [round(later - sooner - 0.1, 2) for sooner, later in itertools.pairwise(tries)]
    assert pauses[:8] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_a_channel_that_breaks_at_once_every_time_is_not_dialled_without_pause() -> None:
    """Being let in is no success yet."""
    workers = PlayedWorkers(WATCHING, LOST)

    PlayedJob(workers).runs(30.0)

    assert len(workers.channels) < 10


def test_hosts_without_an_agent_are_told_in_one_line_and_left_alone() -> None:
    """Older agents, whose sessions have no such variable."""
    workers = PlayedWorkers(first_of=lambda name: (WATCHING if name == "w-1" else NoAgentError(),))

    job = PlayedJob(workers, count=5).runs(30.0)

    assert job.noted() == ["w-[0,2-4]: the agent there cannot be spoken with; not watched"]
    assert len(workers.tried_at_s["w-0"]) == 1


def test_a_worker_that_does_not_know_the_call_is_left_alone() -> None:
    """It speaks another protocol."""
    workers = PlayedWorkers(Refused(why="there is no verb 'watch'"))

    job = PlayedJob(workers).runs(30.0)

    assert job.noted() == ["w-0: the agent there cannot be spoken with; not watched"]
    assert len(workers.tried_at_s["w-0"]) == 1


@pytest.mark.parametrize(
    "why", ["64 others are speaking to this worker", "this worker is ending", "internal error"]
)
def test_a_worker_that_does_not_take_the_call_now_is_called_again(why: str) -> None:
    """Though it was never spoken with: whoever is not watched would live on without us."""
    beginnings: list[tuple[Said, ...]] = [(Refused(why=why),), (Refused(why=why),), (WATCHING,)]
    workers = PlayedWorkers(first_of=lambda _: beginnings.pop(0))

    job = PlayedJob(workers).runs(30.0)

    assert workers.channels[-1].heard[-1] == Over(exit_code=0)
    assert job.noted() == []


def test_a_worker_that_was_watched_is_called_again_after_a_refusal() -> None:
    """It may have many callers; its ranks would end when nobody is heard for too long."""
    busy = (Refused(why="64 others are speaking"),)
    beginnings: list[tuple[Said, ...]] = [(WATCHING, LOST), busy, busy, (WATCHING,)]
    workers = PlayedWorkers(first_of=lambda _: beginnings.pop(0))

    job = PlayedJob(workers).runs(30.0)

    assert len(workers.channels) == 4
    assert workers.channels[-1].heard[-1] == Over(exit_code=0)
    assert job.noted() == []


def test_what_a_worker_tells_is_an_event_and_news_for_the_ending() -> None:
    """Told once, however often the channel is opened anew."""
    workers = PlayedWorkers(WATCHING, DRAINING)

    job = PlayedJob(workers).runs(
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
        WorkerNews(host="w-0", is_evicted=True, ranks=1, kills=1, used_bytes=100, limit_bytes=200),
    )


def test_what_is_told_between_the_end_and_the_farewell_counts() -> None:
    """The kernel's count may be read only then."""
    workers = PlayedWorkers(answers=mute)

    async def farewell(channel: PlayedChannel) -> None:
        while Over(exit_code=137) not in channel.heard:
            await asyncio.sleep(0.01)
        channel.tell(NO_MEMORY)
        channel.tell(Farewell())

    tasks: list[asyncio.Task[None]] = []
    job = PlayedJob(workers).runs(
        1.0,
        lambda: tasks.append(asyncio.create_task(farewell(workers.channels[0]))),
        code=137,
    )

    assert [news.kills for news in job.news] == [1]


EVICTED = WorkerNews(host="w-0", is_evicted=True, ranks=1)


def test_an_evicted_worker_that_said_farewell_before_the_end_has_ended_in_time() -> None:
    """Its ranks saved and went; it is not called again."""
    workers = PlayedWorkers(WATCHING, DRAINING)

    job = PlayedJob(workers).runs(1.0, lambda: workers.channels[0].tell(Farewell()), 5.0)

    assert job.news == (EVICTED,)
    assert len(workers.channels) == 1


def test_a_worker_that_ends_what_is_left_of_the_program_is_lost() -> None:
    """Told once, before its farewell."""
    workers = PlayedWorkers(WATCHING, DRAINING)

    def ends() -> None:
        for said in (GraceOver(), GraceOver(), Farewell()):
            workers.channels[0].tell(said)

    job = PlayedJob(workers).runs(25.0, ends, 5.0, code=1)

    assert job.news == (replace(EVICTED, is_lost=True),)
    assert job.noted() == ["w-0 ends what is left of the program there"]


def test_a_worker_that_ends_what_is_left_while_it_hears_of_the_end_is_lost_too() -> None:
    """Mpirun was faster than the worker's line."""
    workers = PlayedWorkers(WATCHING, DRAINING, answers=mute)

    async def last_words(channel: PlayedChannel) -> None:
        while Over(exit_code=0) not in channel.heard:
            await asyncio.sleep(0.01)
        channel.tell(GraceOver())
        channel.tell(Farewell())

    tasks: list[asyncio.Task[None]] = []
    job = PlayedJob(workers).runs(
        1.0, lambda: tasks.append(asyncio.create_task(last_words(workers.channels[0])))
    )

    assert job.news == (replace(EVICTED, is_lost=True),)


def test_a_channel_that_was_cut_says_nothing_of_an_evicted_worker() -> None:
    """Neither by the network, nor by us when it did not answer in time."""
    cut_by_us = PlayedWorkers(WATCHING, DRAINING, answers=mute)
    cut = PlayedWorkers(WATCHING, DRAINING)

    def go() -> None:
        cut.refuses = 1000
        cut.channels[0].tell(LOST)

    by_us, by_the_network = PlayedJob(cut_by_us).runs(1.0), PlayedJob(cut).runs(1.0, go, 5.0)

    assert by_us.news == by_the_network.news == (EVICTED,)
    assert by_us.noted() == by_the_network.noted() == []


def die(workers: PlayedWorkers, *numbers: int) -> None:
    """Let hosts go away, and their channels with them."""
    for number in numbers:
        workers.dead.add(f"w-{number}")
        workers.latest[f"w-{number}"].tell(LOST)


def test_an_evicted_worker_that_cannot_be_reached_any_more_is_not_waited_for() -> None:
    """It lets nobody in."""
    workers = PlayedWorkers(WATCHING, DRAINING)

    job = PlayedJob(workers).runs(1.0, lambda: die(workers, 0), 2.0)

    assert job.ended_in_s < 0.01


def test_workers_that_are_dead_for_long_do_not_hold_up_the_end() -> None:
    """Nor do their logins take the place of those that can be told."""
    workers = PlayedWorkers()

    job = PlayedJob(workers, count=41).runs(
        5.0,
        lambda: die(workers, *range(40)),
        100.0,
        lambda: workers.latest["w-40"].tell(LOST),
        0.2,
        code=7,
    )

    assert job.ended_in_s == pytest.approx(0.1)
    assert workers.latest["w-40"].heard == [Over(exit_code=7)]
    assert job.noted() == [
        "w-[0-39] did not hear of the program's end: every login failed for 20 s or longer"
    ]


def test_a_worker_that_was_lost_a_moment_ago_has_the_time_of_a_login() -> None:
    """Its sshd may be on its way up again."""
    workers = PlayedWorkers()

    job = PlayedJob(workers).runs(5.0, lambda: workers.channels[0].tell(LOST), 0.2, code=7)

    assert workers.channels[1].heard == [Over(exit_code=7)]
    assert job.ended_in_s == pytest.approx(0.1)


def test_a_worker_that_tells_of_memory_without_end_is_told_once_a_second() -> None:
    """With all that it told; the last of it when nothing more comes."""
    workers = PlayedWorkers()

    def flood() -> None:
        for _ in range(1000):
            workers.channels[0].tell(NO_MEMORY)

    job = PlayedJob(workers).runs(1.0, flood, 0.5, flood, 1.0, flood, code=137)

    told = [e.kills for e in job.recorder.events if isinstance(e, WorkerExceededMemory)]
    assert told == [1, 2000, 999]
    assert [news.kills for news in job.news] == [3000]


FAULT = RuntimeError("of ours")
FAULT_NOTE = "cannot watch a worker: RuntimeError: of ours; it is tried again"


def test_a_fault_of_ours_ends_no_watch_and_is_told_once() -> None:
    """After its lease a worker would end ranks that are well."""
    workers = PlayedWorkers(refuses=3, trouble=FAULT)

    job = PlayedJob(workers, count=3).runs(30.0)

    assert job.noted() == [FAULT_NOTE]
    assert [channel.heard[-1] for channel in workers.channels] == [Over(exit_code=0)] * 3


def test_a_fault_while_we_hear_or_speak_breaks_the_channel_at_once() -> None:
    """Not only when the worker has fallen silent."""

    def fail_once(line: Line) -> Said | None:
        if len(workers.channels) == 1:
            raise FAULT
        return polite(line)

    workers = PlayedWorkers(answers=fail_once)
    heard = PlayedWorkers(WATCHING)
    speaking = PlayedJob(workers).runs(16.0)
    hearing = PlayedJob(heard).runs(1.0, lambda: heard.channels[0].tell(FAULT), 1.0)

    assert (len(workers.channels), len(heard.channels)) == (2, 2)
    assert speaking.noted() == hearing.noted() == [FAULT_NOTE]


def test_a_log_that_fails_ends_no_watch() -> None:
    """What could not be told is known all the same."""

    def fail(_: Event) -> None:
        raise FAULT

    workers = PlayedWorkers(WATCHING, DRAINING)

    job = PlayedJob(workers, log=fail).runs(30.0, code=1)

    assert job.news == (EVICTED,)
    assert workers.channels[-1].heard[-1] == Over(exit_code=1)


def test_all_are_watched_though_nobody_can_say_whether_mpirun_dials() -> None:
    """And the fault is told in the end."""

    def fail() -> bool:
        raise FAULT

    workers = PlayedWorkers()

    job = PlayedJob(workers, count=40, is_dialling=fail).runs(5.0)

    assert len(workers.channels) == 40
    assert job.noted() == [FAULT_NOTE]


def test_with_room_for_fewer_channels_the_rest_hears_the_end() -> None:
    """Nobody's place is taken while the program runs, not even by whoever it broke for."""
    workers = PlayedWorkers()
    seen = []

    job = PlayedJob(workers, count=40, room=lambda _: 10).runs(
        30.0,
        lambda: workers.channels[3].tell(LOST),
        30.0,
        lambda: seen.append([channel.heard for channel in workers.channels]),
        code=7,
    )

    (heard,) = seen
    assert len(heard) == 11
    assert len(workers.channels) == 41
    assert sum(channel.heard[-1] == Over(exit_code=7) for channel in workers.channels) == 40
    assert job.noted() == [
        "cannot watch more than 10 of 40 workers: the limit of open files"
        "; the others only hear when the program has ended"
    ]
