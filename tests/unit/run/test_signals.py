"""Signals are taken in order, and a stop wins over work that is done in the same moment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine

import pytest

from mpi_agent.errors import StoppedError
from mpi_agent.run.signals import SignalInbox

TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1


def after(
    inbox: SignalInbox, work: Callable[[], Coroutine[None, None, str]]
) -> Coroutine[None, None, str]:
    """Return the work, which a stop may come before."""
    return inbox.unless_stopped(work(), doing="waiting")


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_wins_over_work_that_ends_in_the_same_turn(turns: int) -> None:
    """Else the program would be started after it."""

    async def run() -> None:
        inbox = SignalInbox()

        async def work() -> str:
            for _ in range(turns):
                await asyncio.sleep(0)
            inbox.take(TERM)
            return "done"

        with pytest.raises(StoppedError) as caught:
            await after(inbox, work)
        assert caught.value.exit_code == 128 + TERM

    asyncio.run(run())


def test_a_stop_that_waits_already_lets_no_work_begin() -> None:
    """Not even work that takes no time."""
    begun = []

    async def work() -> str:
        begun.append(True)
        return "done"

    async def run() -> None:
        inbox = SignalInbox()
        inbox.take(USR1)
        inbox.take(INT)
        inbox.take(TERM)
        with pytest.raises(StoppedError, match="told to stop by SIGINT"):
            await after(inbox, work)

    asyncio.run(run())

    assert begun == []


def test_a_stop_cancels_work_that_goes_on() -> None:
    """At once."""
    cancelled = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return "done"

    async def run() -> None:
        inbox = SignalInbox()
        asyncio.get_running_loop().call_soon(inbox.take, signal.SIGHUP)
        with pytest.raises(StoppedError):
            await after(inbox, work)

    asyncio.run(run())

    assert cancelled == [True]


def test_what_comes_after_the_work_is_there_for_the_program_and_what_came_before_is_not() -> None:
    """A USR1 that came while we waited would end an mpirun that has just been started."""

    async def work() -> str:
        return "done"

    async def run() -> list[signal.Signals]:
        inbox = SignalInbox()
        inbox.take(USR1)
        assert await after(inbox, work) == "done"
        inbox.take(signal.SIGUSR2)
        inbox.take(TERM)
        return [await inbox.next(), await inbox.next()]

    assert asyncio.run(run()) == [signal.SIGUSR2, TERM]


def test_who_hears_of_a_stop_leaves_it_for_the_next_one() -> None:
    """Output that is passed on is hurried by it, and the restart does not take place."""

    async def run() -> signal.Signals:
        inbox = SignalInbox()
        assert not inbox.is_stopped
        inbox.take(TERM)
        await inbox.stopped()
        assert inbox.is_stopped
        return await inbox.next()

    assert asyncio.run(run()) is TERM
