"""The state machine of one host.

unknown > resolved > reachable > answering > authenticated > equipped: a host stands on the highest
stage that any probe of it reached, so it never falls while waiting; what the last probe met is kept
beside it. Some obstacles heal by waiting (a name, a port, an ssh server that is still starting).
Others do not (a refused key, a missing daemon): a host that met nothing else for the grace of its
obstacle is refused for good, and the wait need not go on until the deadline, whoever else is
missing: without this host the job cannot run.

    last probe met          the host is          the wait
    nothing                 ready                is over when enough are
    a healing obstacle      missing              goes on
    a lasting obstacle      refused              goes on for its grace, then is over
    being turned away       as it was before     goes on as before: an sshd turns away whoever
                                                 failed too often, which hides the refusal
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult

__all__ = [
    "LASTING_OBSTACLES",
    "UNFIT_OBSTACLES",
    "advance",
    "can_still_succeed",
    "is_refused",
    "is_unfit",
]

_SHORT_GRACE_S = 10.0
_CACHED_ADDRESS_S = 30.0

LASTING_OBSTACLES = {
    Obstacle.ADDRESS_FAMILY: _SHORT_GRACE_S,
    Obstacle.HOST_KEY_UNKNOWN: _CACHED_ADDRESS_S,
    Obstacle.KEY_REFUSED: _SHORT_GRACE_S,
    Obstacle.SHELL_BROKEN: _SHORT_GRACE_S,
    Obstacle.DAEMON_MISSING: _SHORT_GRACE_S,
    Obstacle.DAEMON_DIFFERS: _SHORT_GRACE_S,
    Obstacle.PROGRAM_DIFFERS: _SHORT_GRACE_S,
}
"""Obstacles that waiting does not heal, with the seconds after which they are believed.

A worker may listen a moment before its keys are in place. A foreign host key may be that of a pod
which got the address of one that is gone, for as long as a name server keeps it: CoreDNS caches
for up to 30 s (Kubernetes' default Corefile, `cache 30`).
"""

UNFIT_OBSTACLES = frozenset(
    {
        Obstacle.ADDRESS_FAMILY,
        Obstacle.ADDRESS_SHARED,
        Obstacle.SHELL_SILENT,
        Obstacle.SHELL_BROKEN,
        Obstacle.DAEMON_MISSING,
        Obstacle.DAEMON_DIFFERS,
        Obstacle.PROGRAM_DIFFERS,
        Obstacle.LAUNCHER_UNREACHABLE,
    }
)
"""Obstacles of a host that is there and cannot do what the job needs."""


def advance(host: HostReadiness, result: ProbeResult, *, pause_s: float) -> HostReadiness:
    """Return where a host stands after one more probe, and when it may be asked again."""
    rises = result.stage > host.stage
    hides = result.obstacle is Obstacle.TURNED_AWAY and host.refused_since_s is not None
    changed = not hides and result.obstacle is not host.obstacle
    return replace(
        host,
        stage=max(host.stage, result.stage),
        since_s=result.at_s if rises else host.since_s,
        is_ready=host.is_ready or result.passed,
        attempts=host.attempts + 1,
        last_failure=host.last_failure if result.passed or hides else result,
        hindered_since_s=result.at_s if changed else host.hindered_since_s,
        refused_since_s=_refused_since_s(host, result),
        next_probe_at_s=result.at_s + pause_s,
        address=result.address or host.address,
        port=result.port if result.port is not None else host.port,
        banner=result.banner or host.banner,
        notes=result.notes if result.passed else host.notes,
        facts=result.facts if result.passed else host.facts,
    )


def _refused_since_s(host: HostReadiness, result: ProbeResult) -> float | None:
    if result.obstacle is Obstacle.TURNED_AWAY:
        return host.refused_since_s
    if result.obstacle not in LASTING_OBSTACLES:
        return None
    return host.refused_since_s if host.refused_since_s is not None else result.at_s


def is_refused(host: HostReadiness, now_s: float) -> bool:
    """Return whether a host met nothing but lasting obstacles for the whole grace."""
    if host.is_ready or host.refused_since_s is None or host.obstacle is None:
        return False
    grace_s = LASTING_OBSTACLES.get(host.obstacle, _SHORT_GRACE_S)
    return now_s - host.refused_since_s >= grace_s


def is_unfit(host: HostReadiness) -> bool:
    """Return whether a host is there and cannot do what the job needs."""
    return host.obstacle in UNFIT_OBSTACLES


def can_still_succeed(hosts: Iterable[HostReadiness], now_s: float, *, wanted: int) -> bool:
    """Return whether enough hosts are ready or may still become so."""
    return sum(not is_refused(host, now_s) for host in hosts) >= wanted
