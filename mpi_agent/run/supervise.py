"""Runs one program to its end: passes signals on, and ends it when it will not end by itself.

What a stop does, and when, is the table in `stopping`; this file carries it out.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

from mpi_agent.children import Child, Children
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.job.alarms import Alarm
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import EventSink, Noted, ProgramStarted, SignalReceived
from mpi_agent.job.output import Output
from mpi_agent.run.executable import start_error
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stopping import ANSWER_LIMIT_S, Phase, Step, Stopping, StopTerms, Told, Whom
from mpi_agent.run.streams import ChildEnds, ProgramStreams

__all__ = ["AlarmWork", "LateRanks", "StopTerms", "Supervised", "TellRanks", "supervise"]

TellRanks = Callable[[signal.Signals], Awaitable[Told]]
"""sends the ranks a signal directly"""
LateRanks = Callable[[Told], Awaitable[None]]
"""returns once a host has ranks that had none when the others were told"""
AlarmWork = Callable[[], Coroutine[None, None, Alarm]]

_LEFTOVER_GRACE_S = 2.0
_LEAST_LEFTOVER_S = 0.5
_FOR_OUTPUT_S = 1.0
_FOR_HOSTS_S = 1.5
"""what is kept of a stop's last seconds, for what comes after the output"""
_LATE_STOP_S = 5.0
"""from a stop that comes when the program has ended to the end of all"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    """How the program's process ended.

    Attributes:
        stopped_by: the first stop signal we were sent, None when nobody sent one.
        alarm: why the agent itself ended the program, None when it did not.
        mpirun_was_told: we told mpirun to end, so that its code is our doing.
        ranks_were_told: every host's ranks were told of the stop directly.
        stop_ends_at_s: when all has to be over, on the event loop's clock, because somebody told us
            to stop; also where that came when the program had ended. None when nobody did.
    """

    process_exit: ProcessExit
    stopped_by: signal.Signals | None
    alarm: Alarm | None
    output: Output
    mpirun_was_told: bool
    ranks_were_told: bool
    stop_ends_at_s: float | None = None


async def supervise(
    plan: LaunchPlan,
    *,
    environ: Mapping[str, str],
    host_count: int,
    children: Children,
    inbox: SignalInbox,
    emit: EventSink,
    terms: StopTerms,
    streams: ProgramStreams,
    tell_ranks: TellRanks,
    alarm: AlarmWork,
    late_ranks: LateRanks | None = None,
) -> Supervised:
    """Run the plan until its process has ended and nothing of its session is left.

    Args:
        streams: new ones; they are done with afterwards.
        alarm: its work returns why the program must not go on; it is taken back when the program
            ends.
        late_ranks: None where that cannot be known.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
    """
    others = children.running
    child = streams.start(
        lambda ends: _start(plan, environ, children, ends), note=lambda text: emit(Noted(text=text))
    )
    watch = _Watch(child, inbox, emit, terms, tell_ranks, late_ranks)
    try:
        emit(ProgramStarted(argv=plan.shown_argv, pid=child.pid, np=plan.np, host_count=host_count))
        children.adopt_orphans()
        await watch.until_ended(alarm)
    finally:
        child.signal(signal.SIGKILL)
        ending = _Ending(watch.stopping.ends_at_s, streams)
        async with ending.hurried_by(inbox):
            await ending.sweep(children, spare=others)
            await streams.finish()
    return Supervised(
        process_exit=await child.wait(),
        stopped_by=watch.stopping.stopped_by,
        alarm=watch.alarm,
        output=streams.output,
        mpirun_was_told=watch.stopping.mpirun_was_told,
        ranks_were_told=watch.stopping.ranks_were_told,
        stop_ends_at_s=ending.ends_at_s,
    )


class _Ending:
    """What is still to be done when the child is gone, and how long it may take.

    Attributes:
        ends_at_s: when all has to be over; None while nobody told us to stop.
    """

    def __init__(self, ends_at_s: float | None, streams: ProgramStreams) -> None:
        self.ends_at_s = ends_at_s
        self._streams = streams

    @contextlib.asynccontextmanager
    async def hurried_by(self, inbox: SignalInbox) -> AsyncIterator[None]:
        """Let a stop hurry the block, one that came or one that comes; it is left in the inbox."""
        if self.ends_at_s is not None:
            self._streams.hurry(self.ends_at_s - _FOR_HOSTS_S)
        hearing = asyncio.create_task(self._hear(inbox))
        try:
            yield
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def sweep(self, children: Children, *, spare: tuple[Child, ...]) -> None:
        """End what the child left behind."""
        grace_s, limit_s = _LEFTOVER_GRACE_S, None
        if self.ends_at_s is not None:
            left_s = self.ends_at_s - _FOR_HOSTS_S - _FOR_OUTPUT_S - _now_s()
            limit_s = max(_LEAST_LEFTOVER_S, left_s)
            grace_s = min(grace_s, limit_s / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await children.sweep(grace_s, spare=spare)
        children.adopt_orphans(adopt=False)

    async def _hear(self, inbox: SignalInbox) -> None:
        await inbox.stopped()
        if self.ends_at_s is None:
            self.ends_at_s = _now_s() + _LATE_STOP_S
            self._streams.hurry(self.ends_at_s - _FOR_HOSTS_S)


def _start(
    plan: LaunchPlan, environ: Mapping[str, str], children: Children, ends: ChildEnds
) -> Child:
    try:
        return children.start(
            plan.argv,
            executable=plan.executable,
            env=plan.environment(environ),
            stdin=ends.stdin,
            stdout=ends.stdout,
            stderr=ends.stderr,
            controlling=ends.controlling,
        )
    except OSError as error:
        raise start_error(plan.executable, error) from error


class _Watch:
    """Passes on what comes while the child runs: signals, the alarm, the end of the grace."""

    def __init__(
        self,
        child: Child,
        inbox: SignalInbox,
        emit: EventSink,
        terms: StopTerms,
        tell_ranks: TellRanks,
        late_ranks: LateRanks | None,
    ) -> None:
        self._child = child
        self._inbox = inbox
        self._emit = emit
        self._tell_ranks = tell_ranks
        self._late_ranks = late_ranks
        self._ended = asyncio.create_task(child.wait())
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopping = Stopping(terms)
        self.alarm: Alarm | None = None

    async def until_ended(self, alarm: AlarmWork) -> None:
        """Return once the child is gone; nothing that was waited for goes on after that."""
        self._begin(self._take_signal())
        self._begin(self._take_alarm(alarm))
        try:
            while not self._ended.done():
                await self._something()
                if not self._ended.done():
                    self._note_and_do(self.stopping.at(_now_s()))
        finally:
            for task in (self._ended, *self._tasks):
                task.cancel()
            await asyncio.gather(self._ended, *self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _something(self) -> None:
        """Return when a task is done, or it is time; raise what a task raised."""
        next_at_s = self.stopping.next_at_s
        done, _ = await asyncio.wait(
            {self._ended, *self._tasks},
            timeout=None if next_at_s is None else max(0.0, next_at_s - _now_s()),
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in self._tasks & done:
            self._tasks.remove(task)
            task.result()

    async def _take_signal(self) -> None:
        received = await self._inbox.next()
        self._begin(self._take_signal())
        steps = self.stopping.received(received, _now_s())
        self._emit(SignalReceived(name=received.name, action=_describe(received, steps)))
        self._do(steps)

    async def _take_alarm(self, alarm: AlarmWork) -> None:
        came = await alarm()
        if self._ended.done() or not self.stopping.heeds(came.kind):
            return
        self.alarm = came
        self._emit(Noted(text=f"{came.why}; the program is ended"))
        self._do(self.stopping.alarmed(_now_s()))

    async def _tell(self, step: Step) -> None:
        """Tell the ranks; a stop's telling goes on when mpirun had to be told in between."""
        told = Told()
        try:
            async with asyncio.timeout(None if step.begins_stop else ANSWER_LIMIT_S):
                told = await self._tell_ranks(step.signal)
        except TimeoutError:
            pass
        except Exception as error:  # whatever fails, the stop has to go on
            self._emit(Noted(text=f"cannot tell the ranks {step.signal.name}: {error}"))
        if told.all:
            self._emit(Noted(text=f"told the ranks on every host {step.signal.name}"))
        steps = self.stopping.answered(step, told=told, now_s=_now_s())
        if not (told.all or steps or step.begins_stop):
            text = f"not all ranks got {step.signal.name}, and the program would not pass it on"
            self._emit(Noted(text=text))
        self._note_and_do(steps)
        if self.stopping.phase is Phase.RANKS_FIRST and step.begins_stop:
            await self._look_for_late_ranks(told)

    async def _look_for_late_ranks(self, told: Told) -> None:
        """Have the program told of the stop, should ranks come that were not."""
        if self._late_ranks is None:
            return
        try:
            await self._late_ranks(told)
        except Exception as error:  # whatever fails, the stop has to go on
            self._emit(Noted(text=f"cannot look for ranks that come late: {error}"))
        else:
            self._note_and_do(self.stopping.late_ranks_came())

    def _note_and_do(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._emit(Noted(text=f"{step.why}: the program gets {step.signal.name}"))
        self._do(steps)

    def _do(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if step.whom is Whom.RANKS:
                self._begin(self._tell(step))
            else:
                self._child.signal(step.signal)


def _describe(received: signal.Signals, steps: tuple[Step, ...]) -> str:
    """Return what becomes of a signal that was received."""
    other = [f" {step.signal.name}" for step in steps if step.signal is not received]
    if any(step.whom is Whom.RANKS for step in steps):
        return "".join(("telling the ranks", *other))
    return "".join(("the program gets", *other)) if other else "passed on to the program"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
