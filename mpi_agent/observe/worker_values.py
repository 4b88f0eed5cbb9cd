"""What happens on a worker as values for machines; the keys are public: added, never changed."""

from __future__ import annotations

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import (
    LauncherGone,
    LoginAccepted,
    LoginRefused,
    MemoryExceeded,
    RanksEnded,
    RunBegan,
    RunOver,
    SshServerEnded,
    SshServerSpoke,
    WorkerDrained,
    WorkerDraining,
    WorkerEvicted,
    WorkerExceededMemory,
    WorkerNotReady,
    WorkerReady,
)
from mpi_agent.observe.json_text import JsonObject

__all__ = ["is_worth_a_warning", "worker_event_values"]


def worker_event_values(event: Event) -> JsonObject:
    """Return the own values of an event of a worker or about one; empty for any other."""
    match event:
        case WorkerReady(server=server, port=port, user=user, key_fingerprints=keys):
            return {"server": server, "port": port, "user": user, "key_fingerprints": keys}
        case WorkerNotReady(why=why):
            return {"why": why}
        case SshServerEnded(why=why, restart_in_s=restart_in_s):
            return {"why": why, "restart_in_s": restart_in_s}
        case SshServerSpoke(line=line):
            return {"line": line}
        case LoginAccepted(user=user, peer=peer, key_fingerprint=key):
            return {"user": user, "peer": peer, "key_fingerprint": key or None}
        case LoginRefused(user=user, peer=peer, why=why):
            return {"user": user or None, "peer": peer or None, "why": why}
        case WorkerEvicted(host=host, signal_name=name, grace_s=grace_s):
            return {"host": host, "signal": name, "grace_s": grace_s}
        case WorkerExceededMemory(host=host):
            return {"host": host, **_memory_values(event)}
        case _:
            return _run_event_values(event)


def _run_event_values(event: Event) -> JsonObject:
    """Return the values of what becomes of the processes of a run."""
    match event:
        case RunBegan(run_id=run_id, launcher=launcher):
            return {"run_id": run_id, "launcher": launcher}
        case RunOver(run_id=run_id, exit_code=exit_code):
            return {
                "run_id": run_id,
                "exit_code": exit_code,
                "summary": event.summary or None,
                "is_begun_again": event.is_begun_again,
            }
        case LauncherGone(run_id=run_id, launcher=launcher, ends_in_s=ends_in_s):
            return {"run_id": run_id, "launcher": launcher, "ends_in_s": ends_in_s}
        case RanksEnded(why=why, count=count, killed=killed):
            return {"why": why, "count": count, "killed": killed}
        case MemoryExceeded():
            return _memory_values(event)
        case WorkerDraining(signal_name=name, drain_signal_name=passed):
            return {
                "signal": name,
                "drain_signal": passed,
                "ranks": event.ranks,
                "grace_s": event.grace_s,
            }
        case WorkerDrained(took_s=took_s, killed=killed):
            return {"took_s": took_s, "killed": killed}
    return {}


def _memory_values(event: MemoryExceeded | WorkerExceededMemory) -> JsonObject:
    return {
        "kills": event.kills,
        "used_bytes": event.used_bytes,
        "limit_bytes": event.limit_bytes,
    }


def is_worth_a_warning(event: Event) -> bool:
    """Return whether somebody should look at what happened, not only read about it."""
    match event:
        case WorkerDraining(ranks=count) | WorkerDrained(killed=count):
            return count > 0
    return isinstance(
        event,
        WorkerNotReady
        | SshServerEnded
        | LoginRefused
        | LauncherGone
        | RanksEnded
        | MemoryExceeded
        | WorkerEvicted
        | WorkerExceededMemory,
    )
