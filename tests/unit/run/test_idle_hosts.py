"""Which hosts a program does not use, and when that is known."""

from __future__ import annotations

import asyncio

from mpi_agent.run.idle_hosts import IdleHosts
from mpi_agent.run.watched_worker import WatchedWorker
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import Alive, Line, Presence, RankGone, Watching
from tests.fakes import VirtualTimeLoop, run_in_virtual_time

HOUR_S = 3600.0
NEW = Watching(worker="w", lease_s=60.0, container="c1")
OLD = Watching(worker="w", lease_s=60.0)


def is_idle(
    *told: Line,
    watching: Watching = NEW,
    heard_at_s: float = HOUR_S,
    is_started: bool = True,
    may_begin_late: bool = False,
) -> bool:
    """Return what is thought of a host whose agent told something, and was heard last at a time."""
    worker = WatchedWorker(SshTarget(name="w", port=22))

    async def work(loop: VirtualTimeLoop) -> bool:
        idle = IdleHosts(
            lambda _, since_s: worker.had_nothing(since_s), may_begin_late=may_begin_late
        )
        worker.opened(watching, loop.time())
        for line in told:
            worker.take(line, at_s=loop.time())
        if is_started:
            idle.start_is_over()
        await asyncio.sleep(heard_at_s)
        worker.take(Alive(), at_s=loop.time())
        return idle.is_idle("w")

    return run_in_virtual_time(work)


def test_a_host_whose_agent_told_of_nothing_since_the_start_is_idle() -> None:
    """Also where a daemon is gone that had no ranks."""
    assert is_idle()
    assert is_idle(Presence(daemons=1, ranks=0), Presence(daemons=0, ranks=0))


def test_a_host_with_a_daemon_or_with_ranks_that_have_ended_is_not() -> None:
    """Mpirun needs the one; the others belong to the program."""
    assert not is_idle(Presence(daemons=1, ranks=0))
    assert not is_idle(Presence(daemons=1, ranks=2), Presence(daemons=0, ranks=0))
    assert not is_idle(RankGone(rank=0, code=0, signal=None))


def test_nothing_is_known_before_the_start_is_over_and_the_agent_had_time_to_look() -> None:
    """Ranks may be there that nobody saw yet."""
    assert not is_idle(is_started=False)
    assert not is_idle(heard_at_s=4.0)


def test_an_older_agent_and_a_program_that_starts_ranks_itself_leave_it_open() -> None:
    """One tells nothing; the other may begin anywhere at any time."""
    assert not is_idle(watching=OLD)
    assert not is_idle(may_begin_late=True)
