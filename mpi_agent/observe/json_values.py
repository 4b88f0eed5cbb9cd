"""Events and reports as values for machines; the keys are public: added, never changed.

Times are durations in seconds, because the clock behind them has no date.
"""

from __future__ import annotations

from mpi_agent.job.events import (
    Event,
    HostAdvanced,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    Noted,
    ProgramStarted,
    SignalReceived,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.observe.json_text import JsonObject
from mpi_agent.observe.run_values import run_event_values
from mpi_agent.observe.tally import outcome_name, tally
from mpi_agent.observe.worker_values import worker_event_values

__all__ = ["event_values", "host_values", "report_values"]


def event_values(event: Event) -> JsonObject:
    """Return an event's own values; empty for one that is not written as JSON."""
    match event:
        case Noted(text=text):
            return {"text": text}
        case ProgramStarted(argv=argv, pid=pid, np=np, host_count=host_count):
            return {"argv": argv, "pid": pid, "np": np, "hosts_total": host_count}
        case SignalReceived(name=name, action=action):
            return {"signal": name, "action": action}
        case _:
            return (
                _hosts_event_values(event) or run_event_values(event) or worker_event_values(event)
            )


def _hosts_event_values(event: Event) -> JsonObject:
    match event:
        case HostsDiscovered(hosts=hosts):
            return _host_list_values(hosts)
        case HostsChanged(hosts=hosts, added=added, removed=removed):
            return {**_host_list_values(hosts), "added": added, "removed": removed}
        case WaitStarted(names=names, timeout_s=timeout_s):
            return {"hosts_total": len(names), "timeout_s": timeout_s, "hosts": names}
        case HostAdvanced(host=host):
            return _standing_values(host)
        case WaitProgressed(report=report) | HostsReady(report=report):
            waiting_for = tuple(host.host for host in report.laggards)
            return {**report_values(report), "waiting_for": waiting_for}
    return {}


def _host_list_values(hosts: HostList) -> JsonObject:
    return {
        "hosts_total": len(hosts.hosts),
        "slots": hosts.total_slots,
        "source": hosts.source,
        "hosts": hosts.names,
    }


def report_values(report: ReadinessReport, *, more_s: float = 0.0) -> JsonObject:
    """Return the counts of a report, without its hosts.

    Args:
        more_s: seconds for which the wait has gone on since the report.
    """
    counts = tally(report)
    total = len(report.hosts)
    return {
        "ready": report.is_ready,
        "hosts_ready": report.ready_count,
        "hosts_needed": report.wanted,
        "hosts_total": total,
        "elapsed_s": report.elapsed_s + more_s,
        "timeout_s": report.timeout_s,
        "stages": dict(counts.by_stage),
        "obstacles": {
            "not_asked" if obstacle is None else outcome_name(obstacle): count
            for obstacle, count in counts.by_obstacle
        },
    }


def host_values(host: HostReadiness, *, at_s: float) -> JsonObject:
    """Return where one host stands.

    Args:
        at_s: monotonic time from which the durations look back.
    """
    hindered_s = None if host.obstacle is None else max(0.0, at_s - host.hindered_since_s)
    return {
        **_standing_values(host),
        "since_s": max(0.0, at_s - host.since_s),
        "hindered_s": hindered_s,
        "notes": host.notes,
    }


def _standing_values(host: HostReadiness) -> JsonObject:
    failure = None if host.is_ready else host.last_failure
    return {
        "name": host.host,
        "ready": host.is_ready,
        "stage": host.stage.name.lower(),
        "attempts": host.attempts,
        "address": host.address,
        "port": host.port,
        "obstacle": None if host.obstacle is None else outcome_name(host.obstacle),
        "detail": None if failure is None else failure.detail,
    }
