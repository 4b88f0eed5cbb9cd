"""The conversation on one open channel to a worker: what is said when, and whose an answer is.

We say now and then that we live, ask when somebody wants to know, and say at last that the program
has ended: what explains it is told then. How the job goes on is said when that was decided. The
worker answers questions of one kind in the order in which they were asked, so an answer
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
from mpi_agent.ssh.worker_words import Alive, Line, Sweep

__all__ = ["ChannelTalk", "interval_s", "set_within"]

_OWN_PAUSE_S = 1.0
"""a limit that is noticed so late tells that we stood still, and nothing of the worker"""
_LONGEST_INTERVAL_S = 15.0
_SHORTEST_INTERVAL_S = 0.05
_FEW, _MANY = 64, 1000
_OFTEN, _SELDOM = 1 / 5, 1 / 3
"""of the timeout, between two words to one of few workers, or of many"""
_Answer = TypeVar("_Answer", bound=Line)


def interval_s(
    lease_s: float | None, *, worker_timeout_s: float | None = None, count: int = 1
) -> float:
    """Return how often a worker is told that its launcher lives: four times in its lease or more.

    It answers, so its silence is noticed as soon as `liveness` wants it. With many workers it is
    asked less often: each answer costs the launcher, whose ranks need its processors too.

    Args:
        worker_timeout_s: silence after which a worker is lost; None where that is never.
        count: how many workers are watched.
    """
    usual_s = _LONGEST_INTERVAL_S if lease_s is None else lease_s / 4
    if worker_timeout_s is not None:
        crowd = min(max((count - _FEW) / (_MANY - _FEW), 0.0), 1.0)
        usual_s = min(usual_s, worker_timeout_s * (_OFTEN + crowd * (_SELDOM - _OFTEN)))
    return min(max(usual_s, _SHORTEST_INTERVAL_S), _LONGEST_INTERVAL_S)


class ChannelTalk:
    """One conversation, from the worker's first answer to its farewell.

    Args:
        every_s: how often we say that we live.
        silence_s: how long the worker may say nothing.
        has_ended: set when the program has ended.
        is_decided: set when it is known how the job goes on.
        last_word: returns what is said then.
        told_all: is called when nothing more will come of the worker that explains an ending.
    """

    def __init__(
        self,
        worker: WatchedWorker,
        channel: WorkerChannel,
        *,
        emit: EventSink,
        every_s: float,
        silence_s: float,
        has_ended: asyncio.Event,
        is_decided: asyncio.Event,
        last_word: Callable[[], Line],
        told_all: Callable[[], object],
    ) -> None:
        self._worker = worker
        self._channel = channel
        self._emit = emit
        self._every_s = every_s
        self._silence_s = silence_s
        self._has_ended = has_ended
        self._is_decided = is_decided
        self._last_word = last_word
        self._told_all = told_all
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
            if self._worker.has_told_all:
                self._told_all()

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
        await self._say_that_we_live(self._has_ended)
        if not self._is_decided.is_set():
            self._ask_for_last_words()
            await self._say_that_we_live(self._is_decided)
        self._channel.send(self._last_word())

    async def _say_that_we_live(self, until: asyncio.Event) -> None:
        while not await set_within(until, self._every_s):
            self._channel.send(Alive())

    def _ask_for_last_words(self) -> None:
        """Let the worker sweep and tell what explains the ending; an older agent is not asked."""
        if self._worker.answers_questions:
            self._channel.send(Sweep())
        else:
            self._worker.has_told_all = True
            self._told_all()


async def set_within(event: asyncio.Event, limit_s: float) -> bool:
    """Return whether an event was set, waiting for it no longer than the limit."""
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
