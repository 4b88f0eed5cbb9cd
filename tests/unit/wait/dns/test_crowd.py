"""One question for all, and turns for those who ask at once."""

from __future__ import annotations

import asyncio

from mpi_agent.wait.dns.crowd import OneForAll, Turns


def test_who_asks_what_is_being_asked_gets_the_same_answer() -> None:
    """One question for a thousand."""
    asked: list[str] = []

    async def question() -> str:
        asked.append("asked")
        await asyncio.sleep(0)
        return "answer"

    async def ask_all() -> list[str]:
        one_for_all: OneForAll[str] = OneForAll()
        return await asyncio.gather(*(one_for_all.ask("key", question) for _ in range(1000)))

    assert asyncio.run(ask_all()) == ["answer"] * 1000
    assert asked == ["asked"]


def test_another_asks_when_the_first_one_is_cancelled() -> None:
    """Nobody waits for an answer that does not come."""

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    async def at_once() -> str:
        return "answer"

    async def ask_twice() -> str:
        one_for_all: OneForAll[str] = OneForAll()
        first = asyncio.create_task(one_for_all.ask("key", never))
        second = asyncio.create_task(one_for_all.ask("key", at_once))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(ask_twice()) == "answer"


def test_a_queue_goes_on_for_as_long_as_somebody_is_served() -> None:
    """However long it takes in all."""

    async def take_all() -> list[bool]:
        turns = Turns(1, patience_s=0.1)

        async def one() -> bool:
            granted = await turns.take()
            await asyncio.sleep(0.06)
            turns.give_back(served=True)
            return granted

        return await asyncio.gather(*(one() for _ in range(4)))

    assert asyncio.run(take_all()) == [True] * 4


def test_a_queue_that_stands_still_is_given_up() -> None:
    """What nobody got is not to be had."""

    async def take_two() -> tuple[bool, bool]:
        turns = Turns(1, patience_s=0.05)
        return await turns.take(), await turns.take()

    assert asyncio.run(take_two()) == (True, False)


def test_turns_are_taken_in_one_event_loop_after_another() -> None:
    """A wait, and later a dial, each have their own."""
    turns = Turns(1, patience_s=5)

    async def two_at_once() -> list[bool]:
        async def one() -> bool:
            granted = await turns.take()
            await asyncio.sleep(0)
            turns.give_back(served=True)
            return granted

        return list(await asyncio.gather(one(), one()))

    assert [asyncio.run(two_at_once()) for _ in range(2)] == [[True, True]] * 2
