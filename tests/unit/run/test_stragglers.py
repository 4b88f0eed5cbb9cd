"""Ranks that go on after another one has failed."""

from __future__ import annotations

import asyncio

import pytest

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.worker_news import RankExit, WorkerNews
from mpi_agent.run.stragglers import first_bad_exit, goes_on_after_failures, rank_failed
from tests.fakes import VirtualTimeLoop, run_in_virtual_time


def gone(
    rank: int, *, code: int | None = None, signal: int | None = None, at_s: float = 0.0
) -> RankExit:
    """Return how a rank ended."""
    return RankExit(rank=rank, code=code, signal=signal, at_s=at_s)


def alarm_of(*news: WorkerNews, grace_s: float | None = 30.0) -> tuple[Alarm | None, float]:
    """Return the alarm of an hour, None for none, and when it came."""

    async def watch(loop: VirtualTimeLoop) -> tuple[Alarm | None, float]:
        alarm = asyncio.create_task(rank_failed(lambda: news, grace_s=grace_s))
        done, _ = await asyncio.wait({alarm}, timeout=3600.0)
        at_s = loop.time()
        alarm.cancel()
        return (alarm.result() if done else None), at_s

    return run_in_virtual_time(watch)


def test_the_others_may_go_on_for_the_grace_and_no_longer() -> None:
    """MPICH would let them wait for ever."""
    news = WorkerNews(host="w-1", rank_exits=(gone(3, code=7, at_s=5.0),))

    alarm, at_s = alarm_of(news)

    assert alarm == Alarm(
        kind=AlarmKind.RANK_FAILED,
        why="rank 3 on w-1 ended with exit code 7 30 s ago and the others went on",
        exit_code=7,
    )
    assert 35.0 <= at_s <= 36.0


def test_the_rank_that_failed_first_gives_the_code() -> None:
    """The others are its consequences."""
    later = WorkerNews(host="w-0", rank_exits=(gone(0, signal=15, at_s=2.0),))
    first = WorkerNews(host="w-1", rank_exits=(gone(3, signal=11, at_s=1.0),))

    alarm, _ = alarm_of(later, first)

    assert alarm is not None
    assert alarm.exit_code == 139
    assert "rank 3 on w-1 ended with SIGSEGV" in alarm.why


def test_ranks_that_ended_well_or_unseen_are_no_failure() -> None:
    """Ranks may end one after the other."""
    news = WorkerNews(host="w-0", rank_exits=(gone(0, code=0), gone(1)))

    assert first_bad_exit([news]) is None
    assert alarm_of(news)[0] is None


def test_without_a_grace_ranks_may_go_on_for_ever() -> None:
    """`--straggler-grace 0`."""
    news = WorkerNews(host="w-0", rank_exits=(gone(0, code=1),))

    assert alarm_of(news, grace_s=None)[0] is None


@pytest.mark.parametrize(
    "line",
    [
        "mpiexec -disable-auto-cleanup -n 4 ./a",
        "mpirun --enable-recovery ./a",
        "mpirun --mca orte_abort_on_non_zero_status 0 ./a",
        "mpirun --rtos recoverable,continuous ./a",
    ],
)
def test_a_user_may_want_the_others_to_go_on(line: str) -> None:
    """Then a rank that fails is his own affair."""
    assert goes_on_after_failures(line.split(), {})


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -np 4 ./a --mode=continuous recoverable",
        "mpirun --mca orte_abort_on_non_zero_status 1 ./a",
    ],
)
def test_other_lines_do_not_say_so(line: str) -> None:
    """Words of the program, and what is so anyway."""
    assert not goes_on_after_failures(line.split(), {})


def test_a_variable_may_say_so_too() -> None:
    """Open MPI reads it."""
    name = "OMPI_MCA_orte_abort_on_non_zero_status"

    assert goes_on_after_failures(("mpirun", "./a"), {name: "0"})
    assert not goes_on_after_failures(("mpirun", "./a"), {name: "1"})


def test_a_rank_that_crashed_counts_before_those_that_were_killed_for_it() -> None:
    """Its backtrace takes seconds, and mpirun kills its neighbours meanwhile."""
    killed = RankExit(rank=5, code=None, signal=9, at_s=10.0)
    crashed = RankExit(rank=4, code=None, signal=11, at_s=12.5)

    assert first_bad_exit([WorkerNews(host="w-2", rank_exits=(killed, crashed))]) == (
        "w-2",
        crashed,
    )
    assert first_bad_exit([WorkerNews(host="w-2", rank_exits=(killed,))]) == ("w-2", killed)


def test_a_code_counts_before_a_kill_that_was_heard_a_moment_earlier() -> None:
    """Not before one that was heard long before: that one was killed for its memory, or by hand."""
    killed = RankExit(rank=0, code=None, signal=9, at_s=10.0)
    own = RankExit(rank=1, code=7, signal=None, at_s=10.1)
    late = RankExit(rank=1, code=1, signal=None, at_s=14.0)

    assert first_bad_exit([WorkerNews(host="w", rank_exits=(killed, own))]) == ("w", own)
    assert first_bad_exit([WorkerNews(host="w", rank_exits=(killed, late))]) == ("w", killed)
