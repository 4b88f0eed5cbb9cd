"""How far each host has come on its way to being ready, and what was seen there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from mpi_agent.job.host_facts import HostFacts

__all__ = ["HostReadiness", "Obstacle", "ProbeResult", "ReadinessReport", "Stage"]


class Stage(IntEnum):
    """Rungs of the ladder, lowest first. A host stands on the highest rung it ever reached."""

    UNKNOWN = 0
    RESOLVED = 1
    """its name has an address"""
    REACHABLE = 2
    """a TCP connection to its ssh port was accepted"""
    ANSWERING = 3
    """an SSH banner came"""
    AUTHENTICATED = 4
    """the job's key was let in"""
    EQUIPPED = 5
    """the MPI daemon is where this launcher will call it, and fits"""


class Obstacle(Enum):
    """Which kind of "no" a probe got; the remedies in `wait.remedies` are keyed by it."""

    NAME_UNKNOWN = "name does not exist"
    NAME_EMPTY = "name has no address"
    NAME_SERVER_FAILED = "the name server fails"
    NAME_SERVER_SILENT = "the name server does not answer"
    ADDRESS_SHARED = "its address is another host's"
    ADDRESS_FAMILY = "it has only IPv6, which this MPI does not speak"
    PORT_REFUSED = "connection refused"
    PORT_FILTERED = "no answer on TCP"
    UNREACHABLE = "network unreachable"
    NOT_SSH = "what answers is not SSH"
    BANNER_LATE = "accepted, then silent"
    CLOSED_EARLY = "accepted, then closed"
    TURNED_AWAY = "turned away by its sshd"
    HOST_KEY_UNKNOWN = "its host key is not one of this job"
    KEY_REFUSED = "the job's key is refused"
    LOGIN_BROKEN = "the login broke off"
    SHELL_SILENT = "the login's command does not answer"
    SHELL_BROKEN = "the login's command is not run"
    DAEMON_MISSING = "the MPI daemon is missing"
    DAEMON_DIFFERS = "the MPI is another one"
    PROGRAM_DIFFERS = "the program is linked with another MPI"
    LAUNCHER_UNREACHABLE = "it cannot connect back to the launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The answer to one round of questions about one host.

    Attributes:
        stage: highest rung this probe reached.
        obstacle: why it did not get further; None when it passed.
        detail: a sentence about the obstacle; empty when passed.
        at_s: monotonic time at which the probe ended.
        rest_s: seconds for which asking again would bring the same answer, from a cache.
        address: where the port that answered was dialled, None below REACHABLE.
        port: ssh port that answered, None below ANSWERING.
        banner: what the port said, empty below ANSWERING.
        steps: seconds that each question took, by the stage it asked for.
        notes: what could not be found out, or is odd and does no harm.
        facts: what the host has; None below EQUIPPED.
    """

    host: str
    stage: Stage
    obstacle: Obstacle | None
    detail: str
    at_s: float
    duration_s: float
    rest_s: float = 0.0
    address: str | None = None
    port: int | None = None
    banner: str = ""
    steps: tuple[tuple[Stage, float], ...] = ()
    notes: tuple[str, ...] = ()
    facts: HostFacts | None = None

    def __post_init__(self) -> None:
        if self.obstacle is None and self.stage < Stage.AUTHENTICATED:
            raise ValueError("a probe passes only after the job's key was let in")
        if self.obstacle is not None and not self.detail:
            raise ValueError("an obstacle needs a sentence")

    @property
    def passed(self) -> bool:
        """True when the host needs no further asking."""
        return self.obstacle is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReadiness:
    """One host on the ladder.

    Attributes:
        stage: highest rung ever reached; it never falls while waiting.
        since_s: monotonic time at which it got there, or was first looked at.
        is_ready: a probe passed.
        attempts: probes that have ended.
        last_failure: the last probe that did not pass, None when none failed yet.
        hindered_since_s: since when every probe met the same obstacle as the last one.
        refused_since_s: since when every probe met a refusal that does not heal by waiting.
        next_probe_at_s: monotonic time before which the host is left alone.
        address: where it was dialled last, None before it was reachable.
        port: ssh port to dial, known once an SSH banner came.
        banner: what that port said.
        notes: what the probe that passed could not find out, or is odd and does no harm.
        facts: what the host has; None before EQUIPPED, and where nothing was asked for.
    """

    host: str
    stage: Stage = Stage.UNKNOWN
    since_s: float = 0.0
    is_ready: bool = False
    attempts: int = 0
    last_failure: ProbeResult | None = None
    hindered_since_s: float = 0.0
    refused_since_s: float | None = None
    next_probe_at_s: float = 0.0
    address: str | None = None
    port: int | None = None
    banner: str = ""
    notes: tuple[str, ...] = ()
    facts: HostFacts | None = None

    @property
    def obstacle(self) -> Obstacle | None:
        """What the last probe met; None for a host that is ready or was never asked."""
        if self.is_ready or self.last_failure is None:
            return None
        return self.last_failure.obstacle

    @property
    def runs_agent(self) -> bool:
        """True when the ssh server says in its banner that a worker of ours runs it."""
        return "mpi-agent" in self.banner


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """Where every host stands; one entry per host, in host order.

    Attributes:
        at_s: monotonic time of the report.
        elapsed_s: how long the wait had taken by then.
        timeout_s: how long the wait may take; None for no limit.
        enough: how many ready hosts the wait is for; None for all of them.
    """

    hosts: tuple[HostReadiness, ...]
    elapsed_s: float
    timeout_s: float | None
    at_s: float = 0.0
    enough: int | None = None

    @property
    def wanted(self) -> int:
        """How many hosts must be ready."""
        return len(self.hosts) if self.enough is None else min(self.enough, len(self.hosts))

    @property
    def is_ready(self) -> bool:
        """True when as many hosts are ready as the wait is for."""
        return self.ready_count >= self.wanted

    @property
    def ready_count(self) -> int:
        """How many hosts are ready."""
        return sum(host.is_ready for host in self.hosts)

    @property
    def laggards(self) -> tuple[HostReadiness, ...]:
        """Hosts that are not ready, in host order."""
        return tuple(host for host in self.hosts if not host.is_ready)
