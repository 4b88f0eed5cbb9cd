"""The program is ended when it will not end by itself: by signals, by the alarm, by the grace."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import IO, TypeVar

import pytest

from mpi_agent.children import Child, Children
from mpi_agent.command.build import build_plan
from mpi_agent.command.topics import Family
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import Event, Noted, SignalReceived
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stopping import StopTerms, Told
from mpi_agent.run.streams import ChildEnds, ProgramStreams
from mpi_agent.run.supervise import Supervised, supervise
from tests.builders import OPEN_MPI_5_STACK, a_host_list, a_launch_request
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

_T = TypeVar("_T")

_WHY = "mpirun dialled 0 of 2 hosts and never w-[0-1]"
_ALARM = Alarm(kind=AlarmKind.HOSTS_NOT_DIALLED, why=_WHY)
_GRACE_S = 24.0
_RESERVE_S = 3.0


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
    """Starts one fake child, which leaves behind what takes a while to go."""

    def __init__(
        self,
        ignored: Collection[int],
        ends_after_s: float | None,
        sweep_takes_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.child = FakeChild(ignored, ends_after_s)
        self._sweep_takes_s = sweep_takes_s

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
        controlling: int | None = None,
    ) -> Child:
        """Return the child."""
        del argv, env, executable, cwd, stdin, stdout, stderr, controlling
        return self.child

    def adopt_orphans(self, *, adopt: bool = True) -> None:
        """Adopt nobody."""

    async def sweep(self, grace_s: float, *, spare: Collection[Child] = ()) -> int:
        """Find what takes its time, or nothing."""
        del grace_s, spare
        await asyncio.sleep(self._sweep_takes_s)
        return 0


class NoStreams(ProgramStreams):
    """A child that says nothing.

    Args:
        takes_s: to finish, unless somebody hurries.
    """

    def __init__(self, takes_s: float = 0.0) -> None:
        super().__init__()
        self._takes_s = takes_s
        self.finished_by_s: float | None = None
        self._hurried = asyncio.Event()
        self.was_finished: list[bool] = []

    def start(self, start: Callable[[ChildEnds], _T], *, note: Callable[[str], None]) -> _T:
        """Start the child with our own streams."""
        del note
        return start(ChildEnds())

    async def finish(self) -> None:
        """Note that it is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._takes_s):
                await self._hurried.wait()
        self.was_finished.append(self._hurried.is_set())

    def hurry(self, ends_at_s: float) -> None:
        """Note until when."""
        self.finished_by_s = ends_at_s
        self._hurried.set()


class FedInbox(SignalInbox):
    """Signals that come at given times."""

    def __init__(self, at_s: Mapping[float, signal.Signals]) -> None:
        super().__init__()
        for moment_s, number in at_s.items():
            asyncio.get_running_loop().call_later(moment_s, self.take, number)


class Ranks:
    """Ranks that are told directly, or are not.

    Args:
        answer: True when all were told; an error is raised.
        takes_s: how long it takes to tell them.
        late_after_s: when ranks come that were not told, after the others were.
    """

    def __init__(
        self,
        answer: bool | Told | Exception = False,
        takes_s: float = 0.0,
        late_after_s: float = 1e6,
    ) -> None:
        self._answer = answer
        self._takes_s = takes_s
        self._late_after_s = late_after_s
        self.told: list[tuple[str, float]] = []
        self.was_taken_back = False

    async def tell(self, number: signal.Signals) -> Told:
        """Note the signal and its time, and answer."""
        self.told.append((number.name, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(self._takes_s)
        except asyncio.CancelledError:
            self.was_taken_back = True
            raise
        if isinstance(self._answer, Exception):
            raise self._answer
        if isinstance(self._answer, Told):
            return self._answer
        return Told(everywhere=self._answer, ranks=2)

    async def late(self, _: Told) -> None:
        """Come late."""
        await asyncio.sleep(self._late_after_s)


@dataclass(kw_only=True)
class Run:
    """What happened."""

    supervised: Supervised
    received: list[tuple[str, float]]
    noted: list[str]
    said_of_signals: list[tuple[str, str]]
    was_finished: list[bool]
    finished_by_s: float | None
    took_s: float
    was_taken_back: list[bool] = field(default_factory=list)


def run(
    *,
    alarm: Alarm = _ALARM,
    alarm_after_s: float | None = None,
    ends_after_s: float | None = None,
    ignored: Collection[int] = (),
    signals: Mapping[float, signal.Signals] | None = None,
    ranks: Ranks | None = None,
    output_takes_s: float = 0.0,
    sweep_takes_s: float = 0.0,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Run:
    """Return how a program went that is told to stop, or of which the alarm tells."""
    taken_back: list[bool] = []

    async def alarmed() -> Alarm:
        try:
            await asyncio.sleep(1e9 if alarm_after_s is None else alarm_after_s)
        except asyncio.CancelledError:
            taken_back.append(True)
            raise
        return alarm

    async def work(loop: VirtualTimeLoop) -> Run:
        began_s, told = loop.time(), ranks or Ranks()
        children = FakeChildren(ignored, ends_after_s, sweep_takes_s)
        events, streams = EventRecorder(), NoStreams(output_takes_s)
        supervised = await supervise(
            build_plan(a_launch_request("./pi"), a_host_list(), OPEN_MPI_5_STACK),
            environ={},
            host_count=2,
            children=children,
            inbox=FedInbox(signals or {}),
            emit=events,
            terms=StopTerms(grace_s=_GRACE_S, stop_signal=stop_signal, family=Family.OPEN_MPI),
            streams=streams,
            tell_ranks=told.tell,
            alarm=alarmed,
            late_ranks=told.late,
        )
        seen = events.events
        return Run(
            supervised=supervised,
            received=children.child.received,
            noted=[event.text for event in seen if isinstance(event, Noted)],
            said_of_signals=[(e.name, e.action) for e in seen if isinstance(e, SignalReceived)],
            was_finished=streams.was_finished,
            finished_by_s=streams.finished_by_s,
            took_s=loop.time() - began_s,
            was_taken_back=taken_back,
        )

    return run_in_virtual_time(work)


async def never() -> Alarm:
    """Tell of nothing."""
    await asyncio.sleep(1e9)
    return _ALARM


def supervising(
    children: FakeChildren, emit: Callable[[Event], None]
) -> Coroutine[None, None, Supervised]:
    """Return the work of supervising a program that nobody stops."""
    return supervise(
        build_plan(a_launch_request("./pi"), a_host_list(), OPEN_MPI_5_STACK),
        environ={},
        host_count=2,
        children=children,
        inbox=FedInbox({}),
        emit=emit,
        terms=StopTerms(grace_s=_GRACE_S),
        streams=NoStreams(),
        tell_ranks=Ranks().tell,
        alarm=never,
    )


def test_the_alarm_ends_the_program_and_says_why() -> None:
    """It would run to its end on fewer hosts, and look like a success."""
    went = run(alarm_after_s=31.0)

    assert went.received == [("SIGTERM", 31.0)]
    assert went.supervised.alarm == _ALARM
    assert went.supervised.stopped_by is None
    assert went.supervised.mpirun_was_told
    assert went.noted == [f"{_WHY}; the program is ended"]


def test_a_program_that_ignores_the_alarm_is_killed_three_seconds_later() -> None:
    """Hydra's launcher waits for ranks that ignore TERM, for ever, and nobody has to save."""
    went = run(alarm_after_s=31.0, ignored={signal.SIGTERM})

    assert went.received == [("SIGTERM", 31.0), ("SIGKILL", 34.0)]
    assert went.supervised.process_exit.signal == signal.SIGKILL


def test_the_alarm_is_taken_back_when_the_program_ends_first() -> None:
    """Nothing waits for it then."""
    went = run(ends_after_s=5.0)

    assert went.supervised.alarm is None
    assert went.supervised.process_exit.code == 0
    assert not went.supervised.mpirun_was_told
    assert went.received == []
    assert went.was_taken_back == [True]


def test_an_alarm_about_a_rank_is_not_heard_once_the_ranks_were_told_to_stop() -> None:
    """The others may still save what they have."""
    failed = Alarm(kind=AlarmKind.RANK_FAILED, why="rank 3 ended by TERM")
    went = run(
        alarm=failed,
        alarm_after_s=12.0,
        ends_after_s=20.0,
        signals={10.0: signal.SIGTERM},
        ranks=Ranks(answer=True),
    )

    assert went.received == []
    assert went.supervised.alarm is None


def test_ranks_that_were_told_directly_have_the_grace_before_mpirun_is_told() -> None:
    """Open MPI 5 would end them half a second later."""
    ranks = Ranks(answer=True, takes_s=0.5)
    went = run(ignored={signal.SIGTERM}, signals={10.0: signal.SIGINT}, ranks=ranks)

    assert ranks.told == [("SIGTERM", 10.0)]
    assert went.received == [("SIGTERM", 10.0 + _GRACE_S - _RESERVE_S), ("SIGKILL", 34.0)]
    assert went.supervised.stopped_by is signal.SIGINT
    assert went.supervised.ranks_were_told
    assert went.said_of_signals == [("SIGINT", "telling the ranks SIGTERM")]
    assert went.noted == [
        "told the ranks on every host SIGTERM",
        "near the end of the grace period: the program gets SIGTERM",
        "end of the grace period: the program gets SIGKILL",
    ]


def test_a_program_that_ends_by_itself_in_time_was_told_nothing() -> None:
    """So its code is its own."""
    went = run(
        ends_after_s=20.0, signals={10.0: signal.SIGTERM}, ranks=Ranks(answer=True, takes_s=0.5)
    )

    assert went.received == []
    assert went.supervised.process_exit.code == 0
    assert went.supervised.stopped_by is signal.SIGTERM
    assert not went.supervised.mpirun_was_told
    assert went.was_finished == [True]


def test_mpirun_gets_the_signal_at_once_when_not_all_ranks_could_be_told() -> None:
    """INT stays INT, and the grace has begun."""
    went = run(ignored={signal.SIGINT}, signals={10.0: signal.SIGINT})

    assert went.received == [("SIGINT", 10.0), ("SIGKILL", 10.0 + _GRACE_S)]
    assert went.supervised.stopped_by is signal.SIGINT
    assert not went.supervised.ranks_were_told


def test_mpirun_gets_the_signal_when_telling_the_ranks_fails() -> None:
    """A stop goes on whatever fails."""
    ranks = Ranks(answer=OSError("no route to host"))
    went = run(signals={10.0: signal.SIGTERM}, ranks=ranks)

    assert went.received == [("SIGTERM", 10.0)]
    assert went.noted[0] == "cannot tell the ranks SIGTERM: no route to host"


def test_mpirun_gets_the_signal_when_the_ranks_cannot_be_told_within_three_seconds() -> None:
    """Those that can be told later still are."""
    ranks = Ranks(answer=True, takes_s=4.0)
    went = run(ignored={signal.SIGTERM}, signals={10.0: signal.SIGTERM}, ranks=ranks)

    assert went.received == [("SIGTERM", 13.0), ("SIGKILL", 10.0 + _GRACE_S)]
    assert went.supervised.ranks_were_told


def test_telling_the_ranks_is_taken_back_when_the_program_ends_meanwhile() -> None:
    """Nothing waits for it then."""
    ranks = Ranks(answer=True, takes_s=1e6)
    run(signals={10.0: signal.SIGTERM}, ranks=ranks)

    assert ranks.was_taken_back


def test_the_second_stop_tells_mpirun_and_shortens_the_grace_to_three_seconds() -> None:
    """Somebody is in a hurry."""
    went = run(
        ignored={signal.SIGTERM},
        signals={10.0: signal.SIGINT, 12.0: signal.SIGINT},
        ranks=Ranks(answer=True),
    )

    assert went.received == [("SIGTERM", 12.0), ("SIGKILL", 15.0)]
    assert went.said_of_signals[1] == ("SIGINT", "the program gets SIGTERM")


def test_the_third_stop_kills() -> None:
    """At once."""
    went = run(
        ignored={signal.SIGTERM},
        signals={10.0: signal.SIGTERM, 11.0: signal.SIGTERM, 12.0: signal.SIGTERM},
        ranks=Ranks(answer=True),
    )

    assert went.received == [("SIGTERM", 11.0), ("SIGKILL", 12.0)]


def test_a_signal_that_stops_nobody_goes_to_the_ranks_alone() -> None:
    """Programs use USR1 to write a checkpoint."""
    ranks = Ranks(answer=True)
    went = run(ends_after_s=60.0, signals={10.0: signal.SIGUSR1}, ranks=ranks)

    assert ranks.told == [("SIGUSR1", 10.0)]
    assert went.received == []
    assert went.supervised.stopped_by is None
    assert went.supervised.process_exit.code == 0
    assert went.was_finished == [False]


@pytest.mark.parametrize("takes_s", [0.0, 1e6], ids=["no", "no answer"])
def test_a_signal_that_not_all_ranks_got_goes_by_mpirun(takes_s: float) -> None:
    """It passes USR1 on."""
    went = run(
        ends_after_s=60.0,
        ignored={signal.SIGUSR1},
        signals={10.0: signal.SIGUSR1},
        ranks=Ranks(takes_s=takes_s),
    )

    assert went.received == [("SIGUSR1", 10.0 if takes_s == 0 else 13.0)]


def test_ranks_that_are_stopped_by_usr1_keep_the_grace_when_mpirun_has_to_pass_it_on() -> None:
    """It is told to end only when little is left."""
    went = run(ignored={signal.SIGUSR1}, signals={10.0: signal.SIGTERM}, stop_signal=signal.SIGUSR1)

    assert went.received == [("SIGUSR1", 10.0), ("SIGTERM", 10.0 + _GRACE_S - _RESERVE_S)]


def test_quit_is_passed_on_to_mpirun_alone() -> None:
    """And stops nobody else."""
    ranks = Ranks(answer=True)
    went = run(ignored={}, signals={10.0: signal.SIGQUIT}, ranks=ranks)

    assert went.received == [("SIGQUIT", 10.0)]
    assert ranks.told == []
    assert went.said_of_signals == [("SIGQUIT", "passed on to the program")]


def test_a_program_is_killed_when_its_start_cannot_be_told() -> None:
    """Nobody would supervise it."""

    def refuse(_: Event) -> None:
        raise OSError("no space left")

    async def work(_: VirtualTimeLoop) -> list[tuple[str, float]]:
        children = FakeChildren((), None)
        with pytest.raises(OSError, match="no space left"):
            await supervising(children, refuse)
        return children.child.received

    assert run_in_virtual_time(work) == [("SIGKILL", 0.0)]


@pytest.mark.parametrize("ends_after_s", [5.0, None], ids=["it ended", "it was cancelled"])
def test_nothing_that_was_waited_for_goes_on_after_the_program(ends_after_s: float | None) -> None:
    """A task that nobody waits for would take the next signal, or hide an error."""

    async def work(_: VirtualTimeLoop) -> set[asyncio.Task[object]]:
        task = asyncio.create_task(supervising(FakeChildren((), ends_after_s), EventRecorder()))
        await asyncio.wait({task}, timeout=60.0)
        task.cancel()
        await asyncio.wait({task})
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert run_in_virtual_time(work) == set()


def test_a_stop_during_the_start_reaches_the_program_at_once() -> None:
    """No host has a rank yet; those that come later would never know."""
    ranks = Ranks(answer=Told(everywhere=True, ranks=0, without_ranks=("w-0", "w-1")))
    went = run(ignored={signal.SIGTERM}, signals={6.0: signal.SIGTERM}, ranks=ranks)

    assert went.received[0] == ("SIGTERM", 6.0)
    assert not went.supervised.ranks_were_told
    assert went.noted[0] == "no rank is there to be told: the program gets SIGTERM"


def test_ranks_that_come_after_the_stop_have_the_program_told() -> None:
    """No rank is told twice by us."""
    ranks = Ranks(answer=True, late_after_s=4.0)
    went = run(
        ignored={signal.SIGUSR1},
        signals={10.0: signal.SIGTERM},
        ranks=ranks,
        stop_signal=signal.SIGUSR1,
    )

    assert ranks.told == [("SIGUSR1", 10.0)]
    assert went.received == [("SIGTERM", 14.0)]
    assert went.noted[1] == "ranks began after the stop: the program gets SIGTERM"


def test_leftovers_and_output_take_what_the_stop_has_left() -> None:
    """Whatever hangs, 1.5 s stay for the hosts."""
    went = run(
        ignored={signal.SIGTERM},
        signals={10.0: signal.SIGTERM},
        output_takes_s=100.0,
        sweep_takes_s=7.0,
    )

    ends_at_s = 10.0 + _GRACE_S + 4.0
    assert went.supervised.stop_ends_at_s == ends_at_s
    assert went.finished_by_s == ends_at_s - 1.5
    assert went.took_s == pytest.approx(ends_at_s - 2.5)


def test_a_stop_hurries_the_output_of_a_program_that_has_ended() -> None:
    """It ended by itself, and is not said to have been stopped."""
    went = run(ends_after_s=5.0, signals={12.0: signal.SIGTERM}, output_takes_s=30.0)

    assert went.took_s == pytest.approx(12.0)
    assert went.supervised.stopped_by is None
    assert went.supervised.stop_ends_at_s == pytest.approx(17.0)
    assert went.was_finished == [True]


def test_nobody_hurries_where_nobody_told_us_to_stop() -> None:
    """A slow reader gets everything."""
    went = run(ends_after_s=5.0, output_takes_s=30.0, sweep_takes_s=3.0)

    assert went.took_s == pytest.approx(38.0)
    assert (went.supervised.stop_ends_at_s, went.finished_by_s) == (None, None)
