"""Runs one program to its end: passes signals on, and ends it when it will not end by itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from mpi_agent.children import Child, Children
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.events import EventSink, ProgramStarted, SignalReceived
from mpi_agent.run.executable import start_error
from mpi_agent.run.signals import STOP_SIGNALS, SignalInbox

__all__ = ["Supervised", "supervise"]

_KILL_AT_STOP_NUMBER = 3
_GRACE_AFTER_SECOND_STOP_S = 3.0
_LEFTOVER_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    """How the program's process ended, and the first stop signal we were sent, if any."""

    process_exit: ProcessExit
    stopped_by: signal.Signals | None


async def supervise(
    plan: LaunchPlan,
    *,
    environ: Mapping[str, str],
    host_count: int,
    children: Children,
    inbox: SignalInbox,
    emit: EventSink,
    grace_s: float,
) -> Supervised:
    """Run the plan until its process has ended and nothing of its session is left.

    The first TERM or INT is passed on and starts the grace period; the second shortens it to
    three seconds, the third kills.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
    """
    others = children.running
    child = _start(plan, environ, children)
    emit(ProgramStarted(argv=plan.shown_argv, pid=child.pid, np=plan.np, host_count=host_count))
    children.adopt_orphans()
    try:
        stopped_by = await _pass_signals_on(child, inbox, emit, grace_s)
        return Supervised(process_exit=await child.wait(), stopped_by=stopped_by)
    finally:
        child.signal(signal.SIGKILL)
        await children.sweep(_LEFTOVER_GRACE_S, spare=others)
        children.adopt_orphans(adopt=False)


def _start(plan: LaunchPlan, environ: Mapping[str, str], children: Children) -> Child:
    try:
        return children.start(plan.argv, executable=plan.executable, env=plan.environment(environ))
    except OSError as error:
        raise start_error(plan.executable, error) from error


async def _pass_signals_on(
    child: Child, inbox: SignalInbox, emit: EventSink, grace_s: float
) -> signal.Signals | None:
    """Pass signals on until the child is gone; return the first stop signal."""
    loop = asyncio.get_running_loop()
    ended = asyncio.create_task(child.wait())
    kill_at_s: float | None = None
    stops: list[signal.Signals] = []
    while not ended.done():
        received = asyncio.create_task(inbox.next())
        left_s = None if kill_at_s is None else max(0.0, kill_at_s - loop.time())
        await asyncio.wait({ended, received}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if not received.done():
            received.cancel()
            if not ended.done():
                emit(SignalReceived(name="end of the grace period", action="killed the program"))
                child.signal(signal.SIGKILL)
                kill_at_s = None
            continue
        passed = received.result()
        if passed in STOP_SIGNALS:
            stops.append(passed)
            grace_left_s = grace_s if len(stops) == 1 else _GRACE_AFTER_SECOND_STOP_S
            kill_at_s = loop.time() + grace_left_s
        if len(stops) >= _KILL_AT_STOP_NUMBER:
            passed = signal.SIGKILL
        emit(SignalReceived(name=passed.name, action="passed on to the program"))
        child.signal(passed)
    return stops[0] if stops else None
