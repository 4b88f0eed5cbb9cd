"""Runs one program to its end: passes signals on, and ends it when it will not end by itself.

What a stop does, and when, is the table in `stopping`; this file carries it out.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

from mpi_agent.children import Child, Children
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.job.alarms import Alarm
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import EventSink, Noted, ProgramStarted, SignalReceived
from mpi_agent.job.output import Output
from mpi_agent.run.executable import start_error
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stopping import ANSWER_LIMIT_S, Step, Stopping, StopTerms, Whom
from mpi_agent.run.streams import ChildEnds, ProgramStreams

__all__ = ["AlarmWork", "StopTerms", "Supervised", "TellRanks", "supervise"]

TellRanks = Callable[[signal.Signals], Awaitable[bool]]
"""sends the ranks a signal; True when every host's ranks were told directly"""
AlarmWork = Callable[[], Coroutine[None, None, Alarm]]

_LEFTOVER_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    """How the program's process ended.

    Attributes:
        stopped_by: the first stop signal we were sent, None when nobody sent one.
        alarm: why the agent itself ended the program, None when it did not.
        mpirun_was_told: we told mpirun to end, so that its code is our doing.
        ranks_were_told: every host's ranks were told of the stop directly.
    """

    process_exit: ProcessExit
    stopped_by: signal.Signals | None
    alarm: Alarm | None
    output: Output
    mpirun_was_told: bool
    ranks_were_told: bool


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
) -> Supervised:
    """Run the plan until its process has ended and nothing of its session is left.

    Args:
        streams: new ones; they are done with afterwards.
        alarm: its work returns why the program must not go on; it is taken back when the program
            ends.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
    """
    others = children.running
    child = streams.start(
        lambda ends: _start(plan, environ, children, ends), note=lambda text: emit(Noted(text=text))
    )
    watch = _Watch(child, inbox, emit, terms, tell_ranks)
    try:
        emit(ProgramStarted(argv=plan.shown_argv, pid=child.pid, np=plan.np, host_count=host_count))
        children.adopt_orphans()
        await watch.until_ended(alarm)
    finally:
        child.signal(signal.SIGKILL)
        await children.sweep(_LEFTOVER_GRACE_S, spare=others)
        children.adopt_orphans(adopt=False)
        await streams.finish(in_a_hurry=watch.stopping.stopped_by is not None)
    return Supervised(
        process_exit=await child.wait(),
        stopped_by=watch.stopping.stopped_by,
        alarm=watch.alarm,
        output=streams.output,
        mpirun_was_told=watch.stopping.mpirun_was_told,
        ranks_were_told=watch.stopping.ranks_were_told,
    )


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
    ) -> None:
        self._child = child
        self._inbox = inbox
        self._emit = emit
        self._tell_ranks = tell_ranks
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
        all_told = False
        try:
            async with asyncio.timeout(None if step.begins_stop else ANSWER_LIMIT_S):
                all_told = await self._tell_ranks(step.signal)
        except TimeoutError:
            pass
        except Exception as error:  # whatever fails, the stop has to go on
            self._emit(Noted(text=f"cannot tell the ranks {step.signal.name}: {error}"))
        if all_told:
            self._emit(Noted(text=f"told the ranks on every host {step.signal.name}"))
        steps = self.stopping.answered(step, all_told=all_told, now_s=_now_s())
        if not (all_told or steps or step.begins_stop):
            text = (
                f"not all ranks got {step.signal.name}: mpirun would end by it, and not pass it on"
            )
            self._emit(Noted(text=text))
        self._note_and_do(steps)

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
