"""A worker's status, for whoever asks: over HTTP, or over ssh with the job's key.

No key, no argument of a program and no variable of its environment is ever told. The page
docs/reference/status.md explains every field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from mpi_agent import __version__
from mpi_agent.job.events import Event
from mpi_agent.job_processes import RankUsage
from mpi_agent.observe.json_text import JsonObject, JsonValue, render_json
from mpi_agent.observe.usage import Usage
from mpi_agent.observe.worker_snapshot import OpenRun, WorkerSnapshot, advance

__all__ = ["Role", "WorkerStatus"]


class Role(Enum):
    """Who tells: the worker's own agent, or one beside a worker of somebody else's.

    The latter neither sees logins nor hears of runs.
    """

    WORKER = "worker"
    SIDECAR = "sidecar"


class WorkerStatus:
    """Keeps where a worker stands; an `EventSink`.

    Args:
        name: of the worker.
        now_s: the monotonic clock.
        look: returns what the ranks use now; called by several threads.

    Attributes:
        role: who tells.
    """

    def __init__(
        self, *, role: Role, name: str, now_s: Callable[[], float], look: Callable[[], Usage]
    ) -> None:
        self.role = role
        self._name = name
        self._now_s = now_s
        self._look = look
        self._snapshot = WorkerSnapshot(since_s=now_s())

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._snapshot = advance(self._snapshot, event, now_s=self._now_s())

    @property
    def snapshot(self) -> WorkerSnapshot:
        """Where the worker stands now."""
        return self._snapshot

    @property
    def runs(self) -> tuple[OpenRun, ...]:
        """The runs that are open now."""
        return self._snapshot.runs_at(self._now_s())

    @property
    def refusal(self) -> str | None:
        """Why the worker is not ready, None when it is."""
        snapshot = self._snapshot
        return None if snapshot.is_ready else snapshot.why

    def usage(self) -> Usage:
        """Return what the ranks use now; kills that nothing tells are those of which we heard."""
        usage = self._look()
        if usage.memory.kills is not None or not self._snapshot.kills:
            return usage
        return replace(usage, memory=replace(usage.memory, kills=self._snapshot.kills))

    def render(self, *, indent: int | None = None) -> str:
        """Return where the worker stands now, as JSON with a final newline.

        Args:
            indent: None for a single line.
        """
        snapshot, usage = self._snapshot, self.usage()
        values: JsonObject = {
            "version": __version__,
            "role": self.role.value,
            "name": self._name,
            "phase": snapshot.phase.value,
            "why": self.refusal,
            "since_s": max(0.0, self._now_s() - snapshot.since_s),
            "ssh": _ssh_values(snapshot),
            "logins": None if self.role is Role.SIDECAR else _login_values(snapshot),
            "runs": None if self.role is Role.SIDECAR else _run_values(self.runs, self._now_s()),
            "memory": _memory_values(usage),
            "ranks": [_rank_values(rank) for rank in usage.ranks],
            "notes": usage.notes,
        }
        return render_json(values, indent=indent) + "\n"


def _ssh_values(snapshot: WorkerSnapshot) -> JsonObject:
    return {
        "server": snapshot.server or None,
        "port": snapshot.port,
        "user": snapshot.user or None,
        "key_fingerprints": snapshot.key_fingerprints,
        "restarts": snapshot.restarts,
    }


def _login_values(snapshot: WorkerSnapshot) -> JsonObject:
    return {"accepted": snapshot.logins_accepted, "refused": snapshot.logins_refused}


def _run_values(runs: tuple[OpenRun, ...], now_s: float) -> JsonValue:
    return [
        {
            "run_id": run.run_id,
            "launcher": run.launcher,
            "watched": run.ends_at_s is None,
            "ends_in_s": None if run.ends_at_s is None else run.ends_at_s - now_s,
        }
        for run in runs
    ]


def _memory_values(usage: Usage) -> JsonObject:
    return {
        "used_bytes": usage.memory.used_bytes,
        "most_used_bytes": usage.memory.most_used_bytes,
        "limit_bytes": usage.memory.limit_bytes,
        "oom_kills": usage.memory.kills,
    }


def _rank_values(rank: RankUsage) -> JsonObject:
    return {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "pid": rank.pid,
        "cpu_s": rank.cpu_s,
        "memory_bytes": rank.memory_bytes,
    }
