"""What happens on a worker in words for people; the launcher's lines name the worker."""

from __future__ import annotations

from mpi_agent.job.amounts import render_memory
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

__all__ = ["render_worker_event"]


def render_worker_event(event: Event) -> str | None:
    """Return the line for an event of a worker or about one, None for any other."""
    match event:
        case WorkerReady(server=server, port=port, user=user, key_fingerprints=keys):
            account = f" user={user}" if user else ""
            known = f" key={','.join(keys)}" if keys else ""
            return f"became ready server={server} port={port}{account}{known}"
        case WorkerNotReady(why=why):
            return f"not ready: {why}"
        case SshServerEnded(why=why, restart_in_s=restart_in_s):
            then = "given up" if restart_in_s is None else f"restarting it in {restart_in_s:.3g} s"
            return f"the ssh server ended: {why}; {then}"
        case SshServerSpoke(line=line):
            return f"the ssh server said: {line}"
        case LoginAccepted(key_fingerprint=key):
            known = f" key={key}" if key else ""
            return f"accepted a login {_who(event)}{known}"
        case LoginRefused(why=why):
            return f"refused a login {_who(event)}: {why}"
        case WorkerEvicted(host=host, signal_name=name, grace_s=grace_s):
            return f"{host} is being evicted: received {name}, its ranks have {grace_s:g} s"
        case WorkerExceededMemory(host=host):
            return f"{host} is out of memory: {_killed(event)}"
        case _:
            return _render_run_event(event)


def _render_run_event(event: Event) -> str | None:
    """Return the line for what becomes of the processes of a run."""
    match event:
        case RunBegan(run_id=run_id, launcher=launcher):
            return f"a run began run_id={run_id} launcher={launcher}"
        case RunOver(run_id=run_id, exit_code=code):
            then = "; it is begun again" if event.is_begun_again else ""
            how = f": {event.summary}" if event.summary else ""
            return f"a run ended run_id={run_id} code={code}{then}{how}"
        case LauncherGone(run_id=run_id, launcher=launcher, ends_in_s=ends_in_s):
            when = f" in {ends_in_s:g} s unless it comes back" if ends_in_s > 0 else ""
            return f"launcher={launcher} of run_id={run_id} is gone: its processes end{when}"
        case RanksEnded(why=why, count=count, killed=killed):
            return f"ended {_processes(count)}, killed={killed}: {why}"
        case MemoryExceeded():
            return f"out of memory: {_killed(event)}"
        case WorkerDraining():
            return (
                f"received {event.signal_name}: not ready any more,"
                f" sent {event.drain_signal_name} to ranks={event.ranks} grace_s={event.grace_s:g}"
            )
        case WorkerDrained(took_s=took_s, killed=killed) if killed:
            return f"killed {_processes(killed)} after {took_s:.1f} s: nothing of any job is left"
        case WorkerDrained(took_s=took_s):
            return f"drained in {took_s:.1f} s: nothing of any job is left"
    return None


def _who(event: LoginAccepted | LoginRefused) -> str:
    return f"user={event.user or '-'} peer={event.peer or '-'}"


def _killed(event: MemoryExceeded | WorkerExceededMemory) -> str:
    amount = render_memory(event.used_bytes, event.limit_bytes)
    return f"the kernel killed {_processes(event.kills)}" + (f", {amount}" if amount else "")


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
