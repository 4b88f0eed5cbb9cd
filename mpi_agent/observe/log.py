"""The log: one line on stderr for each event that people need, past tense, key=value."""

from __future__ import annotations

import shlex
import sys
from typing import TextIO

from mpi_agent.job.events import (
    Event,
    HostAdvanced,
    HostsDiscovered,
    HostsReady,
    Noted,
    ProgramEnded,
    ProgramStarted,
    SignalReceived,
    WaitProgressed,
    WorkerDraining,
    WorkerReady,
)
from mpi_agent.job.hosts import fold_names

__all__ = ["Log", "render_event"]


def render_event(event: Event) -> str | None:
    """Return the line for an event, None for one that stays silent."""
    match event:
        case Noted(text=text):
            return f"note: {text}"
        case HostsDiscovered(hosts=hosts):
            return (
                f"discovered hosts={len(hosts.hosts)} slots={hosts.total_slots}"
                f' source="{hosts.source}" names={fold_names(hosts.names)}'
            )
        case WaitProgressed(line=line):
            return line
        case HostsReady(report=report):
            ports = sorted({host.port for host in report.hosts if host.port is not None})
            known = ",".join(str(port) for port in ports) or "none"
            return (
                f"hosts became ready count={len(report.hosts)} waited_s={report.elapsed_s:.2f}"
                f" ssh_port={known}"
            )
        case ProgramStarted():
            return (
                f"started np={event.np} hosts={event.host_count} pid={event.pid}"
                f" argv: {shlex.join(event.argv)}"
            )
        case SignalReceived(name=name, action=action):
            return f"received {name}: {action}"
        case ProgramEnded(ending=ending):
            return f"{ending.summary} (verdict={ending.verdict.name} code={ending.exit_code})"
        case WorkerReady(server=server, port=port, user=user):
            return f"became ready server={server} port={port} user={user}"
        case WorkerDraining(signal_name=name):
            return f"received {name}: not ready any more, ending ssh sessions"
        case HostAdvanced():
            return None
    return None


class Log:
    """Writes events as lines; an `EventSink`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr

    def __call__(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        line = render_event(event)
        if line is not None:
            print(f"mpi-agent: {line}", file=self._stream, flush=True)
