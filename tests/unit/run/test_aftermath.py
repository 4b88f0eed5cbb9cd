"""The time after mpirun's end, and signals that come then."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import pytest

from mpi_agent.job.events import Noted, SignalReceived
from mpi_agent.run.aftermath import Aftermath
from mpi_agent.run.signals import SignalInbox
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

TERM, USR1 = signal.SIGTERM, signal.SIGUSR1
LONG_S = 10.0


class _Tail:
    """Ten seconds of work in the tail of an attempt, and what comes meanwhile.

    Args:
        signals: with the times at which they come.
        stopped_until_s: when all has to be over, where a stop came before.
    """

    def __init__(
        self, *signals: tuple[float, signal.Signals], stopped_until_s: float | None = None
    ) -> None:
        self.recorder = EventRecorder()
        self.left: list[signal.Signals] = []
        self._signals: Sequence[tuple[float, signal.Signals]] = signals
        self._stopped_until_s = stopped_until_s
        self.took_s, self.done = run_in_virtual_time(self._work)

    async def _work(self, loop: VirtualTimeLoop) -> tuple[float, str | None]:
        inbox = SignalInbox()
        for at_s, number in self._signals:
            loop.call_at(at_s, inbox.take, number)
        ends_at_s = self._stopped_until_s
        async with Aftermath(inbox, emit=self.recorder, ends_at_s=ends_at_s) as aftermath:
            done = await aftermath.within_time(self._sleep(), doing="the sweep")
            self.left_s = aftermath.limit_s(LONG_S)
            self.is_hurried = aftermath.is_hurried
        self.is_stopped = inbox.is_stopped
        try:
            async with asyncio.timeout(0.1):
                self.left.append(await inbox.next())
        except TimeoutError:
            pass
        return loop.time() - 0.1, done

    async def _sleep(self) -> str:
        await asyncio.sleep(LONG_S)
        return "done"

    @property
    def actions(self) -> list[str]:
        """What became of each signal."""
        return [e.action for e in self.recorder.events if isinstance(e, SignalReceived)]


def test_without_a_signal_all_the_time_is_left() -> None:
    """And nothing is told."""
    tail = _Tail()

    assert (tail.done, tail.left_s, tail.is_hurried) == ("done", LONG_S, False)
    assert tail.recorder.events == []


def test_a_stop_leaves_as_much_time_as_after_any_stop() -> None:
    """Whoever sent it counts the seconds."""
    tail = _Tail((1.0, TERM))

    assert tail.took_s == pytest.approx(5.0)
    assert (tail.done, tail.left_s) == (None, 0.0)
    assert tail.is_stopped
    assert tail.actions == ["the program has ended; 4 s are left"]
    (note,) = [e.text for e in tail.recorder.events if isinstance(e, Noted)]
    assert note == "the sweep was cut short by the stop"


def test_a_second_stop_ends_the_waiting() -> None:
    """Also where the first one came while the program ran."""
    assert _Tail((1.0, TERM), (2.0, TERM)).took_s == pytest.approx(2.0)
    assert _Tail((2.0, TERM), stopped_until_s=8.0).took_s == pytest.approx(2.0)


def test_a_stop_that_came_before_ends_it_in_time() -> None:
    """As the grace was counted."""
    assert _Tail(stopped_until_s=3.0).took_s == pytest.approx(3.0)


def test_a_signal_for_the_program_is_for_no_later_one() -> None:
    """USR1 might let the next attempt save, or end it."""
    tail = _Tail((1.0, USR1))

    assert (tail.done, tail.left) == ("done", [])
    assert tail.actions == ["the program has ended"]
