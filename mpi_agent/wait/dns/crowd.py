"""What thousands who ask at once share: one question for all, and a limited number of turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["OneForAll", "Turns"]

Answer = TypeVar("Answer")


class OneForAll(Generic[Answer]):
    """Keeps at most one question for each key under way; remembers no answer.

    Nobody's task outlives who asked: the first one asks in its own task, and when it is cancelled,
    one of those who waited asks instead.
    """

    def __init__(self) -> None:
        self._under_way: dict[object, asyncio.Future[Answer]] = {}

    async def ask(self, key: object, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to the question under way, or else to this one."""
        while (other := self._under_way.get(key)) is not None:
            await asyncio.wait((other,))
            if not other.cancelled():
                return other.result()
        mine = asyncio.get_running_loop().create_future()
        self._under_way[key] = mine
        try:
            answer = await question()
            mine.set_result(answer)
            return answer
        finally:
            del self._under_way[key]
            mine.cancel()


class Turns:
    """Lets a limited number in at once; the others wait for as long as somebody is served.

    So a long queue is no reason to give up, and a queue in which nothing moves is.

    Args:
        most: how many have a turn at once.
        patience_s: how long a queue may stand still.
    """

    def __init__(self, most: int, *, patience_s: float) -> None:
        self._most = most
        self._patience_s = patience_s
        self._served = 0
        self._free = asyncio.Semaphore(most)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def take(self) -> bool:
        """Return True with a turn, to be given back; False when the queue stood still."""
        free = self._free_in_this_loop()
        while True:
            served = self._served
            try:
                async with asyncio.timeout(self._patience_s):
                    return await free.acquire()
            except TimeoutError:
                if self._served == served:
                    return False

    def give_back(self, *, served: bool) -> None:
        """End a turn; `served` tells whether it brought what it was for."""
        self._served += served
        self._free.release()

    def _free_in_this_loop(self) -> asyncio.Semaphore:
        """Return the semaphore; it belongs to the event loop in which somebody waited for it."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free = loop, asyncio.Semaphore(self._most)
        return self._free
