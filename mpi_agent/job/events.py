"""What happens in an agent's life, one class per thing.

They are the only input of log, bar, metrics and status. Names are in the past tense. A fallback
that is taken silently is a bug: it emits `Noted`. What happens on workers stands in
`worker_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpi_agent.job.endings import Ending
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ProbeResult, ReadinessReport

__all__ = [
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
    "SignalReceived",
    "WaitProgressed",
    "WaitStarted",
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
