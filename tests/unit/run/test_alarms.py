"""The first of several alarms, and what becomes of the others."""

from __future__ import annotations

import asyncio

import pytest

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.run.alarms import first_alarm
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

LOST = Alarm(kind=AlarmKind.WORKERS_LOST, why="w-1 is lost")
FAILED = Alarm(kind=AlarmKind.RANK_FAILED, why="rank 3 failed")


async def coming(alarm: Alarm, after_s: float) -> Alarm:
    """Ring after a while."""
    await asyncio.sleep(after_s)
    return alarm


def first(*alarms: tuple[Alarm, float], is_stopped: bool = False) -> tuple[Alarm, float]:
    """Return the alarm that is heard, and when."""

    async def work(loop: VirtualTimeLoop) -> tuple[Alarm, float]:
        began_s = loop.time()
        works = [coming(alarm, after_s) for alarm, after_s in alarms]
        heard = await first_alarm(works, emit=EventRecorder(), is_stopped=lambda: is_stopped)
        return heard, loop.time() - began_s

    return run_in_virtual_time(work)


@pytest.mark.parametrize("turn", range(8))
def test_of_alarms_that_come_at_once_the_first_in_the_order_counts(turn: int) -> None:
    """A lost host is why a rank failed, not the other way round."""
    others = [(FAILED, 1.0)] * (1 + turn)

    assert first((LOST, 1.0), *others) == (LOST, 1.0)


def test_an_alarm_about_ranks_after_a_stop_does_not_end_the_other_watching() -> None:
    """A host can still be lost while ranks save what they have."""
    assert first((LOST, 5.0), (FAILED, 1.0), is_stopped=True) == (LOST, 5.0)
    assert first((LOST, 5.0), (FAILED, 1.0)) == (FAILED, 1.0)


def test_a_watch_that_fails_is_told_and_the_others_go_on() -> None:
    """The program is well, as far as anybody knows."""
    recorder = EventRecorder()

    async def failing() -> Alarm:
        raise OSError("no such host")

    async def work(_: VirtualTimeLoop) -> Alarm:
        return await first_alarm([failing(), coming(LOST, 3.0)], emit=recorder)

    assert run_in_virtual_time(work) == LOST
    assert len(recorder.events) == 1
