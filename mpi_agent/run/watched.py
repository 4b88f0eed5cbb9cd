"""The launcher's side of the channels to its workers, while the program runs and when it has ended.

A worker that is watched knows that its launcher lives, tells at once what explains an ending, and
hears when the job is over. Nobody waits for that: the program has been started before, few logins
go on at a time, and as long as mpirun itself still dials hosts no more than those few do. A channel
that breaks is opened again, and says nothing of the worker: it may be the network, or the worker's
sshd that is made anew. So is one that broke by a fault of ours: a worker that hears nobody for its
lease ends ranks that are well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.open_files import room_for_channels
from mpi_agent.run.watched_worker import GIVEN_UP_AFTER_S, WatchedWorker
from mpi_agent.ssh.remote import ChannelBrokenError, NoAgentError, WorkerChannel, Workers
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import Alive, Call, Over, Refused, Watching

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
        room: returns how many of so many channels can be open at a time.
    """

    def __init__(
        self,
        targets: Sequence[SshTarget],
        workers: Workers,
        call: Call,
        *,
        emit: EventSink,
        is_dialling: Callable[[], bool] = lambda: False,
        room: Callable[[int], int] = room_for_channels,
    ) -> None:
        self._watched = [WatchedWorker(target) for target in targets]
        self._workers = workers
        self._call = call
        self._emit = emit
        self._is_dialling = is_dialling
        self._room = room
        self._channels = asyncio.Semaphore()
        self._logins = asyncio.Semaphore(_MOST_LOGINS)
        self._has_dialled = asyncio.Event()
        self._is_over = asyncio.Event()
        self._exit_code = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._untried = {target.name for target in targets}
        self._told: set[str] = set()

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
        return tuple(worker.news for worker in self._watched if worker.news.is_any)

    async def beside(self, work: Callable[[], Awaitable[str]]) -> str:
        """Begin, and return what the work returns: for what goes on while the program runs."""
        self.begin()
        return await work()

    def begin(self) -> None:
        """Open the channels in the background; the program has been started."""
        if self._tasks or not self._watched:
            return
        count, most = len(self._watched), self._room(len(self._watched))
        if most < count:
            text = f"cannot watch more than {most} of {count} workers: the limit of open files"
            self._emit(Noted(text=f"{text}; the others only hear when the program has ended"))
        self._channels = asyncio.Semaphore(most)
        self._tasks = [
            asyncio.create_task(self._keep_open(worker, is_early=number < _MOST_LOGINS))
            for number, worker in enumerate(self._watched)
        ]
        self._tasks.append(asyncio.create_task(self._let_all_dial()))

    async def end(self, exit_code: int, *, limit_s: float = END_LIMIT_S) -> None:
        """Tell all workers that the job is over, and hear what they still have to tell.

        Nobody waits for those that could not be reached for long.
        """
        given_up = {worker.target.name for worker in self._watched if worker.is_given_up(_now_s())}
        self._exit_code = exit_code
        self._is_over.set()
        self.begin()
        if not self._tasks:
            return
        for worker, task in zip(self._watched, self._tasks, strict=False):
            if worker.target.name in given_up:
                task.cancel()
        done, _ = await asyncio.wait(self._tasks, timeout=limit_s)
        for task in done:
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._tell_fault(error)
        for worker in self._watched:
            for event in worker.rest():
                self._emit(event)
        self._tell_strangers()
        self._tell_deaf(given_up, limit_s)

    def _tell_deaf(self, given_up: set[str], limit_s: float) -> None:
        """Tell which workers did not hear of the end, as far as that was not to be expected."""
        deaf = [
            worker.target.name
            for worker in self._watched
            if not (worker.has_heard_all or worker.is_stranger or worker.news.is_evicted)
        ]
        if names := tuple(name for name in deaf if name in given_up):
            why = f"every login failed for {GIVEN_UP_AFTER_S:g} s or longer"
            self._emit(Noted(text=f"{fold_names(names)} did not hear of the program's end: {why}"))
        if names := tuple(name for name in deaf if name not in given_up):
            text = f"{fold_names(names)} said no farewell within {limit_s:g} s of the program's end"
            self._emit(Noted(text=text))

    async def _let_all_dial(self) -> None:
        try:
            while self._is_dialling() and not await self._over_within(_LOOK_S):
                pass
        finally:
            self._has_dialled.set()

    async def _over_within(self, limit_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._is_over.wait()
        return self._is_over.is_set()

    async def _keep_open(self, worker: WatchedWorker, *, is_early: bool) -> None:
        """Open one worker's channel again and again, until all was said or it makes no sense.

        It keeps its place meanwhile: nobody else's channel may let this one's lease end.
        """
        if not is_early:
            await self._has_dialled.wait()
        async with self._channels:
            pause_s = _FIRST_PAUSE_S
            while not worker.has_heard_all and not worker.is_stranger:
                was_over, began_at_s = self._is_over.is_set(), _now_s()
                await self._try_once(worker)
                if was_over:
                    return
                if _now_s() - began_at_s > _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
                await self._over_within(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _try_once(self, worker: WatchedWorker) -> None:
        try:
            await self._hold_channel(worker)
        except NoAgentError:
            worker.turned_away()
        except (ChannelBrokenError, TimeoutError):
            pass  # no verdict: it is tried again
        except Exception as error:
            # a watch that ends in silence lets the worker end ranks that are well, after its lease
            self._tell_fault(error)
        finally:
            worker.closed(_now_s())
            self._was_tried(worker)

    async def _hold_channel(self, worker: WatchedWorker) -> None:
        """Open a channel and converse on it."""
        channel: WorkerChannel | None = None
        try:
            async with self._logins:
                channel = await self._workers.open(worker.target, self._call)
                lease_s = await _first_word(channel)
            worker.opened()
            self._was_tried(worker)
            await self._converse(worker, channel, every_s=interval_s(lease_s))
        finally:
            if channel is not None:
                await channel.close()

    async def _converse(
        self, worker: WatchedWorker, channel: WorkerChannel, *, every_s: float
    ) -> None:
        """Say now and then that we live, and hear the worker until it says farewell.

        Raises:
            ChannelBrokenError, TimeoutError: one of the two could not be done any more.
        """
        speaking = asyncio.create_task(self._speak(channel, every_s))
        hearing = asyncio.create_task(
            self._hear(worker, channel, limit_s=every_s * _INTERVALS_OF_SILENCE)
        )
        try:
            await asyncio.wait((speaking, hearing), return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                speaking.result()
            await hearing
        finally:
            for task in (speaking, hearing):
                task.cancel()
            await asyncio.gather(speaking, hearing, return_exceptions=True)

    async def _hear(self, worker: WatchedWorker, channel: WorkerChannel, *, limit_s: float) -> None:
        while not worker.has_heard_all:
            async with asyncio.timeout(limit_s):
                line = await channel.receive()
            for event in worker.take(line, at_s=_now_s()):
                self._emit(event)

    async def _speak(self, channel: WorkerChannel, every_s: float) -> None:
        while not await self._over_within(every_s):
            channel.send(Alive())
        channel.send(Over(exit_code=self._exit_code))

    def _tell_fault(self, error: Exception) -> None:
        """Tell a fault of ours once, however many channels have it."""
        text = f"cannot watch a worker: {type(error).__name__}: {error}; it is tried again"
        if text not in self._told:
            self._told.add(text)
            with contextlib.suppress(Exception):  # it may be the log itself that fails
                self._emit(Noted(text=text))

    def _was_tried(self, worker: WatchedWorker) -> None:
        """Tell of those without an agent once all were asked, in one line."""
        self._untried.discard(worker.target.name)
        if not self._untried:
            self._tell_strangers()

    def _tell_strangers(self) -> None:
        strangers = (worker.target.name for worker in self._watched if worker.is_stranger)
        if names := tuple(name for name in strangers if name not in self._told):
            self._told |= {*names}
            text = f"{fold_names(names)}: the agent there cannot be spoken with; not watched"
            self._emit(Noted(text=text))


async def _first_word(channel: WorkerChannel) -> float | None:
    """Return the lease that the worker answers with; what comes before that is passed over.

    Raises:
        NoAgentError: it does not know the call.
        ChannelBrokenError: it does not take the call now.
    """
    async with asyncio.timeout(_FIRST_LINE_LIMIT_S):
        while True:
            line = await channel.receive()
            if isinstance(line, Refused):
                raise (NoAgentError if line.is_for_ever else ChannelBrokenError)(line.why)
            if isinstance(line, Watching):
                return line.lease_s


def _now_s() -> float:
    return asyncio.get_running_loop().time()
