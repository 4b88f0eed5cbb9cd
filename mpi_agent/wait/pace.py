"""How often a missing host is asked: one budget of probes for the whole job.

A private back-off per host either floods a large job or sleeps through the moment at which a
small one is ready. So the budget is spread over the hosts that are missing: a thousand are each
asked every few seconds, the last one many times a second. Names are asked more gently, because
the name server is everybody's, and not while a cache would only repeat its "no". A host that
refuses us is asked seldom: since OpenSSH 9.8 sshd shuts out whoever fails to log in too often.
"""

from __future__ import annotations

from mpi_agent.job.readiness import Obstacle, ProbeResult, Stage
from mpi_agent.wait.ladder import LASTING_OBSTACLES

__all__ = ["pause_after"]

PROBES_PER_S = 250.0
SHORTEST_PAUSE_S = 0.05
NAME_LOOKUPS_PER_S = 100.0
SHORTEST_NAME_PAUSE_S = 0.5
REFUSAL_PAUSE_S = 2.0
_COSTLY_PAUSE_S = 0.5
_COSTLY = frozenset({Obstacle.TURNED_AWAY, Obstacle.LOGIN_BROKEN, Obstacle.ADDRESS_SHARED})
"""Obstacles that cost the host more than a connection."""


def pause_after(result: ProbeResult, *, missing: int, jitter: float) -> float:
    """Return seconds until a host may be asked again.

    Args:
        missing: hosts that are not ready, this one included.
        jitter: between 0 and 1; spreads hosts that failed at the same moment.

    Source: sshd_config(5) of OpenSSH 10.0, PerSourcePenalties: 5 s for each failed login, enforced
    from 15 s on.
    """
    pause_s = max(SHORTEST_PAUSE_S, missing / PROBES_PER_S)
    if result.stage is Stage.UNKNOWN:
        pause_s = max(SHORTEST_NAME_PAUSE_S, missing / NAME_LOOKUPS_PER_S)
    elif result.obstacle in LASTING_OBSTACLES:
        pause_s = max(REFUSAL_PAUSE_S, pause_s)
    elif result.obstacle in _COSTLY or result.stage is Stage.AUTHENTICATED:
        pause_s = max(_COSTLY_PAUSE_S, pause_s)
    return max(pause_s * (0.75 + 0.5 * jitter), result.rest_s)
