"""A channel to each worker, kept open while the program runs and until the end was said.

Few logins go on at a time, and as long as mpirun itself still dials hosts no more than those few
do. A channel that breaks is opened again, and says nothing of the worker: it may be the network, or
the worker's sshd that is made anew. So is one that broke by a fault of ours: a worker that hears
nobody for its lease ends ranks that are well. How often a worker hears of us, and answers, decides
how soon its silence is noticed; `liveness` knows what follows from that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from mpi_agent.job.events import Event, EventSink, Noted, RankFailed
from mpi_agent.job.hosts import fold_names
from mpi_agent.run.channel_talk import ChannelTalk, interval_s, set_within
from mpi_agent.run.watched_worker import WatchedWorker
from mpi_agent.ssh.remote import ChannelBrokenError, NoAgentError, WorkerChannel, Workers
from mpi_agent.ssh.worker_words import Call, Line, Over, Refused, Watching

__all__ = ["OpenChannels"]

_MOST_LOGINS = 16
_MOST_RANKS_TOLD = 16
"""that failed: what ended first is what matters, and mpirun ends all others after it"""
_INTERVALS_OF_SILENCE = 2
_FIRST_LINE_LIMIT_S = 15.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_LOOK_S = 0.5


class OpenChannels:
    """Opens the channels and holds the conversations on them.

    Args:
        call: the one that begins a run.
        is_dialling: whether mpirun still dials hosts.
        room: returns how many of so many channels can be open at a time.
        worker_timeout_s: silence after which a worker is lost; None where that is never.

    Attributes:
        talks: the conversations that go on, by their hosts.
        tasks: those of the workers, in their order, and one more; empty before the beginning.
    """

    def __init__(
        self,
        watched: Sequence[WatchedWorker],
        workers: Workers,
        call: Call,
        *,
        emit: EventSink,
        is_dialling: Callable[[], bool],
        room: Callable[[int], int],
        worker_timeout_s: float | None,
    ) -> None:
        self._watched = watched
        self._workers = workers
        self._call = call
        self._emit = emit
        self._is_dialling = is_dialling
        self._room = room
        self._worker_timeout_s = worker_timeout_s
        self._channels = asyncio.Semaphore()
        self._logins = asyncio.Semaphore(_MOST_LOGINS)
        self._has_dialled = asyncio.Event()
        self._has_ended = asyncio.Event()
        self._is_decided = asyncio.Event()
        self._told_all = {worker.target.name: asyncio.Event() for worker in watched}
        self._last_word: Line = Over(exit_code=0)
        self._ranks_told = 0
        self._untried = {worker.target.name for worker in watched}
        self._told: set[str] = set()
        self.talks: dict[str, ChannelTalk] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def close(self) -> None:
        """Close what is left."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def begin(self) -> None:
        """Open the channels in the background, unless that was begun before."""
        if self.tasks or not self._watched:
            return
        count, most = len(self._watched), self._room(len(self._watched))
        if most < count:
            text = f"cannot watch more than {most} of {count} workers: the limit of open files"
            self._emit(Noted(text=f"{text}; the others only hear when the program has ended"))
        self._channels = asyncio.Semaphore(most)
        self.tasks = [
            asyncio.create_task(self._keep_open(worker, is_early=number < _MOST_LOGINS))
            for number, worker in enumerate(self._watched)
        ]
        self.tasks.append(asyncio.create_task(self._let_all_dial()))

    async def sweep(self, *, without: set[str], limit_s: float) -> None:
        """Say to all that the program has ended, and wait for what they tell of it.

        Args:
            without: hosts for which nobody need wait.
        """
        self._has_ended.set()
        self.begin()
        self._leave(without)
        waiting = [
            asyncio.create_task(self._until_told(worker, task))
            for worker, task in zip(self._watched, self.tasks, strict=False)
            if worker.target.name not in without
        ]
        try:
            if waiting:
                await asyncio.wait(waiting, timeout=limit_s)
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _until_told(self, worker: WatchedWorker, task: asyncio.Task[None]) -> None:
        """Return once a worker told all, or there is no use in waiting for it."""
        told = asyncio.create_task(_until_set(self._told_all[worker.target.name], task))
        try:
            while not told.done() and not worker.is_out_of_reach(_now_s()):
                await asyncio.wait((told,), timeout=_LOOK_S)
        finally:
            told.cancel()
            await asyncio.gather(told, return_exceptions=True)

    async def finish(self, last_word: Line, *, without: set[str], limit_s: float) -> None:
        """Say the last word to all, and wait for their farewells.

        Args:
            without: hosts for which nobody need wait.
        """
        self._last_word = last_word
        self._is_decided.set()
        self._has_ended.set()
        self.begin()
        if not self.tasks:
            return
        self._leave(without)
        done, _ = await asyncio.wait(self.tasks, timeout=limit_s)
        for task in done:
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._tell_fault(error)
        self._tell_strangers()

    def _leave(self, hosts: set[str]) -> None:
        """Have nothing more to do with hosts, so that their logins take nobody's place."""
        for worker, task in zip(self._watched, self.tasks, strict=False):
            if worker.target.name in hosts:
                task.cancel()

    async def _let_all_dial(self) -> None:
        try:
            while self._is_dialling() and not await set_within(self._has_ended, _LOOK_S):
                pass
        finally:
            self._has_dialled.set()

    async def _keep_open(self, worker: WatchedWorker, *, is_early: bool) -> None:
        """Open one worker's channel again and again, until all was said or it makes no sense.

        It keeps its place meanwhile: nobody else's channel may let this one's lease end.
        """
        if not is_early:
            await self._has_dialled.wait()
        async with self._channels:
            pause_s = _FIRST_PAUSE_S
            while not worker.has_heard_all and not worker.is_stranger:
                had_ended, began_at_s = self._has_ended.is_set(), _now_s()
                await self._try_once(worker)
                if had_ended:
                    return
                if _now_s() - began_at_s > _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
                await set_within(self._has_ended, pause_s)
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
                watching = await _first_word(channel)
            worker.opened(watching, _now_s())
            self._was_tried(worker)
            talk = self.talks[worker.target.name] = self._talk(worker, channel, watching)
            await talk.converse()
        finally:
            self.talks.pop(worker.target.name, None)
            if channel is not None:
                await channel.close()

    def _talk(
        self, worker: WatchedWorker, channel: WorkerChannel, watching: Watching
    ) -> ChannelTalk:
        every_s = interval_s(
            watching.lease_s, worker_timeout_s=self._worker_timeout_s, count=len(self._watched)
        )
        return ChannelTalk(
            worker,
            channel,
            emit=self._emit_some,
            every_s=every_s,
            silence_s=interval_s(watching.lease_s) * _INTERVALS_OF_SILENCE,
            has_ended=self._has_ended,
            is_decided=self._is_decided,
            last_word=lambda: self._last_word,
            told_all=self._told_all[worker.target.name].set,
        )

    def _emit_some(self, event: Event) -> None:
        """Tell an event of a worker; of ranks that failed only the first ones."""
        if isinstance(event, RankFailed):
            self._ranks_told += 1
            if self._ranks_told > _MOST_RANKS_TOLD:
                return
        self._emit(event)

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


async def _until_set(told_all: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Return once a worker has told all that explains an ending, or nothing more will be tried."""
    told = asyncio.create_task(told_all.wait())
    try:
        await asyncio.wait((told, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()


async def _first_word(channel: WorkerChannel) -> Watching:
    """Return what the worker answers the call with; what comes before that is passed over.

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
                return line


def _now_s() -> float:
    return asyncio.get_running_loop().time()
