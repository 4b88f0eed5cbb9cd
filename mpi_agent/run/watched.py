"""The launcher's side of the channels to its workers, while the program runs and when it has ended.

A worker that is watched knows that its launcher lives, tells at once what explains an ending, and
hears when the job is over. Nobody waits for that: the program has been started before, few logins
go on at a time, and as long as mpirun itself still dials hosts no more than those few do. A channel
that breaks is opened again, and says nothing of the worker: it may be the network, or the worker's
sshd that is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import TracebackType

from mpi_agent.job.events import Event, EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.worker_events import WorkerEvicted, WorkerExceededMemory
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.ssh.remote import ChannelBrokenError, NoAgentError, WorkerChannel, Workers
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_protocol import (
    Alive,
    Call,
    Draining,
    Farewell,
    Line,
    OutOfMemory,
    Over,
    Refused,
    Watching,
)

__all__ = ["END_LIMIT_S", "WatchedWorkers", "interval_s"]

END_LIMIT_S = 5.0
"""how long the end of the job may be told, to all workers together"""

_MOST_LOGINS = 16
_LONGEST_INTERVAL_S = 15.0
_SHORTEST_INTERVAL_S = 0.05
_INTERVALS_OF_SILENCE = 2
_FIRST_LINE_LIMIT_S = 15.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_LOOK_S = 0.5


def interval_s(lease_s: float | None) -> float:
    """Return how often a worker is told that its launcher lives: four times in its lease."""
    if lease_s is None:
        return _LONGEST_INTERVAL_S
    return min(max(lease_s / 4, _SHORTEST_INTERVAL_S), _LONGEST_INTERVAL_S)


class WatchedWorkers:
    """Keeps a channel to each worker open, from `begin` to `end`; `with` closes what is left.

    Args:
        targets: hosts that run the agent.
        call: the one that begins a run.
        is_dialling: whether mpirun still dials hosts.
    """

    def __init__(
        self,
        targets: Sequence[SshTarget],
        workers: Workers,
        call: Call,
        *,
        emit: EventSink,
        is_dialling: Callable[[], bool] = lambda: False,
    ) -> None:
        self._watches = [_Watch(target) for target in targets]
        self._workers = workers
        self._call = call
        self._emit = emit
        self._is_dialling = is_dialling
        self._logins = asyncio.Semaphore(_MOST_LOGINS)
        self._has_dialled = asyncio.Event()
        self._is_over = asyncio.Event()
        self._exit_code = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._untried = {target.name for target in targets}
        self._told_strangers: set[str] = set()

    async def __aenter__(self) -> WatchedWorkers:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def news(self) -> tuple[WorkerNews, ...]:
        """What workers told, in the order of the hosts; nothing of those that told nothing."""
        found = (watch.news for watch in self._watches)
        return tuple(news for news in found if news.is_evicted or news.kills)

    async def beside(self, work: Callable[[], Awaitable[str]]) -> str:
        """Begin, and return what the work returns: for what goes on while the program runs."""
        self.begin()
        return await work()

    def begin(self) -> None:
        """Open the channels in the background; the program has been started."""
        if self._tasks or not self._watches:
            return
        self._tasks = [asyncio.create_task(self._let_all_dial())]
        for number, watch in enumerate(self._watches):
            work = self._keep_open(watch, is_early=number < _MOST_LOGINS)
            self._tasks.append(asyncio.create_task(work))

    async def end(self, exit_code: int, *, limit_s: float = END_LIMIT_S) -> None:
        """Tell all workers that the job is over, and hear what they still have to tell."""
        self._exit_code = exit_code
        self._is_over.set()
        self.begin()
        if not self._tasks:
            return
        await asyncio.wait(self._tasks, timeout=limit_s)
        self._tell_strangers()
        deaf = [w for w in self._watches if not w.has_heard_all and not w.is_stranger]
        if names := tuple(w.target.name for w in deaf if not w.news.is_evicted):
            text = f"{fold_names(names)} said no farewell within {limit_s:g} s of the program's end"
            self._emit(Noted(text=text))

    async def _let_all_dial(self) -> None:
        while self._is_dialling() and not await self._over_within(_LOOK_S):
            pass
        self._has_dialled.set()

    async def _over_within(self, limit_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._is_over.wait()
        return self._is_over.is_set()

    async def _keep_open(self, watch: _Watch, *, is_early: bool) -> None:
        """Open one worker's channel again and again, until all was said or it makes no sense."""
        if not is_early:
            await self._has_dialled.wait()
        pause_s = _FIRST_PAUSE_S
        while not watch.has_heard_all and not watch.is_stranger:
            was_over, began_at_s = self._is_over.is_set(), _now_s()
            await self._try_once(watch)
            if was_over:
                return
            if _now_s() - began_at_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            await self._over_within(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _try_once(self, watch: _Watch) -> None:
        channel: WorkerChannel | None = None
        try:
            async with self._logins:
                channel = await self._workers.open(watch.target, self._call)
                lease_s = await _first_word(channel)
            watch.is_open = watch.was_open = True
            self._was_tried(watch)
            await self._converse(watch, channel, every_s=interval_s(lease_s))
        except NoAgentError:
            watch.is_stranger = not watch.was_open
        except (ChannelBrokenError, TimeoutError):
            pass  # no verdict: it is tried again
        finally:
            watch.is_open = False
            self._was_tried(watch)
            if channel is not None:
                await channel.close()

    async def _converse(self, watch: _Watch, channel: WorkerChannel, *, every_s: float) -> None:
        """Say now and then that we live, and hear the worker until it says farewell."""
        speaking = asyncio.create_task(self._speak(channel, every_s))
        try:
            while not watch.has_heard_all:
                async with asyncio.timeout(every_s * _INTERVALS_OF_SILENCE):
                    line = await channel.receive()
                for event in watch.take(line, is_over=self._is_over.is_set()):
                    self._emit(event)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _speak(self, channel: WorkerChannel, every_s: float) -> None:
        while not await self._over_within(every_s):
            channel.send(Alive())
        channel.send(Over(exit_code=self._exit_code))

    def _was_tried(self, watch: _Watch) -> None:
        """Tell of those without an agent once all were asked, in one line."""
        self._untried.discard(watch.target.name)
        if not self._untried:
            self._tell_strangers()

    def _tell_strangers(self) -> None:
        strangers = (watch.target.name for watch in self._watches if watch.is_stranger)
        if names := tuple(name for name in strangers if name not in self._told_strangers):
            self._told_strangers |= {*names}
            text = f"{fold_names(names)}: the agent there cannot be spoken with; not watched"
            self._emit(Noted(text=text))


class _Watch:
    """What is known of one worker.

    Attributes:
        is_open: it can be spoken with at this moment.
        was_open: it was spoken with once, so that no refusal is for ever.
        is_stranger: it has no agent that can be spoken with.
        has_heard_all: it said farewell; nothing more will come.
    """

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.is_open = self.was_open = False
        self.is_stranger = False
        self.has_heard_all = False
        self._has_left = False
        self._news = WorkerNews(host=target.name)

    @property
    def news(self) -> WorkerNews:
        """What the worker has told so far."""
        is_lost = not self.is_open and not self.has_heard_all
        is_gone = self._news.is_evicted and (is_lost or self._has_left)
        return replace(self._news, is_gone=is_gone)

    def take(self, line: Line, *, is_over: bool) -> tuple[Event, ...]:
        """Keep what a line tells; return what happened by it.

        A farewell before the job is over is that of a worker that has ended.
        """
        host = self.target.name
        match line:
            case Farewell():
                self.has_heard_all, self._has_left = True, not is_over
            case Draining(signal_name=name, grace_s=grace_s) if not self._news.is_evicted:
                self._news = replace(self._news, is_evicted=True)
                return (WorkerEvicted(host=host, signal_name=name, grace_s=grace_s),)
            case OutOfMemory(kills=kills, used_bytes=used, limit_bytes=limit):
                so_far = self._news.kills
                self._news = replace(
                    self._news, kills=so_far + kills, used_bytes=used, limit_bytes=limit
                )
                return (
                    WorkerExceededMemory(
                        host=host, kills=kills, used_bytes=used, limit_bytes=limit
                    ),
                )
        return ()


async def _first_word(channel: WorkerChannel) -> float | None:
    """Return the lease that the worker answers with; what comes before that is passed over.

    Raises:
        NoAgentError: it does not take the call.
    """
    async with asyncio.timeout(_FIRST_LINE_LIMIT_S):
        while True:
            line = await channel.receive()
            if isinstance(line, Refused):
                raise NoAgentError(line.why)
            if isinstance(line, Watching):
                return line.lease_s


def _now_s() -> float:
    return asyncio.get_running_loop().time()
