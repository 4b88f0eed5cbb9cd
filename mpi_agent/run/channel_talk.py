"""The conversation on one open channel to a worker: what is said when, and whose an answer is.

We say now and then that we live, ask when somebody wants to know, and say at last that the job is
over. The worker answers questions of one kind in the order in which they were asked, so an answer
that comes too late is known as one that nobody waits for any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from mpi_agent.job.events import EventSink
from mpi_agent.run.watched_worker import WatchedWorker
from mpi_agent.ssh.remote import ChannelBrokenError, WorkerChannel
from mpi_agent.ssh.worker_words import Alive, Line

__all__ = ["ChannelTalk", "over_within"]

_OWN_PAUSE_S = 1.0
"""a limit that is noticed so late tells that we stood still, and nothing of the worker"""
_Answer = TypeVar("_Answer", bound=Line)


class ChannelTalk:
    """One conversation, from the worker's first answer to its farewell.

    Args:
        every_s: how often we say that we live.
        silence_s: how long the worker may say nothing.
        is_over: set when the job has ended.
        last_word: returns what is said then.
    """

    def __init__(
        self,
        worker: WatchedWorker,
        channel: WorkerChannel,
        *,
        emit: EventSink,
        every_s: float,
        silence_s: float,
        is_over: asyncio.Event,
        last_word: Callable[[], Line],
    ) -> None:
        self._worker = worker
        self._channel = channel
        self._emit = emit
        self._every_s = every_s
        self._silence_s = silence_s
        self._is_over = is_over
        self._last_word = last_word
        self._asked: dict[type[Line], deque[asyncio.Future[Line | None]]] = {}

    async def converse(self) -> None:
        """Speak and hear until the worker says farewell.

        Raises:
            ChannelBrokenError, TimeoutError: one of the two could not be done any more.
        """
        speaking = asyncio.create_task(self._speak())
        hearing = asyncio.create_task(self._hear())
        try:
            await asyncio.wait((speaking, hearing), return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                speaking.result()
            await hearing
        finally:
            for task in (speaking, hearing):
                task.cancel()
            await asyncio.gather(speaking, hearing, return_exceptions=True)
            self._give_up_questions()

    async def ask(self, question: Line, answer: type[_Answer]) -> _Answer | None:
        """Return the answer; None where the conversation ends without one."""
        waiting: asyncio.Future[Line | None] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(question)
        except ChannelBrokenError:
            return None
        self._asked.setdefault(answer, deque()).append(waiting)
        answered = await waiting
        return answered if isinstance(answered, answer) else None

    async def _hear(self) -> None:
        while not self._worker.has_heard_all:
            line = await self._next_line()
            self._answer(line)
            for event in self._worker.take(line, at_s=_now_s()):
                self._emit(event)

    async def _next_line(self) -> Line:
        """Return the next line; a time in which we stood still ourselves is no silence of it."""
        while True:
            due_s = _now_s() + self._silence_s
            try:
                async with asyncio.timeout(self._silence_s):
                    return await self._channel.receive()
            except TimeoutError:
                if _now_s() - due_s < _OWN_PAUSE_S:
                    raise

    def _answer(self, line: Line) -> None:
        asked = self._asked.get(type(line))
        if asked and not (waiting := asked.popleft()).done():
            waiting.set_result(line)

    def _give_up_questions(self) -> None:
        for asked in self._asked.values():
            for waiting in asked:
                if not waiting.done():
                    waiting.set_result(None)
        self._asked.clear()

    async def _speak(self) -> None:
        while not await over_within(self._is_over, self._every_s):
            self._channel.send(Alive())
        self._channel.send(self._last_word())


async def over_within(is_over: asyncio.Event, limit_s: float) -> bool:
    """Return whether an event was set, waiting for it no longer than the limit."""
    try:
        async with asyncio.timeout(limit_s):
            await is_over.wait()
    except TimeoutError:
        pass
    return is_over.is_set()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
