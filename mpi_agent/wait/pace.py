"""How often a missing host is asked: one budget of probes for the whole job.

A private back-off per host either floods a large job or sleeps through the moment at which a
small one is ready. So the budget is spread over the hosts that are missing: a thousand are each
asked every few seconds, the last one many times a second.
"""

from __future__ import annotations

from mpi_agent.job.readiness import Obstacle

__all__ = ["pause_after"]

PROBES_PER_S = 250.0
SHORTEST_PAUSE_S = 0.05
NAME_LOOKUPS_PER_S = 100.0
SHORTEST_NAME_PAUSE_S = 0.5
_NAME_OBSTACLES = frozenset({Obstacle.NAME_MISSING, Obstacle.NAME_SERVER})


def pause_after(obstacle: Obstacle | None, *, missing: int, jitter: float) -> float:
    """Return seconds until a host may be asked again.

    Args:
        missing: hosts that are not ready, this one included.
        jitter: between 0 and 1; spreads hosts that failed at the same moment.
    """
    if obstacle in _NAME_OBSTACLES:
        pause_s = max(SHORTEST_NAME_PAUSE_S, missing / NAME_LOOKUPS_PER_S)
    else:
        pause_s = max(SHORTEST_PAUSE_S, missing / PROBES_PER_S)
    return pause_s * (0.75 + 0.5 * jitter)
