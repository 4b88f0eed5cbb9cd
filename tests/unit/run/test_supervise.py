"""The program is ended when it will not end by itself: by signals, by the alarm, by the grace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import IO

import pytest

from mpi_agent.children import Child, Children
from mpi_agent.command.build import build_plan
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import Event, Noted
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.supervise import Supervised, supervise
from tests.builders import OPEN_MPI_5_STACK, a_host_list, a_launch_request
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

_WHY = "mpirun dialled 0 of 2 hosts and never w-[0-1]"
_GRACE_S = 25.0


class FakeChild(Child):
    """A child that no kernel knows: it ends by a signal unless it ignores that one."""

    def __init__(self, ignored: Collection[int], ends_after_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._ignored = ignored
        self.received: list[tuple[str, float]] = []
        if ends_after_s is not None:
            self._loop.call_later(ends_after_s, self._end, 0)

    @property
    def pid(self) -> int:
        """No process has it."""
        return -1

    async def wait(self) -> ProcessExit:
        """Return how it ended."""
        return await asyncio.shield(self._over)

    def signal(self, signal_number: int) -> None:
        """Note the signal and its time, and end by it."""
        if self._over.done():
            return
        self.received.append((signal.Signals(signal_number).name, self._loop.time()))
        if signal_number not in self._ignored:
            self._end(signal_number)

    def _end(self, by_signal: int) -> None:
        if not self._over.done():
            code = None if by_signal else 0
            exit_ = ProcessExit(
                pid=1, code=code, signal=by_signal or None, started_at_s=0, ended_at_s=1
            )
            self._over.set_result(exit_)


class FakeChildren(Children):
    """Starts one fake child."""

    def __init__(self, ignored: Collection[int], ends_after_s: float | None) -> None:
        super().__init__()
        self.child = FakeChild(ignored, ends_after_s)

    def start(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        executable: str | None = None,
        cwd: str | None = None,
        stdin: int | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> Child:
        """Return the child."""
        del argv, env, executable, cwd, stdin, stdout, stderr
        return self.child

    def adopt_orphans(self, *, adopt: bool = True) -> None:
        """Adopt nobody."""

    async def sweep(self, grace_s: float, *, spare: Collection[Child] = ()) -> int:
        """Find nothing to sweep."""
        del grace_s, spare
        return 0


class FedInbox(SignalInbox):
    """Signals that come at given times."""

    def __init__(self, at_s: Mapping[float, signal.Signals]) -> None:
        super().__init__()
        self._came: asyncio.Queue[signal.Signals] = asyncio.Queue()
        for moment_s, name in at_s.items():
            asyncio.get_running_loop().call_later(moment_s, self._came.put_nowait, name)

    async def next(self) -> signal.Signals:
        """Return the next signal."""
        return await self._came.get()


@dataclass(kw_only=True)
class Run:
    """What happened."""

    supervised: Supervised
    received: list[tuple[str, float]]
    noted: list[str]
    was_taken_back: list[bool] = field(default_factory=list)


async def never() -> str:
    """Tell of nothing."""
    await asyncio.sleep(1e9)
    return _WHY


def run(
    *,
    alarm_after_s: float | None = None,
    ends_after_s: float | None = None,
    ignored: Collection[int] = (),
    signals: Mapping[float, signal.Signals] | None = None,
) -> Run:
    """Return how a program went that is told to stop, or of which the alarm tells."""
    taken_back: list[bool] = []

    async def alarm() -> str:
        try:
            await asyncio.sleep(1e9 if alarm_after_s is None else alarm_after_s)
        except asyncio.CancelledError:
            taken_back.append(True)
            raise
        return _WHY

    async def work(_: VirtualTimeLoop) -> Run:
        children, events = FakeChildren(ignored, ends_after_s), EventRecorder()
        supervised = await supervise(
            build_plan(a_launch_request("./pi"), a_host_list(), OPEN_MPI_5_STACK),
            environ={},
            host_count=2,
            children=children,
            inbox=FedInbox(signals or {}),
            emit=events,
            grace_s=_GRACE_S,
            alarm=alarm,
        )
        return Run(
            supervised=supervised,
            received=children.child.received,
            noted=[event.text for event in events.events if isinstance(event, Noted)],
            was_taken_back=taken_back,
        )

    return run_in_virtual_time(work)


def test_the_alarm_ends_the_program_and_says_why() -> None:
    """It would run to its end on fewer hosts, and look like a success."""
    went = run(alarm_after_s=31.0)

    assert went.received == [("SIGTERM", 31.0)]
    assert went.supervised.alarm == _WHY
    assert went.supervised.stopped_by is None
    assert went.noted == [f"{_WHY}; the program is ended"]


def test_a_program_that_ignores_the_alarm_is_killed_after_the_grace_period() -> None:
    """Hydra's launcher waits for ranks that ignore TERM, for ever."""
    went = run(alarm_after_s=31.0, ignored={signal.SIGTERM})

    assert went.received == [("SIGTERM", 31.0), ("SIGKILL", 31.0 + _GRACE_S)]
    assert went.supervised.process_exit.signal == signal.SIGKILL


def test_the_alarm_is_taken_back_when_the_program_ends_first() -> None:
    """Nothing waits for it then."""
    went = run(ends_after_s=5.0)

    assert went.supervised.alarm is None
    assert went.supervised.process_exit.code == 0
    assert went.received == []
    assert went.was_taken_back == [True]


def test_the_alarm_does_not_give_a_program_that_was_told_to_stop_more_time() -> None:
    """The grace period has begun already."""
    went = run(alarm_after_s=11.0, ignored={signal.SIGTERM}, signals={10.0: signal.SIGTERM})

    assert went.received == [("SIGTERM", 10.0), ("SIGTERM", 11.0), ("SIGKILL", 10.0 + _GRACE_S)]
    assert went.supervised.stopped_by is signal.SIGTERM


def test_the_first_stop_is_passed_on_and_starts_the_grace_period() -> None:
    """INT stays INT."""
    went = run(ignored={signal.SIGINT}, signals={10.0: signal.SIGINT})

    assert went.received == [("SIGINT", 10.0), ("SIGKILL", 10.0 + _GRACE_S)]
    assert went.supervised.stopped_by is signal.SIGINT


def test_the_second_stop_shortens_the_grace_period_to_three_seconds() -> None:
    """Somebody is in a hurry."""
    went = run(ignored={signal.SIGTERM}, signals={10.0: signal.SIGTERM, 12.0: signal.SIGTERM})

    assert [name for name, _ in went.received] == ["SIGTERM", "SIGTERM", "SIGKILL"]
    assert went.received[-1][1] == 15.0


def test_the_third_stop_kills() -> None:
    """At once."""
    went = run(
        ignored={signal.SIGTERM},
        signals={10.0: signal.SIGTERM, 11.0: signal.SIGTERM, 12.0: signal.SIGTERM},
    )

    assert went.received[-1] == ("SIGKILL", 12.0)


def test_a_signal_that_stops_nobody_is_only_passed_on() -> None:
    """Programs use USR1 to write a checkpoint."""
    went = run(ends_after_s=60.0, ignored={signal.SIGUSR1}, signals={10.0: signal.SIGUSR1})

    assert went.received == [("SIGUSR1", 10.0)]
    assert went.supervised.stopped_by is None
    assert went.supervised.process_exit.code == 0


def test_a_program_is_killed_when_its_start_cannot_be_told() -> None:
    """Nobody would supervise it."""

    def refuse(_: Event) -> None:
        raise OSError("no space left")

    async def work(_: VirtualTimeLoop) -> list[tuple[str, float]]:
        children = FakeChildren((), None)
        with pytest.raises(OSError, match="no space left"):
            await supervise(
                build_plan(a_launch_request("./pi"), a_host_list(), OPEN_MPI_5_STACK),
                environ={},
                host_count=2,
                children=children,
                inbox=FedInbox({}),
                emit=refuse,
                grace_s=_GRACE_S,
                alarm=never,
            )
        return children.child.received

    assert run_in_virtual_time(work) == [("SIGKILL", 0.0)]


@pytest.mark.parametrize("ends_after_s", [5.0, None], ids=["it ended", "it was cancelled"])
def test_nothing_that_was_waited_for_goes_on_after_the_program(ends_after_s: float | None) -> None:
    """A task that nobody waits for would take the next signal, or hide an error."""

    async def work(_: VirtualTimeLoop) -> set[asyncio.Task[object]]:
        supervising = asyncio.create_task(
            supervise(
                build_plan(a_launch_request("./pi"), a_host_list(), OPEN_MPI_5_STACK),
                environ={},
                host_count=2,
                children=FakeChildren((), ends_after_s),
                inbox=FedInbox({}),
                emit=EventRecorder(),
                grace_s=_GRACE_S,
                alarm=never,
            )
        )
        await asyncio.wait({supervising}, timeout=60.0)
        supervising.cancel()
        await asyncio.wait({supervising})
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert run_in_virtual_time(work) == set()
