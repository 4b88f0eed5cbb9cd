"""Events in words for people: one line each, past tense, key=value; an ending has details."""

from __future__ import annotations

import shlex

from mpi_agent.job.events import (
    Event,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    Noted,
    ProgramStarted,
    SignalReceived,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.observe.run_text import render_details, render_run_event
from mpi_agent.observe.worker_text import render_worker_event

__all__ = ["printable", "render_details", "render_event"]


def render_event(event: Event) -> str | None:
    """Return the line for an event, None for one that stays silent."""
    match event:
        case Noted(text=text):
            return f"note: {text}"
        case WaitProgressed(line=line):
            return line
        case ProgramStarted():
            return (
                f"started np={event.np} hosts={event.host_count} pid={event.pid}"
                f" argv: {shlex.join(event.argv)}"
            )
        case SignalReceived(name=name, action=action):
            return f"received {name}: {action}"
        case _:
            return (
                _render_hosts_event(event) or render_run_event(event) or render_worker_event(event)
            )


def _render_hosts_event(event: Event) -> str | None:
    """Return the line for what happens before the program starts; a single probe has none."""
    match event:
        case HostsDiscovered(hosts=hosts):
            return (
                f"discovered hosts={len(hosts.hosts)} slots={hosts.total_slots}"
                f' source="{hosts.source}" names={fold_names(hosts.names)}'
            )
        case WaitStarted(names=names, timeout_s=timeout_s):
            limit = "timeout=none" if timeout_s is None else f"timeout_s={timeout_s:.6g}"
            return f"waiting for hosts={len(names)} {limit}"
        case HostsChanged(hosts=hosts, added=added, removed=removed):
            return (
                f"the hosts changed while waiting: hosts={len(hosts.hosts)}"
                f" added={fold_names(added) or '-'} removed={fold_names(removed) or '-'}"
            )
        case HostsReady(report=report):
            return _render_ready(report)
    return None


def _render_ready(report: ReadinessReport) -> str:
    ports = sorted({host.port for host in report.hosts if host.port is not None})
    known = ",".join(str(port) for port in ports) or "none"
    return (
        f"hosts became ready count={report.ready_count} waited_s={report.elapsed_s:.2f}"
        f" ssh_port={known}"
    )


def printable(line: str) -> str:
    """Return a line with what a terminal would act on, or cannot show, written as an escape.

    Names come from files and reasons from the network; neither may move somebody's cursor.
    """
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line)
