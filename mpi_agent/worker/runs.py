"""Which runs a worker has heard of, and when one of them belongs to nobody any more.

A run begins when its launcher says `watch`, and is held by that conversation. What happens to it
then is decided here; whoever calls says what he saw, and when.

    state      watch again  a word      conversation lost  over, or nobody's  all gone   some left
    watched    watched      last heard  unwatched          ending             -          -
    unwatched  watched      -           -                  ending             -          -
    ending     watched      -           -                  ending             forgotten  stuck
    stuck      watched      -           -                  stuck              forgotten  stuck

One clock decides, the last word of the launcher: a run expires when it is older than the lease,
whether the conversation was lost or has only fallen silent. That a connection breaks is no word,
so a network that is cut for long and then breaks buys no second lease. A launcher that comes back
in time renews its run under the same run id; the newest conversation holds it, and the end of an
older one says nothing any more. It may even come back while the run is being ended: then it is
watched again, and what was ended is ended. A run is stuck when one whole attempt has left something
of it: it is open and still being ended, and whoever only waits for the end of jobs need not wait.

A run is nobody's for a launcher that asks when no conversation holds it, or when the run's
launcher has the asker's name and another container: that one was restarted, and its former life
cannot come back, however open its connection looks. Runs of another launcher that is connected are
left alone: two launches at a time are legal. A run that no launcher ever spoke of here can be
found by its processes; it is nobody's.

A worker that did not run for a while (its machine or container was frozen) has heard nobody in
that time, which is not the launchers' fault: `excuse` moves every last word by that time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpi_agent.ssh.worker_words import LauncherId

__all__ = ["Run", "Runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, from its first `watch` until nothing of it is left.

    Attributes:
        watcher: number of the conversation that holds it; None when it was lost.
        heard_at_s: when the launcher last said a word.
        is_ending: its processes are being ended.
        is_stuck: they were to end once already, and did not all go.
    """

    run_id: str
    launcher: LauncherId
    watcher: int | None
    heard_at_s: float
    is_ending: bool = False
    is_stuck: bool = False

    def expires_at_s(self, lease_s: float) -> float:
        """Return when the run is nobody's, unless its launcher is heard before."""
        return self.heard_at_s + lease_s

    def is_nobodys(self, asker: LauncherId | None) -> bool:
        """Return whether an asker may end the run; None asks for no launcher."""
        if self.watcher is None or self.is_ending:
            return True
        return (
            asker is not None
            and asker.name == self.launcher.name
            and asker.container != self.launcher.container
        )


class Runs:
    """Every run that has begun and is not forgotten yet, in the order in which they began."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    @property
    def open(self) -> tuple[Run, ...]:
        """The runs of which something may be left."""
        return tuple(self._runs.values())

    def begin(self, run_id: str, launcher: LauncherId, *, watcher: int, at_s: float) -> bool:
        """Let a conversation hold a run; return whether the run is new here."""
        is_new = run_id not in self._runs
        self._runs[run_id] = Run(run_id=run_id, launcher=launcher, watcher=watcher, heard_at_s=at_s)
        return is_new

    def found(self, run_id: str, launcher: LauncherId, *, at_s: float) -> None:
        """Take in a run that nobody holds; one that is known stays what it is."""
        run = Run(run_id=run_id, launcher=launcher, watcher=None, heard_at_s=at_s)
        self._runs.setdefault(run_id, run)

    def heard(self, run_id: str, *, watcher: int, at_s: float) -> None:
        """Renew the lease, if it is the conversation that holds the run which speaks."""
        run = self._held(run_id, watcher)
        if run is not None:
            self._runs[run_id] = replace(run, heard_at_s=max(at_s, run.heard_at_s))

    def unwatched(self, run_id: str, *, watcher: int) -> Run | None:
        """Return the run that nobody holds now; None when another conversation holds it."""
        run = self._held(run_id, watcher)
        if run is None:
            return None
        self._runs[run_id] = replace(run, watcher=None)
        return self._runs[run_id]

    def ending(self, *run_ids: str) -> tuple[Run, ...]:
        """Let go of runs whose processes are about to be ended; return those that are known."""
        known = tuple(self._runs[run_id] for run_id in run_ids if run_id in self._runs)
        for run in known:
            self._runs[run.run_id] = replace(run, watcher=None, is_ending=True)
        return known

    def still_ending(self, *run_ids: str) -> tuple[str, ...]:
        """Return those runs that are not watched again."""
        return tuple(r for r in run_ids if r in self._runs and self._runs[r].is_ending)

    def stuck(self, *run_ids: str) -> None:
        """Note that something of runs is left, except of those that are watched again."""
        for run_id in self.still_ending(*run_ids):
            self._runs[run_id] = replace(self._runs[run_id], is_stuck=True)

    def over(self, *run_ids: str) -> None:
        """Forget runs of which nothing is left, except those that are watched again."""
        for run_id in self.still_ending(*run_ids):
            del self._runs[run_id]

    def expired(self, *, at_s: float, lease_s: float | None) -> tuple[Run, ...]:
        """Return the runs whose launcher was not heard for the lease; None is for ever."""
        if lease_s is None:
            return ()
        return tuple(run for run in self._alive() if run.expires_at_s(lease_s) <= at_s)

    def next_expiry_s(self, lease_s: float | None) -> float | None:
        """Return when the next run expires, unless it is renewed; None when none can."""
        if lease_s is None:
            return None
        return min((run.expires_at_s(lease_s) for run in self._alive()), default=None)

    def nobodys(self, asker: LauncherId | None) -> tuple[Run, ...]:
        """Return the runs that an asker may end, those that are being ended among them."""
        return tuple(run for run in self.open if run.is_nobodys(asker))

    def excuse(self, by_s: float) -> None:
        """Move every last word on by the time in which this worker could not listen."""
        for run in self._alive():
            self._runs[run.run_id] = replace(run, heard_at_s=run.heard_at_s + by_s)

    def _held(self, run_id: str, watcher: int) -> Run | None:
        run = self._runs.get(run_id)
        return run if run is not None and run.watcher == watcher else None

    def _alive(self) -> tuple[Run, ...]:
        return tuple(run for run in self.open if not run.is_ending)
