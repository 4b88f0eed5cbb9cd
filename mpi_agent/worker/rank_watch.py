"""Looks at the ranks of open runs, and tells their launchers what has changed.

A worker without a run does not look. Of ranks that are known their end is heard at once; looks find
new ones, and what could not be heard. A rank that ends before a look has found it is never heard
of, so they come ten times a second until a run's ranks are there, within its first half minute, and
for a moment after any new one: a quarter of a CPU's time at most. Then they come every two seconds,
less often where one look takes long: never more than a fiftieth of a CPU's time.

Source: MPICH 5.0.2, a rank that ends with code 7 at once or 0.3 s after MPI_Init: with a look a
second 8 of 12 were not seen and mpirun hung; with ten 6 of 6 were seen, 2026-11-30.

Nothing is told of what a look does not show: after a worker was frozen the next look tells what
there is then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from typing import Protocol

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job_processes import JobProcess
from mpi_agent.process_table import ProcessKey
from mpi_agent.ssh.worker_words import Line
from mpi_agent.worker.process_ends import ProcessEnd, ProcessEnds
from mpi_agent.worker.rank_changes import RankChanges
from mpi_agent.worker.ranks import count_daemons

__all__ = ["RankWatch"]

_STARTING_PACE_S, _PACE_S = 0.1, 2.0
_STARTING_S = 30.0
_MORE_RANKS_S = 2.0
"""after a rank was seen first, in which its neighbours come, and those that fail at once end"""
_SOON_S = 0.1
_LOOKS_A_STARTING_LOOK, _LOOKS_A_LOOK = 3, 50
"""Of the time that a look takes, the pause behind it."""


class Looked(Protocol):
    """Is told what a look at a run has shown."""

    def __call__(self, run_id: str, processes: tuple[JobProcess, ...], /, *, is_last: bool) -> None:
        """Take the live processes of a run."""


class RankWatch:
    """Every open run's ranks.

    Args:
        find: returns the live processes of all runs.
        tell: is told a run's id and what its launcher must hear.
        looked: is told a run's id and its processes after each look, and whether it was the last.
    """

    def __init__(
        self,
        *,
        find: Callable[[], tuple[JobProcess, ...]],
        tell: Callable[[str, Line], None],
        looked: Looked,
        emit: EventSink,
    ) -> None:
        self._find = find
        self._tell = tell
        self._looked = looked
        self._emit = emit
        self._runs: dict[str, RankChanges] = {}
        self._ends = ProcessEnds(self._ended)
        self._wake = asyncio.Event()
        self._starting_until_s = self._more_until_s = 0.0
        self._trouble: set[str] = set()

    def begin(self, run_id: str) -> None:
        """Look at a run from now on; one that is known already has its launcher back."""
        changes = self._runs.get(run_id)
        if changes is None:
            self._runs[run_id] = RankChanges()
            self._starting_until_s = time.monotonic() + _STARTING_S
            self._wake.set()
        else:
            self._tell_all(run_id, changes.presence(is_asked=True))

    def last_look(self, run_id: str) -> None:
        """Tell what is to be told of a run before anything of it is ended, and look no more."""
        if run_id in self._runs:
            self._look(last=run_id)
        self._forget(run_id)

    def keep(self, run_ids: Collection[str]) -> None:
        """Look at no other runs any more."""
        for run_id in tuple(self._runs):
            if run_id not in run_ids:
                self._forget(run_id)

    async def serve(self) -> None:
        """Look again and again while a run is open, until cancelled."""
        try:
            while True:
                while not self._runs:
                    self._wake.clear()
                    await self._wake.wait()
                began_s = time.monotonic()
                self._look()
                await self._pause(time.monotonic() - began_s)
        finally:
            self._ends.close()

    def _forget(self, run_id: str) -> None:
        changes = self._runs.pop(run_id, None)
        for key in () if changes is None else changes.keys:
            self._ends.forget(key)

    async def _pause(self, look_s: float) -> None:
        """Return when it is time for the next look; soon after a rank has ended."""
        is_starting = self._is_starting(time.monotonic())
        pace_s = _STARTING_PACE_S if is_starting else _PACE_S
        least_s = (_LOOKS_A_STARTING_LOOK if is_starting else _LOOKS_A_LOOK) * look_s
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(pace_s, least_s)):
                await self._wake.wait()
                await asyncio.sleep(max(_SOON_S, least_s))

    def _is_starting(self, now_s: float) -> bool:
        """Return whether ranks are to come, or others than those that came just now."""
        is_awaited = not all(changes.has_ranks for changes in self._runs.values())
        return now_s < self._more_until_s or (is_awaited and now_s < self._starting_until_s)

    def _look(self, *, last: str | None = None) -> None:
        """Look once; a look that fails is told once for each reason, and the next one is made."""
        try:
            found = self._find()
            for run_id in tuple(self._runs):
                processes = tuple(one for one in found if one.run_id == run_id)
                self._compare(run_id, processes)
                self._looked(run_id, processes, is_last=run_id == last)
        except Exception as error:  # whatever is wrong, the worker and its ranks go on
            why = f"{type(error).__name__}: {error}"
            if why not in self._trouble:
                self._trouble.add(why)
                self._emit(Noted(text=f"cannot look at the ranks: {why}; it is tried again"))

    def _compare(self, run_id: str, processes: tuple[JobProcess, ...]) -> None:
        changes = self._runs[run_id]
        before = frozenset(changes.keys)
        daemons = count_daemons(processes)
        lines = changes.looked(processes, daemons=daemons, end_of=self._ends.end_of)
        for key in before.difference(changes.keys):
            self._ends.forget(key)
        for key in changes.keys:
            self._ends.add(key)
        if not before.issuperset(changes.keys):
            self._more_until_s = time.monotonic() + _MORE_RANKS_S
        self._tell_all(run_id, lines)

    def _ended(self, key: ProcessKey, end: ProcessEnd) -> None:
        for run_id, changes in tuple(self._runs.items()):
            if lines := changes.ended(key, end):
                self._tell_all(run_id, lines)
                self._wake.set()

    def _tell_all(self, run_id: str, lines: tuple[Line, ...]) -> None:
        for line in lines:
            self._tell(run_id, line)
