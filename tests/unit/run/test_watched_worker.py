"""What is known of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mpi_agent.job.events import Event, RankFailed
from mpi_agent.job.worker_events import WorkerExceededMemory
from mpi_agent.run.watched_worker import GIVEN_UP_AFTER_S, OUT_OF_REACH_AFTER_S, WatchedWorker
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import (
    Draining,
    Farewell,
    GraceOver,
    OutOfMemory,
    Presence,
    RankGone,
    Throttled,
    Watching,
)

WATCHING = Watching(worker="w", lease_s=60.0)


def a_worker() -> WatchedWorker:
    """Return a worker of which nothing is known yet."""
    return WatchedWorker(SshTarget(name="w-0", port=22))


def draining(ranks: int) -> Draining:
    """Return what a worker says that is told to end."""
    return Draining(signal_name="SIGTERM", grace_s=25.0, ranks=ranks)


def no_memory(
    kills: int, used: int | None, limit: int | None, *, total_kills: int = 0
) -> OutOfMemory:
    """Return what a worker says whose kernel killed processes; an older one tells no total."""
    return OutOfMemory(kills=kills, used_bytes=used, limit_bytes=limit, total_kills=total_kills)


def kills_in(events: Sequence[Event]) -> list[int]:
    """Return how many kills are told."""
    return [event.kills for event in events if isinstance(event, WorkerExceededMemory)]


def test_one_that_says_again_that_it_is_evicted_does_not_forget_its_ranks() -> None:
    """It says so to every new channel; its ranks have gone by then."""
    worker = a_worker()

    first, again = (worker.take(draining(ranks), at_s=1.0) for ranks in (4, 0))

    assert (len(first), again) == (1, ())
    assert (worker.news.is_evicted, worker.news.ranks) == (True, 4)


def test_one_that_gives_up_without_having_been_told_to_end_is_lost() -> None:
    """Its ssh server cannot be kept up."""
    worker = a_worker()
    worker.take(GraceOver(), at_s=1.0)

    assert (worker.news.is_evicted, worker.news.is_lost) == (False, True)


def test_memory_that_was_used_is_the_most_that_was_told() -> None:
    """And what is not told again stays known."""
    worker = a_worker()
    for line in (no_memory(1, 10, 20), no_memory(2, 15, None), no_memory(3, None, None)):
        worker.take(line, at_s=1.0)

    assert (worker.news.kills, worker.news.used_bytes, worker.news.limit_bytes) == (6, 15, 20)


def test_kills_are_told_once_a_second_and_the_rest_in_the_end() -> None:
    """Each with those that were not told before; any later line may bring them up."""
    worker = a_worker()

    told = [
        kills_in(worker.take(line, at_s=at_s))
        for line, at_s in (
            (no_memory(1, 1, 2), 10.0),
            (no_memory(1, 1, 2), 10.5),
            (no_memory(1, 1, 2), 10.9),
            (draining(0), 10.95),
            (Farewell(), 11.0),
            (no_memory(1, 1, 2), 11.5),
        )
    ]

    assert told == [[1], [], [], [], [2], []]
    assert kills_in(worker.rest()) == [1]
    assert worker.rest() == ()


def test_kills_and_ranks_that_are_told_again_count_once() -> None:
    """A channel broke, and nobody knows what was heard on it; kills before the run are not ours."""
    worker = a_worker()
    gone = RankGone(rank=3, code=7, signal=None)
    lines = (no_memory(2, 1, 2, total_kills=9), no_memory(1, 1, 2, total_kills=10), gone)

    first = [event for line in lines for event in worker.take(line, at_s=1.0)]
    again = [event for line in lines for event in worker.take(line, at_s=5.0)]
    more = worker.take(no_memory(1, 1, 2, total_kills=11), at_s=9.0)

    assert kills_in(first) + kills_in(again) + kills_in(more) == [2, 1, 1]
    assert (worker.news.kills, [one.rank for one in worker.news.rank_exits]) == (4, [3])
    assert [type(event) for event in (*first, *again)].count(RankFailed) == 1


def test_kills_in_a_container_that_came_in_its_place_count_anew() -> None:
    """Its kernel's counter began with it."""
    worker = a_worker()
    worker.opened(replace(WATCHING, container="first"), 0.0)
    worker.take(no_memory(2, 1, 2, total_kills=9), at_s=1.0)
    worker.opened(replace(WATCHING, container="second"), 2.0)
    worker.take(no_memory(1, 1, 2, total_kills=1), at_s=3.0)

    assert worker.news.kills == 3


def test_a_cpu_limit_that_held_the_run_back_explains_its_ending() -> None:
    """So it is news, though nothing else is."""
    worker = a_worker()
    worker.take(Throttled(periods=200, throttled=150), at_s=1.0)

    assert (worker.news.periods, worker.news.throttled) == (200, 150)
    assert worker.news.is_any


@pytest.mark.parametrize(
    ("closed_at_s", "at_s", "is_given_up"),
    [
        ((), 1000.0, False),
        ((10.0,), 1000.0, False),
        ((10.0, 11.0), 10.0 + GIVEN_UP_AFTER_S - 0.1, False),
        ((10.0, 11.0), 10.0 + GIVEN_UP_AFTER_S, True),
    ],
)
def test_one_is_given_up_when_several_tries_failed_for_long(
    closed_at_s: tuple[float, ...], at_s: float, *, is_given_up: bool
) -> None:
    """One alone may have been unlucky."""
    worker = a_worker()
    for closed in closed_at_s:
        worker.closed(closed)

    assert worker.is_given_up(at_s) is is_given_up


def test_one_that_was_reached_again_is_not_given_up() -> None:
    """What was before counts no more."""
    worker = a_worker()
    for at_s in (1.0, 2.0, 3.0):
        worker.closed(at_s)
    worker.opened(WATCHING, 4.0)
    is_given_up_while_open = worker.is_given_up(100.0)
    worker.closed(100.0)

    assert not is_given_up_while_open
    assert not worker.is_given_up(101.0)


def test_one_that_is_evicted_and_cannot_be_reached_is_given_up_at_once() -> None:
    """It lets nobody in again."""
    worker = a_worker()
    worker.opened(WATCHING, 4.0)
    worker.take(draining(1), at_s=1.0)
    is_given_up_while_open = worker.is_given_up(1.0)
    worker.closed(2.0)

    assert not is_given_up_while_open
    assert worker.is_given_up(2.0)


def test_a_sweep_does_not_wait_for_one_whose_channel_broke_and_stayed_so() -> None:
    """A worker whose container was killed; one that never spoke, or is back, is waited for."""
    worker, stranger = a_worker(), a_worker()
    worker.opened(WATCHING, at_s=1.0)
    worker.closed(10.0)
    stranger.closed(10.0)
    late_s = 10.0 + OUT_OF_REACH_AFTER_S

    assert not worker.is_out_of_reach(late_s - 0.1)
    assert worker.is_out_of_reach(late_s)
    assert not stranger.is_out_of_reach(late_s)
    worker.opened(WATCHING, at_s=late_s)
    assert not worker.is_out_of_reach(late_s + 60.0)


def test_a_daemon_that_was_seen_once_is_remembered() -> None:
    """It may be killed before anybody looks at what the worker told."""
    worker = a_worker()
    worker.opened(WATCHING, at_s=1.0)

    worker.take(Presence(daemons=1, ranks=2), at_s=2.0)
    worker.take(Presence(daemons=0, ranks=2), at_s=2.1)

    assert worker.presence is not None
    assert worker.presence.had_daemons
    assert not worker.presence.daemons
