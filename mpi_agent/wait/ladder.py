"""The state machine of one host: unknown > resolved > reachable > answering > authenticated.

A host stands on the highest stage that any probe of it reached, so it never falls while waiting;
what the last probe met is kept beside it. Some obstacles heal by waiting (a name, a port, an ssh
server that is still starting). Others do not (a foreign host key, a refused key): a host that met
nothing else for the whole grace period is refused, and the wait need not go on until the deadline.
"""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult, Stage

__all__ = ["LASTING_OBSTACLES", "REFUSAL_GRACE_S", "advance", "is_refused", "is_wait_over"]

LASTING_OBSTACLES = frozenset({Obstacle.HOST_KEY_UNKNOWN, Obstacle.KEY_REFUSED})
REFUSAL_GRACE_S = 10.0


def advance(host: HostReadiness, result: ProbeResult, *, pause_s: float) -> HostReadiness:
    """Return where a host stands after one more probe, and when it may be asked again."""
    refused_since_s = None
    if result.obstacle in LASTING_OBSTACLES:
        refused_since_s = host.refused_since_s if host.refused_since_s is not None else result.at_s
    return replace(
        host,
        stage=max(host.stage, result.stage),
        attempts=host.attempts + 1,
        last_failure=host.last_failure if result.passed else result,
        refused_since_s=refused_since_s,
        next_probe_at_s=result.at_s + pause_s,
        port=result.port if result.port is not None else host.port,
        banner=result.banner or host.banner,
    )


def is_refused(host: HostReadiness, now_s: float) -> bool:
    """Return whether a host met nothing but lasting obstacles for the whole grace period."""
    return host.refused_since_s is not None and now_s - host.refused_since_s >= REFUSAL_GRACE_S


def is_wait_over(hosts: tuple[HostReadiness, ...], now_s: float) -> bool:
    """Return whether waiting longer is pointless: all are ready, or the rest are refused."""
    laggards = [host for host in hosts if not host.is_ready]
    return all(host.stage >= Stage.ANSWERING and is_refused(host, now_s) for host in laggards)
