"""Where the job stands, as one value that each event replaces by the next.

Other threads read it: whoever holds it never sees half an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from mpi_agent.job.endings import Ending
from mpi_agent.job.events import (
    AttemptEnded,
    Event,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    RanksStalled,
    RestartDecided,
    SignalReceived,
    WaitProgressed,
    WaitStarted,
    WorkerLost,
    WorkersSwept,
)
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.observe.attempts import Attempts, after_event

__all__ = ["Phase", "Program", "Snapshot", "advance"]

_STOPS = frozenset({"SIGTERM", "SIGINT", "SIGHUP"})


class Phase(Enum):
    """What the launcher is doing; with restarts it comes back to WAITING."""

    DISCOVERING = "discovering"
    WAITING = "waiting"
    STARTING = "starting"
    """the hosts are ready, and mpirun is not started yet"""
    RUNNING = "running"
    ENDING = "ending"
    """the program is over, or is being ended; what is left of it is looked for"""
    RESTARTING = "restarting"
    """the pause before another attempt, and finding its hosts"""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that was started.

    Attributes:
        lasted_s: how long it ran; None while it does.
    """

    pid: int
    np: int
    host_count: int
    started_at_s: float
    lasted_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Where the job stands; what is not known yet is None.

    Attributes:
        since_s: when it entered the phase, on the monotonic clock.
        spent: seconds in phases that are over, one sum for each that there was.
        hosts_are_ready: enough hosts are ready, or there was nobody to wait for.
        ending: the job's; those of attempts before the last one are among the attempts.
    """

    phase: Phase = Phase.DISCOVERING
    since_s: float = 0.0
    spent: tuple[tuple[Phase, float], ...] = ()
    hosts: HostList | None = None
    report: ReadinessReport | None = None
    hosts_are_ready: bool = False
    program: Program | None = None
    attempts: Attempts = field(default_factory=Attempts)
    ending: Ending | None = None

    def since_report_s(self, now_s: float) -> float:
        """Return for how long the wait has gone on since the report; 0 when it is over."""
        if self.report is None or self.hosts_are_ready:
            return 0.0
        return max(0.0, now_s - self.report.at_s)

    def running_s(self, now_s: float) -> float:
        """Return how long the program has run, or ran."""
        program = self.program
        if program is None:
            return 0.0
        if program.lasted_s is not None:
            return program.lasted_s
        return max(0.0, now_s - program.started_at_s)

    @property
    def is_running(self) -> bool:
        """Whether the program runs, also while it is being ended."""
        return self.program is not None and self.program.lasted_s is None

    def seconds_in(self, phase: Phase, now_s: float) -> float:
        """Return how long the job has been in a phase, all attempts together."""
        spent_s = dict(self.spent).get(phase, 0.0)
        return spent_s + (max(0.0, now_s - self.since_s) if phase is self.phase else 0.0)


def advance(snapshot: Snapshot, event: Event, *, now_s: float) -> Snapshot:
    """Return where the job stands after an event; the same value when it changes nothing."""
    after = _enter(snapshot, _phase_after(snapshot.phase, event), now_s)
    attempts = after_event(after.attempts, event)
    if attempts is not after.attempts:
        after = replace(after, attempts=attempts)
    match event:
        case HostsDiscovered(hosts=hosts) | HostsChanged(hosts=hosts):
            return replace(after, hosts=hosts)
        case WaitStarted():
            return replace(after, report=_first_report(event, now_s), hosts_are_ready=False)
        case ProbeEnded(report=report) | WaitProgressed(report=report):
            return replace(after, report=report)
        case HostsReady(report=report):
            return replace(after, report=report, hosts_are_ready=True)
        case ProgramStarted(pid=pid, np=np, host_count=host_count):
            program = Program(pid=pid, np=np, host_count=host_count, started_at_s=now_s)
            return replace(after, program=program, hosts_are_ready=True)
        case RestartDecided(restarts=True):
            return replace(after, report=None, hosts_are_ready=False, program=None)
        case AttemptEnded(ending=ending):
            return _without_program(after, ending)
        case ProgramEnded(ending=ending):
            return replace(_without_program(after, ending), ending=ending)
    return after


def _phase_after(phase: Phase, event: Event) -> Phase:
    """Return what the launcher does after an event."""
    match event:
        case WaitStarted():
            return Phase.WAITING
        case HostsReady():
            return Phase.STARTING
        case ProgramStarted():
            return Phase.RUNNING
        case RestartDecided(restarts=True):
            return Phase.RESTARTING
        case ProgramEnded():
            return Phase.ENDED
    return Phase.ENDING if phase is Phase.RUNNING and _is_an_end(event) else phase


def _is_an_end(event: Event) -> bool:
    """Return whether a running program is over, or is ended for it."""
    match event:
        case SignalReceived(name=name):
            return name in _STOPS
        case RanksStalled(ends_program=ends_program):
            return ends_program
    return isinstance(event, WorkerLost | WorkersSwept | AttemptEnded)


def _enter(snapshot: Snapshot, phase: Phase, now_s: float) -> Snapshot:
    """Return the snapshot in a phase, with the time that the one before it took."""
    if phase is snapshot.phase:
        return snapshot
    in_it_s = max(0.0, now_s - snapshot.since_s)
    sums = dict(snapshot.spent)
    sums[snapshot.phase] = sums.get(snapshot.phase, 0.0) + in_it_s
    return replace(snapshot, phase=phase, since_s=now_s, spent=tuple(sums.items()))


def _without_program(snapshot: Snapshot, ending: Ending) -> Snapshot:
    """Return the snapshot with a program that runs no more."""
    if snapshot.program is None:
        return snapshot
    program = replace(snapshot.program, lasted_s=ending.process_exit.duration_s)
    return replace(snapshot, program=program)


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
