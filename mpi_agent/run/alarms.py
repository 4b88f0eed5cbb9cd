"""Waits for the first of several alarms, while others that fail do not end the program."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

from mpi_agent.job.alarms import Alarm
from mpi_agent.job.events import EventSink, Noted

__all__ = ["first_alarm"]


async def first_alarm(works: Sequence[Coroutine[None, None, Alarm]], *, emit: EventSink) -> Alarm:
    """Return the alarm that comes first; never, when none does.

    A fault of ours in one of them is told, and that one is silent from then on: the program is
    well, as far as anybody knows.
    """
    waiting = {asyncio.create_task(work) for work in works}
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (error := task.exception()) is None:
                    return task.result()
                text = f"cannot look after the program any more: {type(error).__name__}: {error}"
                emit(Noted(text=text))
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
