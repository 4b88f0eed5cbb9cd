"""Ends the processes of runs, again and again until nothing is left of them.

Most go at once. What the kernel holds, what belongs to another account, and what cannot even be
looked for because this container has no file descriptor left is tried again, ever less often: its
run stays open meanwhile, so that the next launcher's login sees that there is something to ask for.

Whoever asks waits for one whole attempt and no longer, the one that goes on or the next, which he
brings about at once. Processes are ended on behalf of a run, not of whoever asked for it: that goes
on when he goes away, and whoever asks meanwhile waits for the same attempt.

Nothing that goes wrong here may end the worker, and with it the ranks of everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.worker_events import RanksEnded
from mpi_agent.process_signals import Ended
from mpi_agent.worker.runs import Run, Runs

__all__ = ["EndRuns", "Leftovers"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class EndRuns(Protocol):
    """Ends every process of runs."""

    async def __call__(self, run_ids: tuple[str, ...], why: str, /, *, grace_s: float) -> Ended:
        """Return when they are gone or will not go, soon after the grace."""


class Leftovers:
    """What is being ended on this worker.

    Args:
        changed: is called when runs were forgotten, and when it turns out that they stay.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        end_runs: EndRuns,
        changed: Callable[[], None],
        emit: EventSink,
    ) -> None:
        self._runs = runs
        self._end_runs = end_runs
        self._changed = changed
        self._emit = emit
        self._endings: dict[str, _Ending] = {}

    async def end(
        self, runs: tuple[Run, ...], why: str, *, grace_s: float, group: asyncio.TaskGroup
    ) -> Ended | None:
        """Return how one whole attempt to end runs went, None when it could not be made.

        Args:
            grace_s: between TERM and KILL; what is being ended already keeps its own.
            group: which goes on trying.
        """
        run_ids = tuple(run.run_id for run in self._runs.ending(*(run.run_id for run in runs)))
        if fresh := tuple(run_id for run_id in run_ids if run_id not in self._endings):
            ending = _Ending(fresh, why, grace_s)
            self._endings.update(dict.fromkeys(fresh, ending))
            group.create_task(self._end_until_gone(ending))
        outcomes = await asyncio.gather(
            *(ending.next_outcome() for ending in {self._endings[run_id] for run_id in run_ids})
        )
        ended = [outcome for outcome in outcomes if outcome is not None]
        if len(ended) < len(outcomes):
            return None
        return Ended(
            count=sum(one.count for one in ended),
            killed=sum(one.killed for one in ended),
            left=sum(one.left for one in ended),
        )

    async def _end_until_gone(self, ending: _Ending) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            outcome = await self._attempt(ending)
            if is_done := outcome is not None and not outcome.left:
                self._forget(ending, ())
                self._runs.over(*ending.run_ids)
            else:
                self._runs.stuck(*ending.run_ids)
            self._changed()
            ending.tell(outcome)
            if is_done:
                return
            await ending.pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            ending.run_ids = self._forget(ending, self._runs.still_ending(*ending.run_ids))

    def _forget(self, ending: _Ending, kept: tuple[str, ...]) -> tuple[str, ...]:
        """Let go of an ending's runs but for some; a launcher that came back keeps what is left."""
        for run_id in ending.run_ids:
            if run_id not in kept:
                del self._endings[run_id]
        return kept

    async def _attempt(self, ending: _Ending) -> Ended | None:
        """Return how it went, None when it could not be made."""
        run_ids = ending.run_ids
        if not run_ids:
            return Ended(count=0, killed=0)
        try:
            ended = await self._end_runs(run_ids, ending.why, grace_s=ending.grace_s)
        except Exception as error:  # whatever is wrong: see the module's last rule
            self._note_once(ending, f"cannot end the processes of {_shown(run_ids)}: {_why(error)}")
            return None
        if ended.gone:
            self._emit(RanksEnded(why=ending.why, count=ended.gone, killed=ended.killed))
        if ended.left:
            many = "1 process" if ended.left == 1 else f"{ended.left} processes"
            why = "still there after KILL, held by the kernel or of another account"
            self._note_once(ending, f"cannot end {many} of {_shown(run_ids)}: {why}")
        return ended

    def _note_once(self, ending: _Ending, sentence: str) -> None:
        if sentence not in ending.told:
            ending.told.add(sentence)
            self._emit(Noted(text=f"{sentence}; it is tried again"))


class _Ending:
    """Runs that end together, attempt by attempt.

    Attributes:
        told: sentences that were said about it.
    """

    def __init__(self, run_ids: tuple[str, ...], why: str, grace_s: float) -> None:
        self.run_ids = run_ids
        self.why = why
        self.grace_s = grace_s
        self.told: set[str] = set()
        self._outcome: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()
        self._is_asked = asyncio.Event()

    def next_outcome(self) -> asyncio.Future[Ended | None]:
        """Return how the attempt will have gone that goes on, or that follows at once."""
        self._is_asked.set()
        return asyncio.shield(self._outcome)

    def tell(self, outcome: Ended | None) -> None:
        """Answer whoever waits for this attempt."""
        self._is_asked.clear()
        outcome_before, self._outcome = self._outcome, asyncio.get_running_loop().create_future()
        outcome_before.set_result(outcome)

    async def pause(self, limit_s: float) -> None:
        """Return at the limit, or when somebody asks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._is_asked.wait()


def _shown(run_ids: tuple[str, ...]) -> str:
    return " ".join(f"run_id={run_id}" for run_id in run_ids)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
