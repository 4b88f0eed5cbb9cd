"""Work that goes on beside other work."""

from __future__ import annotations

import asyncio

import pytest

from mpi_agent.beside import beside
from mpi_agent.job.events import Noted
from tests.fakes import EventRecorder


def test_it_is_over_when_the_block_is() -> None:
    """However long it would go on."""
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def block() -> None:
        async with beside(work(), emit=EventRecorder()):
            await asyncio.sleep(0)

    asyncio.run(block())

    assert ended == [True]


def test_a_fault_of_ours_is_told_and_the_block_goes_on() -> None:
    """It is no reason to end a program."""
    recorder = EventRecorder()

    async def fail() -> None:
        raise ValueError("no such host")

    async def block() -> str:
        async with beside(fail(), emit=recorder):
            await asyncio.sleep(0.01)
            return "done"

    assert asyncio.run(block()) == "done"
    assert recorder.events == [Noted(text="cannot follow any more: ValueError: no such host")]


def test_what_ends_the_block_is_raised() -> None:
    """As without anything beside it."""

    async def block() -> None:
        async with beside(asyncio.sleep(60), emit=EventRecorder()):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        asyncio.run(block())
