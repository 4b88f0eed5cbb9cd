"""Runs one program to its end: passes signals on, and ends it when it will not end by itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from mpi_agent.children import Child, Children
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import EventSink, Noted, ProgramStarted, SignalReceived
from mpi_agent.run.executable import start_error
from mpi_agent.run.signals import STOP_SIGNALS, SignalInbox

__all__ = ["Supervised", "supervise"]

_KILL_AT_STOP_NUMBER = 3
_GRACE_AFTER_SECOND_STOP_S = 3.0
_LEFTOVER_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    """How the program's process ended.

    Attributes:
        stopped_by: the first stop signal we were sent, None when nobody sent one.
        alarm: why the agent itself ended the program, None when it did not.
    """

    process_exit: ProcessExit
    stopped_by: signal.Signals | None
    alarm: str | None = None


async def supervise(
    plan: LaunchPlan,
    *,
    environ: Mapping[str, str],
    host_count: int,
    children: Children,
    inbox: SignalInbox,
    emit: EventSink,
    grace_s: float,
    alarm: Callable[[], Coroutine[None, None, str]],
) -> Supervised:
    """Run the plan until its process has ended and nothing of its session is left.

    The first TERM or INT is passed on and starts the grace period; the second shortens it to
    three seconds, the third kills. When the alarm comes back, the program is ended the same way.

    Args:
        alarm: its work returns why the program must not go on; it is taken back when the program
            ends.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
    """
    others = children.running
    child = _start(plan, environ, children)
    try:
        emit(ProgramStarted(argv=plan.shown_argv, pid=child.pid, np=plan.np, host_count=host_count))
        children.adopt_orphans()
        watch = _Watch(child, inbox, emit, grace_s)
        await watch.until_ended(alarm)
        return Supervised(
            process_exit=await child.wait(), stopped_by=watch.stopped_by, alarm=watch.alarmed
        )
    finally:
        child.signal(signal.SIGKILL)
        await children.sweep(_LEFTOVER_GRACE_S, spare=others)
        children.adopt_orphans(adopt=False)


def _start(plan: LaunchPlan, environ: Mapping[str, str], children: Children) -> Child:
    try:
        return children.start(plan.argv, executable=plan.executable, env=plan.environment(environ))
    except OSError as error:
        raise start_error(plan.executable, error) from error


class _Watch:
    """Passes on what comes while the child runs: signals, the alarm, the end of the grace."""

    def __init__(self, child: Child, inbox: SignalInbox, emit: EventSink, grace_s: float) -> None:
        self._child = child
        self._inbox = inbox
        self._emit = emit
        self._grace_s = grace_s
        self._kill_at_s: float | None = None
        self._stops = 0
        self.stopped_by: signal.Signals | None = None
        self.alarmed: str | None = None

    async def until_ended(self, alarm: Callable[[], Coroutine[None, None, str]]) -> None:
        """Return once the child is gone; nothing that was waited for goes on after that."""
        ended = asyncio.create_task(self._child.wait())
        alarmed = asyncio.create_task(alarm())
        received = asyncio.create_task(self._inbox.next())
        try:
            while not ended.done():
                await self._something_of(ended, alarmed, received)
                if received.done():
                    self._take(received.result())
                    received = asyncio.create_task(self._inbox.next())
                elif alarmed.done() and self.alarmed is None and not ended.done():
                    self._take_alarm(alarmed.result())
                elif not ended.done() and self._is_late:
                    self._kill()
        finally:
            for task in (ended, alarmed, received):
                task.cancel()
            await asyncio.gather(ended, alarmed, received, return_exceptions=True)

    async def _something_of(
        self,
        ended: asyncio.Task[ProcessExit],
        alarmed: asyncio.Task[str],
        received: asyncio.Task[signal.Signals],
    ) -> None:
        left_s = None if self._kill_at_s is None else max(0.0, self._kill_at_s - _now_s())
        alarm = {alarmed} if self.alarmed is None else set()
        await asyncio.wait(
            {ended, received, *alarm}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
        )

    @property
    def _is_late(self) -> bool:
        return self._kill_at_s is not None and _now_s() >= self._kill_at_s

    def _take(self, received: signal.Signals) -> None:
        """Pass a signal on; one that stops starts or shortens the grace period."""
        passed = received
        if received in STOP_SIGNALS:
            self._stops += 1
            self.stopped_by = self.stopped_by or received
            first = self._stops == 1
            self._kill_at_s = _now_s() + (self._grace_s if first else _GRACE_AFTER_SECOND_STOP_S)
        if self._stops >= _KILL_AT_STOP_NUMBER:
            passed = signal.SIGKILL
        self._emit(SignalReceived(name=passed.name, action="passed on to the program"))
        self._child.signal(passed)

    def _take_alarm(self, why: str) -> None:
        self.alarmed = why
        self._emit(Noted(text=f"{why}; the program is ended"))
        if self._kill_at_s is None:
            self._kill_at_s = _now_s() + self._grace_s
        self._child.signal(signal.SIGTERM)

    def _kill(self) -> None:
        self._emit(SignalReceived(name="end of the grace period", action="killed the program"))
        self._child.signal(signal.SIGKILL)
        self._kill_at_s = None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
