"""Where a worker stands, as one value that each event replaces by the next.

Other threads read it: whoever holds it never sees half an event. A worker that was told to end
stays draining, whatever its ssh server does then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import (
    LauncherGone,
    LoginAccepted,
    LoginRefused,
    MemoryExceeded,
    RunBegan,
    RunOver,
    SshServerEnded,
    WorkerDraining,
    WorkerNotReady,
    WorkerReady,
)

__all__ = ["OpenRun", "WorkerPhase", "WorkerSnapshot", "advance"]

_NOT_YET = "its ssh server has not answered yet"


class WorkerPhase(Enum):
    """What the worker is doing."""

    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not-ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that began here and is not over.

    Attributes:
        ends_at_s: monotonic time at which its processes are ended, because its launcher is gone;
            None while that is heard of.
    """

    run_id: str
    launcher: str
    ends_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSnapshot:
    """Where the worker stands.

    Attributes:
        why: it is not ready; empty when it is.
        since_s: monotonic time of the change to this phase.
        server: what the ssh server is; empty before it ever was ready, as are the next three.
        restarts: how often the ssh server was started anew.
        kills: processes that the kernel killed for their memory, as far as events told it.
        begun: runs that nobody has called over; see `runs_at`.
    """

    since_s: float
    phase: WorkerPhase = WorkerPhase.STARTING
    why: str = _NOT_YET
    server: str = ""
    port: int | None = None
    user: str = ""
    key_fingerprints: tuple[str, ...] = ()
    logins_accepted: int = 0
    logins_refused: int = 0
    restarts: int = 0
    kills: int = 0
    begun: tuple[OpenRun, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the worker lets its launcher in."""
        return self.phase is WorkerPhase.READY

    def runs_at(self, now_s: float) -> tuple[OpenRun, ...]:
        """Return the runs that are open: one whose launcher did not come back in time is over."""
        return tuple(run for run in self.begun if run.ends_at_s is None or run.ends_at_s > now_s)


def advance(snapshot: WorkerSnapshot, event: Event, *, now_s: float) -> WorkerSnapshot:
    """Return where the worker stands after an event; the same value when it changes nothing."""
    match event:
        case WorkerReady(server=server, port=port, user=user, key_fingerprints=keys):
            known = replace(snapshot, server=server, port=port, user=user, key_fingerprints=keys)
            return _enter(known, WorkerPhase.READY, "", now_s)
        case WorkerNotReady(why=why):
            return _enter(snapshot, WorkerPhase.NOT_READY, why, now_s)
        case WorkerDraining(signal_name=name):
            return _enter(snapshot, WorkerPhase.DRAINING, f"it is draining after {name}", now_s)
        case SshServerEnded(restart_in_s=restart_in_s) if restart_in_s is not None:
            return replace(snapshot, restarts=snapshot.restarts + 1)
        case LoginAccepted():
            return replace(snapshot, logins_accepted=snapshot.logins_accepted + 1)
        case LoginRefused():
            return replace(snapshot, logins_refused=snapshot.logins_refused + 1)
        case MemoryExceeded(kills=kills):
            return replace(snapshot, kills=snapshot.kills + kills)
        case RunBegan(run_id=run_id, launcher=launcher):
            return _with_run(snapshot, OpenRun(run_id=run_id, launcher=launcher))
        case LauncherGone(run_id=run_id, launcher=launcher, ends_in_s=ends_in_s):
            ends_at_s = now_s + ends_in_s
            return _with_run(
                snapshot, OpenRun(run_id=run_id, launcher=launcher, ends_at_s=ends_at_s)
            )
        case RunOver(run_id=run_id):
            return replace(snapshot, begun=_others(snapshot, run_id))
    return snapshot


def _enter(snapshot: WorkerSnapshot, phase: WorkerPhase, why: str, now_s: float) -> WorkerSnapshot:
    """Return the snapshot in a phase; the time is kept where only the reason is another one."""
    if snapshot.phase is WorkerPhase.DRAINING:
        return snapshot
    since_s = snapshot.since_s if snapshot.phase is phase else now_s
    return replace(snapshot, phase=phase, why=why, since_s=since_s)


def _with_run(snapshot: WorkerSnapshot, run: OpenRun) -> WorkerSnapshot:
    """Return the snapshot with a run, in place of what it knew of it."""
    return replace(snapshot, begun=(*_others(snapshot, run.run_id), run))


def _others(snapshot: WorkerSnapshot, run_id: str) -> tuple[OpenRun, ...]:
    return tuple(run for run in snapshot.begun if run.run_id != run_id)
