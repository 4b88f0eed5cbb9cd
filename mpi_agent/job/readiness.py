"""How far each host has come on its way to being ready, and what was seen there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

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


class Obstacle(Enum):
    """Which kind of "no" a probe got; the remedies in `wait.report` are keyed by it."""

    NAME_MISSING = "name does not resolve"
    NAME_SERVER = "the name server does not answer"
    PORT_REFUSED = "connection refused"
    PORT_SILENT = "no answer on TCP"
    UNREACHABLE = "network unreachable"
    NOT_SSH = "what answers is not SSH"
    BANNER_MISSING = "accepted, then silent or closed"
    HOST_KEY_UNKNOWN = "its host key is not one of this job"
    KEY_REFUSED = "the job's key is refused"
    LOGIN_BROKEN = "the login broke off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The answer to one round of questions about one host.

    Attributes:
        stage: highest rung this probe reached.
        obstacle: why it did not get further; None when it passed.
        detail: a sentence about the obstacle; empty when passed.
        at_s: monotonic time at which the probe ended.
        port: ssh port that answered, None below ANSWERING.
        banner: what the port said, empty below ANSWERING.
    """

    host: str
    stage: Stage
    obstacle: Obstacle | None
    detail: str
    at_s: float
    duration_s: float
    port: int | None = None
    banner: str = ""

    def __post_init__(self) -> None:
        if (self.obstacle is None) != (self.stage is Stage.AUTHENTICATED):
            raise ValueError("a probe has an obstacle exactly when it did not pass")
        if self.obstacle is not None and not self.detail:
            raise ValueError("an obstacle needs a sentence")

    @property
    def passed(self) -> bool:
        """True when the job's key was let in."""
        return self.obstacle is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReadiness:
    """One host on the ladder.

    Attributes:
        stage: highest rung ever reached; it never falls while waiting.
        attempts: probes that have ended.
        last_failure: the last probe that did not pass, None when none failed yet.
        refused_since_s: since when every probe met a refusal that does not heal by waiting.
        next_probe_at_s: monotonic time before which the host is left alone.
        port: ssh port to dial, known once an SSH banner came.
        banner: what that port said.
    """

    host: str
    stage: Stage = Stage.UNKNOWN
    attempts: int = 0
    last_failure: ProbeResult | None = None
    refused_since_s: float | None = None
    next_probe_at_s: float = 0.0
    port: int | None = None
    banner: str = ""

    @property
    def is_ready(self) -> bool:
        """True when mpirun's ssh would be let in."""
        return self.stage is Stage.AUTHENTICATED

    @property
    def runs_agent(self) -> bool:
        """True when the ssh server says in its banner that a worker of ours runs it."""
        return "mpi-agent" in self.banner


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """Where every host stood when the wait ended; one entry per host, in host order.

    Attributes:
        timeout_s: how long the wait could have taken; None for no limit.
    """

    hosts: tuple[HostReadiness, ...]
    elapsed_s: float
    timeout_s: float | None

    @property
    def is_ready(self) -> bool:
        """True when every host let us in."""
        return not self.laggards

    @property
    def laggards(self) -> tuple[HostReadiness, ...]:
        """Hosts that are not ready, in host order."""
        return tuple(host for host in self.hosts if not host.is_ready)
