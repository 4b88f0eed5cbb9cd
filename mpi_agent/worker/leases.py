"""Holds the runs of a worker and ends their processes when their time is up.

`worker.runs` decides which those are; here are the clock, the processes, the events, and the file
that stands in the state directory while a run is open: a login of the next launcher sees it without
a call, and knows that there may be something to clean up.

How they are ended, and what becomes of those that will not go, stands in `worker.leftovers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

from mpi_agent.errors import StateDirectoryError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.worker_events import LauncherGone, RunBegan
from mpi_agent.process_signals import Ended
from mpi_agent.ssh.worker_protocol import RUN_MARK
from mpi_agent.ssh.worker_words import LauncherId
from mpi_agent.state import StateDirectory
from mpi_agent.worker.leftovers import EndRuns, Leftovers
from mpi_agent.worker.runs import Run, Runs

__all__ = ["Leases"]

_TICKS_A_LEASE = 8
_SHORTEST_FREEZE_S = 1.0
_GRACE_S = 3.0
_GRACE_AFTER_MPIRUN_S = 1.0
"""Where the launcher says that its program is over: mpirun is gone, and what ranks may need to end
they had before. After a stop the launcher itself waits three seconds for its workers, so TERM, KILL
and the answer must fit into them.
"""
_UNKNOWN = LauncherId(name="unknown", container="")
"""of a run that no launcher ever spoke of"""


class Leases:
    """The runs that are open on this worker, while `serve` runs.

    Args:
        lease_s: how long ranks live without a word of their launcher; None for ever.
        end_runs: see `EndRuns`.
        let_go: is told a run that somebody still holds and may not hold any more.
        changed: is called when something was ended, or will not go.
    """

    def __init__(
        self,
        *,
        state: StateDirectory,
        lease_s: float | None,
        end_runs: EndRuns,
        let_go: Callable[[Run], None],
        changed: Callable[[], None],
        emit: EventSink,
    ) -> None:
        self._state = state
        self._lease_s = lease_s
        self._let_go = let_go
        self._changed = changed
        self._emit = emit
        self._runs = Runs()
        self._leftovers = Leftovers(
            self._runs, end_runs=end_runs, changed=self._ended_some, emit=emit
        )
        self._began = asyncio.Event()
        self._trouble_with_mark = ""

    @property
    def are_open(self) -> bool:
        """Whether something of a run may be left."""
        return bool(self._runs.open)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Of the runs of which something may be left."""
        return tuple(run.run_id for run in self._runs.open)

    @property
    def are_busy(self) -> bool:
        """Whether a run goes on, or is being ended and may soon have gone."""
        return any(not run.is_stuck for run in self._runs.open)

    async def serve(self, group: asyncio.TaskGroup) -> None:
        """End the runs of launchers that were not heard for the lease, until cancelled."""
        self._group = group
        if self._lease_s is None:
            await asyncio.Event().wait()
            return
        now_s, tick_s = asyncio.get_running_loop().time, self._lease_s / _TICKS_A_LEASE
        while True:
            if not self.are_open:
                self._began.clear()
                await self._began.wait()
            next_s = self._runs.next_expiry_s(self._lease_s)
            pause_s = tick_s if next_s is None else min(tick_s, max(0.0, next_s - now_s()))
            due_s = now_s() + pause_s
            await asyncio.sleep(pause_s)
            frozen_s = now_s() - due_s
            if frozen_s > max(tick_s, _SHORTEST_FREEZE_S):
                self._runs.excuse(frozen_s)
            self._end_expired(now_s(), self._lease_s)

    def begin(self, run_id: str, launcher: LauncherId, *, watcher: int) -> bool:
        """Let a conversation hold a run; return whether the run is new here."""
        now_s = asyncio.get_running_loop().time()
        is_new = self._runs.begin(run_id, launcher, watcher=watcher, at_s=now_s)
        self._began.set()
        self._mark()
        if is_new:
            self._emit(RunBegan(run_id=run_id, launcher=launcher.name))
        return is_new

    def heard(self, run_id: str, *, watcher: int) -> None:
        """Renew a lease."""
        now_s = asyncio.get_running_loop().time()
        self._runs.heard(run_id, watcher=watcher, at_s=now_s)

    def lost(self, run_id: str, *, watcher: int) -> None:
        """Note that a conversation broke; the lease counts on."""
        run = self._runs.unwatched(run_id, watcher=watcher)
        if run is None:
            return
        name = run.launcher.name
        if self._lease_s is None:
            self._emit(Noted(text=f'launcher "{name}" is gone; its ranks may go on for ever'))
            return
        left_s = max(0.0, run.expires_at_s(self._lease_s) - asyncio.get_running_loop().time())
        self._emit(LauncherGone(run_id=run_id, launcher=name, ends_in_s=left_s))

    async def over(self, run_id: str) -> Ended | None:
        """End what a run left behind; return once it is gone, or was told to go and did not.

        The answer is None when it could not even be told.
        """
        runs = self._runs.ending(run_id)
        return await self._end(runs, "the job is over", grace_s=_GRACE_AFTER_MPIRUN_S)

    def take_in(self, run_ids: Iterable[str]) -> None:
        """Count runs as nobody's whose processes are here though no launcher spoke of them."""
        now_s = asyncio.get_running_loop().time()
        for run_id in run_ids:
            self._runs.found(run_id, _UNKNOWN, at_s=now_s)
        self._began.set()
        self._mark()

    async def clean(self, asker: LauncherId | None) -> Ended | None:
        """End what belongs to nobody, as far as an asker may say so.

        The answer comes once it is gone, or was told to go and did not; it is None when it could
        not even be told.
        """
        runs = self._runs.nobodys(asker)
        self._declare_gone(run for run in runs if not run.is_ending)
        return await self._end(runs, "their launcher is gone and another one starts")

    def _end_expired(self, at_s: float, lease_s: float) -> None:
        runs = self._runs.expired(at_s=at_s, lease_s=lease_s)
        # of those that were lost this end was told then
        self._declare_gone(run for run in runs if run.watcher is not None)
        for run in self._runs.ending(*(run.run_id for run in runs)):
            why = f'launcher "{run.launcher.name}" was not heard for {lease_s:g} s'
            self._group.create_task(self._end((run,), why))

    def _declare_gone(self, runs: Iterable[Run]) -> None:
        """Tell that runs end now, and let go of those whose connection is still open."""
        for run in runs:
            name = run.launcher.name
            self._emit(LauncherGone(run_id=run.run_id, launcher=name, ends_in_s=0.0))
            if run.watcher is not None:
                self._let_go(run)

    async def _end(
        self, runs: tuple[Run, ...], why: str, *, grace_s: float = _GRACE_S
    ) -> Ended | None:
        return await self._leftovers.end(runs, why, grace_s=grace_s, group=self._group)

    def _ended_some(self) -> None:
        self._mark()
        self._changed()

    def _mark(self) -> None:
        """Let the file say whether a run is open; where it cannot, that is said once."""
        mark = self._state.file(RUN_MARK)
        if not self.are_open:
            with contextlib.suppress(OSError):
                mark.unlink()
        elif not os.path.exists(mark):  # which never fails
            try:
                self._state.write(RUN_MARK, f"{os.getpid()}\n")
            except StateDirectoryError as error:
                if error.summary != self._trouble_with_mark:
                    self._trouble_with_mark = error.summary
                    self._emit(Noted(text=f"{error.summary}; the next launcher cannot clean up"))
