"""The runs that launchers hold by a conversation: what is asked and told of them, and their end.

A launcher begins or renews its run, says that it lives, has its ranks told or measured, has swept
what is left when mpirun is gone, and says at last how the run has ended; one that says only the
last has it swept too. How long a run may be silent stands in `worker.leases`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Protocol

from mpi_agent.container import container_identity
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.worker_events import RunOver
from mpi_agent.job_processes import JobProcess
from mpi_agent.process_signals import Ended
from mpi_agent.run_id import RunId
from mpi_agent.segments import Segments
from mpi_agent.ssh.worker_protocol import ProtocolError, parse_line
from mpi_agent.ssh.worker_words import (
    Alive,
    Call,
    Farewell,
    LauncherId,
    Line,
    Measure,
    Over,
    PassSignal,
    Restarting,
    Signalled,
    Sweep,
    Swept,
    Usage,
    Watching,
)
from mpi_agent.state import StateDirectory
from mpi_agent.worker.audience import Audience
from mpi_agent.worker.conversation import Conversation
from mpi_agent.worker.launchers_seen import LaunchersSeen
from mpi_agent.worker.leases import Leases
from mpi_agent.worker.leftovers import EndRuns
from mpi_agent.worker.rank_watch import RankWatch
from mpi_agent.worker.runs import Run
from mpi_agent.worker.throttling import Throttling

__all__ = ["HeldRuns", "RanksOfRuns"]

_CLOSE_LIMIT_S = 5.0


class RanksOfRuns(Protocol):
    """The processes of runs on this worker."""

    def find(self) -> tuple[JobProcess, ...]:
        """Return the live processes of all runs."""

    def signal(self, run_id: str, signal_number: int) -> int:
        """Send a signal to the ranks of a run; return how many got it."""

    def usage(self, run_id: str) -> Usage:
        """Return what the ranks of a run used."""


class HeldRuns:
    """Every open run.

    Args:
        end_runs: see `worker.leftovers`.
        last_words: what a launcher must know before it hears the farewell, of no run in particular.
        throttling: whether runs were held back by the CPU limit.

    Attributes:
        audience: the launchers that are told what happens here.
        is_leaving: nobody may begin or renew a run any more.
    """

    def __init__(
        self,
        *,
        state: StateDirectory,
        worker_name: str,
        lease_s: float | None,
        end_runs: EndRuns,
        ranks: RanksOfRuns,
        segments: Segments,
        emit: EventSink,
        last_words: Callable[[], tuple[Line, ...]],
        throttling: Throttling,
    ) -> None:
        self.audience = Audience()
        self.is_leaving = False
        self._worker_name = worker_name
        self._lease_s = lease_s
        self._end_processes = end_runs
        self._ranks = ranks
        self._segments = segments
        self._emit = emit
        self._last_words = last_words
        self._throttling = throttling
        self._seen = LaunchersSeen(state, emit)
        self._watch = RankWatch(
            find=ranks.find,
            tell=lambda run_id, line: self.audience.tell(line, run_ids=(run_id,)),
            looked=segments.looked,
            emit=emit,
        )
        self.leases = Leases(
            state=state,
            lease_s=lease_s,
            end_runs=self._end_runs,
            let_go=self._let_go,
            changed=self._look_whether_over,
            emit=emit,
        )
        self._removed: dict[str, int] = {}
        self._exit_code: int | None = None
        self._partings = 0
        self._over = asyncio.Event()

    async def serve(self, group: asyncio.TaskGroup) -> None:
        """Look at ranks, and end those of launchers that are gone, until cancelled."""
        group.create_task(self._watch.serve())
        await self.leases.serve(group)

    async def hold(self, conversation: Conversation, call: Call) -> None:
        """Let a launcher hold its run until one of us says that it is over.

        Raises:
            ProtocolError: what it says is no line, or this worker is ending.
        """
        assert call.launcher is not None
        if self.is_leaving:
            raise ProtocolError("this worker is ending")
        self._begin(conversation, call.run_id, call.launcher)
        try:
            while raw := await conversation.read_line():
                self.leases.heard(call.run_id, watcher=conversation.number)
                self.audience.heard(call.run_id)
                line = parse_line(raw)
                if isinstance(line, Over | Restarting):
                    await self._take_over(conversation, call.run_id, line)
                    return
                if isinstance(line, Sweep):
                    await self._sweep(conversation, call.run_id)
                elif line is not None and (answer := self._answer_to(line, call.run_id)):
                    conversation.send(answer)
        finally:
            self.audience.leave(call.run_id, conversation)
            if not self.is_leaving:
                self.leases.lost(call.run_id, watcher=conversation.number)
            self._forget_others()

    async def clean(self, call: Call) -> Ended | None:
        """End what belongs to nobody; see `Leases.clean`.

        That is also what an asker's own job has left of runs that were never spoken of here: their
        launcher was gone before it could.
        """
        if (own := RunId.parse(call.run_id)) is not None:
            found = {process.run_id or "" for process in self._ranks.find()}
            known = found.difference(self.leases.run_ids)
            self.leases.take_in(text for text in known if _is_former(text, own))
        return await self.leases.clean(call.launcher)

    async def job_over(self) -> int:
        """Return the job's exit code, once a launcher told it and nothing of any run goes on.

        Every launcher has had its farewell then; the code is that of the last one. What will not go
        is not waited for: whoever ends this container may be stronger than we are.
        """
        await self._over.wait()
        assert self._exit_code is not None
        return self._exit_code

    def _begin(self, conversation: Conversation, run_id: str, launcher: LauncherId) -> None:
        if self.leases.begin(run_id, launcher, watcher=conversation.number):
            self._seen.add(run_id, launcher)
            self._throttling.begin(run_id)
        watching = Watching(
            worker=self._worker_name, lease_s=self._lease_s, container=container_identity()
        )
        self.audience.join(run_id, conversation, watching)
        self._watch.begin(run_id)

    def _answer_to(self, line: Line, run_id: str) -> Line | None:
        match line:
            case Alive():
                return Alive()
            case PassSignal(signal_name=name):
                number = signal.Signals.__members__.get(name)
                return Signalled(ranks=0 if number is None else self._ranks.signal(run_id, number))
            case Measure():
                return self._ranks.usage(run_id)
        return None

    async def _take_over(
        self, conversation: Conversation, run_id: str, line: Over | Restarting
    ) -> None:
        """End what a run left behind, say the last words about it, and remember a job's code."""
        self._emit(_event_of(run_id, line))
        if isinstance(line, Over):
            self._exit_code = line.exit_code
        with self._parting():
            swept = await self._end_run(conversation, run_id)
            for word in (Farewell(),) if swept is None else (swept, Farewell()):
                conversation.send(word)
            await conversation.close(limit_s=_CLOSE_LIMIT_S)

    async def _sweep(self, conversation: Conversation, run_id: str) -> None:
        """End what a run left behind while its launcher stays to say how the job ended.

        It waits for the answer, so there is one also where nothing could be looked for.
        """
        with self._parting():
            swept = await self._end_run(conversation, run_id)
            conversation.send(swept or Swept(ended=0, killed=0, left=0, segments=0))

    @contextlib.contextmanager
    def _parting(self) -> Iterator[None]:
        """Let the job not be over for this worker while a launcher is still answered."""
        self._partings += 1
        try:
            yield
        finally:
            self._partings -= 1
            self._look_whether_over()

    async def _end_run(self, conversation: Conversation, run_id: str) -> Swept | None:
        """End what a run left behind, and tell what explains its ending.

        What became of it is returned, None where it could not even be looked for.
        """
        self._watch.last_look(run_id)
        throttled = self._throttling.last_words(run_id)
        ended = await self.leases.over(run_id)
        segments = self._removed.pop(run_id, 0)
        for word in (*self._last_words(), *throttled):
            conversation.send(word)
        if ended is None:
            return None
        return Swept(ended=ended.gone, killed=ended.killed, left=ended.left, segments=segments)

    async def _end_runs(self, run_ids: tuple[str, ...], why: str, /, *, grace_s: float) -> Ended:
        """End the processes of runs, and remove the shared memory that they leave.

        While some of them will not go it stays theirs: what they use is known only as long as they
        are.
        """
        ended = await self._end_processes(run_ids, why, grace_s=grace_s)
        if ended.left:
            return ended
        for run_id in run_ids:
            if removed := self._segments.remove(run_id):
                self._removed[run_id] = removed
                many = "1 file" if removed == 1 else f"{removed} files"
                self._emit(Noted(text=f"removed {many} in /dev/shm that run_id={run_id} left"))
        return ended

    def _let_go(self, run: Run) -> None:
        self.audience.let_go(run.run_id)

    def _look_whether_over(self) -> None:
        self._forget_others()
        if not self._partings:
            self._removed.clear()
        is_quiet = not self._partings and not self.leases.are_busy
        if self._exit_code is not None and is_quiet:
            self._over.set()

    def _forget_others(self) -> None:
        """Forget what is known of runs that are not open any more."""
        run_ids = self.leases.run_ids
        self.audience.keep(run_ids)
        self._watch.keep(run_ids)
        self._throttling.keep(run_ids)


def _is_former(text: str, own: RunId) -> bool:
    run = RunId.parse(text)
    return run is not None and run.is_former_of(own)


def _event_of(run_id: str, line: Over | Restarting) -> RunOver:
    return RunOver(
        run_id=run_id,
        exit_code=line.exit_code,
        summary=line.summary,
        is_begun_again=isinstance(line, Restarting),
    )
