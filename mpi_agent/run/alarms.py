"""Waits for the first of several alarms, while others that fail do not end the program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from mpi_agent.job.alarms import Alarm
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.run.stopping import ABOUT_RANKS

__all__ = ["first_alarm"]


async def first_alarm(
    works: Sequence[Coroutine[None, None, Alarm]],
    *,
    emit: EventSink,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Alarm:
    """Return the alarm that comes first; never, when none does.

    Of those that come at once, the one whose work stands first. A fault of ours in one of them is
    told, and that one is silent from then on: the program is well, as far as anybody knows. Once
    we were told to stop, an alarm about ranks is passed over, and the others are waited for.
    """
    waiting = [asyncio.create_task(work) for work in works]
    try:
        while waiting:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done = [task for task in waiting if task.done()]
            waiting = [task for task in waiting if task not in done]
            for task in done:
                if (error := task.exception()) is not None:
                    text = f"{type(error).__name__}: {error}"
                    emit(Noted(text=f"cannot look after the program any more: {text}"))
                elif not (is_stopped() and task.result().kind in ABOUT_RANKS):
                    return task.result()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
