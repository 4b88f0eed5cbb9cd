"""Where the job stands, as one value that each event replaces by the next.

Other threads read it: whoever holds it never sees half an event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from mpi_agent.job.endings import Ending
from mpi_agent.job.events import (
    Event,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ReadinessReport

__all__ = ["Phase", "Program", "Snapshot", "advance"]


class Phase(Enum):
    """What the launcher is doing."""

    DISCOVERING = "discovering"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that was started."""

    pid: int
    np: int
    host_count: int
    started_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Where the job stands; what is not known yet is None.

    Attributes:
        hosts_are_ready: enough hosts are ready, or there was nobody to wait for.
    """

    phase: Phase = Phase.DISCOVERING
    hosts: HostList | None = None
    report: ReadinessReport | None = None
    hosts_are_ready: bool = False
    program: Program | None = None
    ending: Ending | None = None

    def since_report_s(self, now_s: float) -> float:
        """Return for how long the wait has gone on since the report; 0 when it is over."""
        if self.report is None or self.hosts_are_ready:
            return 0.0
        return max(0.0, now_s - self.report.at_s)

    def running_s(self, now_s: float) -> float:
        """Return how long the program has run, or ran."""
        if self.ending is not None:
            return self.ending.process_exit.duration_s
        return 0.0 if self.program is None else max(0.0, now_s - self.program.started_at_s)


def advance(snapshot: Snapshot, event: Event, *, now_s: float) -> Snapshot:
    """Return where the job stands after an event; the same value when it changes nothing."""
    match event:
        case HostsDiscovered(hosts=hosts) | HostsChanged(hosts=hosts):
            return replace(snapshot, hosts=hosts)
        case WaitStarted():
            return replace(snapshot, phase=Phase.WAITING, report=_first_report(event, now_s))
        case ProbeEnded(report=report) | WaitProgressed(report=report):
            return replace(snapshot, report=report)
        case HostsReady(report=report):
            return replace(snapshot, report=report, hosts_are_ready=True)
        case ProgramStarted(pid=pid, np=np, host_count=host_count):
            program = Program(pid=pid, np=np, host_count=host_count, started_at_s=now_s)
            return replace(snapshot, phase=Phase.RUNNING, program=program, hosts_are_ready=True)
        case ProgramEnded(ending=ending):
            return replace(snapshot, phase=Phase.ENDED, ending=ending)
    return snapshot


def _first_report(event: WaitStarted, now_s: float) -> ReadinessReport:
    """Return where everybody stands before the first probe."""
    hosts = tuple(HostReadiness(host=name, since_s=now_s) for name in event.names)
    return ReadinessReport(
        hosts=hosts,
        elapsed_s=0.0,
        timeout_s=event.timeout_s,
        at_s=now_s,
        enough=event.enough,
    )
