"""The launcher's side of the channels to its workers, while the program runs and when it has ended.

A worker that is watched knows that its launcher lives, tells at once what explains an ending, and
hears when the job is over; what it is asked meanwhile, it answers. Nobody waits for the channels:
the program has been started before, and `open_channels` opens them beside it.

The end has two steps. First each worker ends what is left and tells what explains the ending; only
then is it known how the job goes on, and that is the last word.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, RankCpu, SignalPassed
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.run.open_channels import OpenChannels
from mpi_agent.run.open_files import room_for_channels
from mpi_agent.run.watched_worker import GIVEN_UP_AFTER_S, Heard, WatchedWorker
from mpi_agent.ssh.remote import Workers
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.ssh.worker_words import (
    Call,
    Line,
    Measure,
    Over,
    PassSignal,
    Restarting,
    Signalled,
    Usage,
)

__all__ = ["END_LIMIT_S", "WatchedWorkers"]

END_LIMIT_S = 5.0
"""how long the end of the job may be told, to all workers together"""

_WORD_LIMIT_S = 0.5
"""for the last word alone, where the sweep took all the time"""
_ANSWER_LIMIT_S = 3.0
_LONGEST_SUMMARY = 2000
_Answer = TypeVar("_Answer", bound=Line)


class WatchedWorkers:
    """Keeps a channel to each worker open, from `begin` to `end`; `with` closes what is left.

    Args:
        targets: hosts that run the agent.
        call: the one that begins a run.
        is_dialling: whether mpirun still dials hosts.
        room: returns how many of so many channels can be open at a time.
        worker_timeout_s: silence after which a worker is lost; None where that is never.
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
        worker_timeout_s: float | None = None,
    ) -> None:
        self._watched = [WatchedWorker(target) for target in targets]
        self._by_name = {worker.target.name: worker for worker in self._watched}
        self._emit = emit
        self._lost: set[str] = set()
        self._ended_at_s: float | None = None
        self._open = OpenChannels(
            self._watched,
            workers,
            call,
            emit=emit,
            is_dialling=is_dialling,
            room=room,
            worker_timeout_s=worker_timeout_s,
        )

    async def __aenter__(self) -> WatchedWorkers:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.close()

    @property
    def news(self) -> tuple[WorkerNews, ...]:
        """What workers told, in the order of the hosts; nothing of those that told nothing."""
        return tuple(worker.news for worker in self._watched if worker.news.is_any)

    @property
    def presence(self) -> tuple[HostPresence, ...]:
        """What of the run is on each worker whose agent can tell, in the order of the hosts."""
        found = (worker.presence for worker in self._watched)
        return tuple(presence for presence in found if presence is not None)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Hosts that turned out to have no agent that can be spoken with."""
        return tuple(worker.target.name for worker in self._watched if worker.is_stranger)

    def heard(self, host: str) -> Heard | None:
        """Return what the channel to a host tells of whether it lives; None where there is none."""
        worker = self._by_name.get(host)
        return None if worker is None or worker.is_stranger else worker.heard

    def had_nothing(self, host: str, since_s: float) -> bool:
        """Return whether an agent was heard since a time, with nothing of the run on its host."""
        worker = self._by_name.get(host)
        return worker is not None and worker.had_nothing(since_s)

    async def pass_signal(self, sig: signal.Signals) -> tuple[SignalPassed, ...]:
        """Let each worker send a signal to the run's ranks there; returns within three seconds."""
        answers = await self._ask_all(PassSignal(signal_name=sig.name), Signalled)
        return tuple(
            SignalPassed(host=host, ranks=None if answer is None else answer.ranks)
            for host, answer in answers
        )

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what the ranks used until now, of those workers that answer in three seconds."""
        answers = await self._ask_all(Measure(), Usage)
        return tuple(_usage(host, answer) for host, answer in answers if answer is not None)

    async def _ask_all(
        self, question: Line, kind: type[_Answer]
    ) -> tuple[tuple[str, _Answer | None], ...]:
        """Return every worker's answer, None where none came; strangers are left out."""
        asked = [worker for worker in self._watched if not worker.is_stranger]
        answers = await asyncio.gather(*(self._ask(worker, question, kind) for worker in asked))
        return tuple((w.target.name, answer) for w, answer in zip(asked, answers, strict=True))

    async def _ask(
        self, worker: WatchedWorker, question: Line, kind: type[_Answer]
    ) -> _Answer | None:
        talk = self._open.talks.get(worker.target.name)
        if talk is None or not worker.answers_questions:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                return await talk.ask(question, kind)
        return None

    def begin(self) -> None:
        """Open the channels in the background; the program has been started."""
        self._open.begin()

    def give_up(self, host: str) -> None:
        """Note that a host is lost: the end does not wait for a word of it."""
        self._lost.add(host)

    async def sweep(self, *, limit_s: float = END_LIMIT_S) -> tuple[HostSwept, ...]:
        """Tell all workers that the program has ended; return what each ended of what was left.

        What explains the ending is in `news` then. Nobody waits for those that could not be reached
        for long. What an older agent ended is not told. Hosts without an agent are left out.
        """
        self._ended_at_s = _now_s()
        await self._open.sweep(without=self._given_up | self._lost, limit_s=limit_s)
        self._tell_rest()
        return tuple(
            worker.swept or HostSwept(host=worker.target.name, answered=worker.has_told_all)
            for worker in self._watched
            if not worker.is_stranger
        )

    async def end(
        self,
        exit_code: int,
        summary: str = "",
        *,
        is_final: bool = True,
        limit_s: float = END_LIMIT_S,
    ) -> None:
        """Tell all workers how the run ended and how the job goes on.

        Args:
            summary: how it ended, in one line.
            is_final: False where the program is begun again.
            limit_s: from the beginning of the sweep, where there was one.
        """
        ended_at_s = _now_s() if self._ended_at_s is None else self._ended_at_s
        given_up, left_s = self._given_up, ended_at_s + limit_s - _now_s()
        last_word = Over if is_final else Restarting
        await self._open.finish(
            last_word(exit_code=exit_code, summary=_line(summary)),
            without=given_up | self._lost,
            limit_s=max(_WORD_LIMIT_S, left_s),
        )
        self._tell_rest()
        self._tell_deaf(given_up, _now_s() - ended_at_s)

    @property
    def _given_up(self) -> set[str]:
        now_s = _now_s()
        return {worker.target.name for worker in self._watched if worker.is_given_up(now_s)}

    def _tell_rest(self) -> None:
        for worker in self._watched:
            for event in worker.rest():
                self._emit(event)

    def _tell_deaf(self, given_up: set[str], since_s: float) -> None:
        """Tell which workers did not hear of the end, as far as that was not to be expected."""
        deaf = [
            worker.target.name
            for worker in self._watched
            if not (worker.has_heard_all or worker.is_stranger or worker.news.is_evicted)
            and worker.target.name not in self._lost
        ]
        if names := tuple(name for name in deaf if name in given_up):
            why = f"every login failed for {GIVEN_UP_AFTER_S:g} s or longer"
            self._emit(Noted(text=f"{fold_names(names)} did not hear of the program's end: {why}"))
        if names := tuple(name for name in deaf if name not in given_up):
            after = f"within {since_s:.1f} s of the program's end"
            self._emit(Noted(text=f"{fold_names(names)} said no farewell {after}"))


def _usage(host: str, usage: Usage) -> HostUsage:
    pairs = zip(usage.rank_numbers, usage.cpu_s, strict=False)
    return HostUsage(host=host, ranks=tuple(RankCpu(rank=r, cpu_s=cpu_s) for r, cpu_s in pairs))


def _line(text: str) -> str:
    """Return a text as a line of the protocol can hold it."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable[:_LONGEST_SUMMARY]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
