"""Work that goes on beside other work, and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine

from mpi_agent.job.events import EventSink, Noted

__all__ = ["beside"]


@contextlib.asynccontextmanager
async def beside(work: Coroutine[None, None, None], *, emit: EventSink) -> AsyncIterator[None]:
    """Let work go on during the block; it is over when the block is.

    A fault of ours in it is told, and the block goes on without it.
    """
    task = asyncio.create_task(_told(work, emit))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        work.close()  # it may not even have begun


async def _told(work: Coroutine[None, None, None], emit: EventSink) -> None:
    try:
        await work
    except Exception as error:  # whatever it is: nobody waits for this work
        emit(Noted(text=f"cannot follow any more: {type(error).__name__}: {error}"))
