"""What happens in an agent's life, one class per thing.

They are the only input of log, bar, metrics and status. Names are in the past tense. A fallback
that is taken silently is a bug: it emits `Noted`. What happens on workers stands in
`worker_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Ending
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ProbeResult, ReadinessReport

__all__ = [
    "AttemptBegan",
    "AttemptEnded",
    "Event",
    "EventSink",
    "HostAdvanced",
    "HostsChanged",
    "HostsDiscovered",
    "HostsReady",
    "Noted",
    "ProbeEnded",
    "ProgramEnded",
    "ProgramStarted",
    "RankFailed",
    "RanksStalled",
    "RanksStarted",
    "RestartDecided",
    "SignalReceived",
    "WaitProgressed",
    "WaitStarted",
    "WorkerLost",
    "WorkerReturned",
    "WorkerSuspected",
    "WorkersSwept",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """A choice, a correction or a fallback that the user should know of."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsDiscovered(Event):
    """The job's hosts are known."""

    hosts: HostList


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsChanged(Event):
    """The source named other hosts while they were waited for."""

    hosts: HostList
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStarted(Event):
    """Probing begins.

    Attributes:
        timeout_s: None for no limit.
        enough: how many ready hosts are waited for, None for all.
    """

    names: tuple[str, ...]
    timeout_s: float | None
    enough: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEnded(Event):
    """One round of questions about one host was answered; `report` is where all stand after it."""

    result: ProbeResult
    report: ReadinessReport


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdvanced(Event):
    """A host reached a higher stage than ever before."""

    host: HostReadiness


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitProgressed(Event):
    """Some hosts are still missing; told when something changed, at most once in ten seconds.

    Attributes:
        line: the report in words.
    """

    report: ReadinessReport
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsReady(Event):
    """Enough hosts are ready."""

    report: ReadinessReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStarted(Event):
    """mpirun, or the command in its place, was started."""

    argv: tuple[str, ...]
    pid: int
    np: int
    host_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegan(Event):
    """The program is about to be run; told only where there was, or may be, another attempt.

    Attributes:
        number: from 1; attempts of launchers before this one count.
        max_restarts: how often this launcher would begin it again.
    """

    number: int
    max_restarts: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksStarted(Event):
    """Every host told that ranks run there.

    Attributes:
        after_s: seconds from mpirun's start.
    """

    host_count: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailed(Event):
    """A worker saw a rank end badly.

    Attributes:
        how: `exit code 7`, `signal 11 (SIGSEGV)`.
    """

    host: str
    rank: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksStalled(Event):
    """Nothing was written for long.

    Attributes:
        why: one clause: who is idle and who is busy.
        silent_s: seconds since the last output.
        ends_program: the program is ended for it.
        is_stalled: some rank was seen idle, so that this may be a hang; else it may just be silent.
    """

    why: str
    silent_s: float
    ends_program: bool
    is_stalled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSuspected(Event):
    """A worker gives no sign of life, for the time being."""

    host: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReturned(Event):
    """A worker that was suspected gave a sign of life."""

    host: str
    silent_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Event):
    """A worker is not there any more."""

    loss: HostLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSwept(Event):
    """What was left of a run was looked for on the workers and ended.

    Attributes:
        hosts: how many answered.
        silent: those that did not, of all that were asked.
        ended: processes that are gone.
        killed: how many of those did not end by themselves.
        left: processes that are still there.
        segments: of shared memory, that were removed.
        why: `the program ended`, `before the next attempt`.
    """

    hosts: int
    silent: tuple[str, ...]
    ended: int
    killed: int
    left: int
    segments: int
    took_s: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """One attempt is over; the last one's ending is the job's and is told by `ProgramEnded`."""

    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecided(Event):
    """Whether the program is begun again, and why; told where restarts were asked for.

    Attributes:
        delay_s: until the next attempt; 0 where there is none.
    """

    restarts: bool
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReceived(Event):
    """Somebody told the agent to pass a signal on or to stop."""

    name: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnded(Event):
    """The program is over."""

    ending: Ending


EventSink = Callable[[Event], None]
"""Whoever listens; never raises and never blocks for long."""
