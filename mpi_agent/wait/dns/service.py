"""What a job's Service says about its pods, and when that is reason enough not to ask for them.

Whoever asks for the name of a pod that is not there yet leaves a "no" in every cache on the way,
and meets it again when the pod is there. A headless Service lists its ready pods under its own
name, from the same Endpoints as their names: while it lists nobody, no pod has a name. So the
Service is asked first. But it may not be what we think, therefore it holds the names up for a
limited time only, and a name server that fails on it does not hold them up at all.

Source: Kubernetes documentation, "Headless Services"; CoreDNS plugin/kubernetes, `findServices`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns.lookup import Lookup

__all__ = ["ServiceView", "held_up", "seen", "told"]

HOLD_S = 10.0
PAUSE_WHILE_EMPTY_S = 0.5
PAUSE_WHILE_LISTING_S = 5.0
"""once pods are listed the count is only told, and the answer for 1,000 pods is large"""
_NOBODY = {
    Obstacle.NAME_UNKNOWN: "NXDOMAIN",
    Obstacle.NAME_EMPTY: "no address",
    None: "a wildcard record",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """What a Service said last.

    Attributes:
        listed: how many pods it lists.
        obstacle: the kind of "no"; None when addresses came, which for a wildcard record list
            nobody.
        asked_at_s: when it was asked.
        rest_s: how long its "no" may be repeated by a cache.
        empty_since_s: since when no answer listed anybody; None while it lists pods.
    """

    name: str
    listed: int
    obstacle: Obstacle | None
    asked_at_s: float
    rest_s: float
    empty_since_s: float | None

    def is_due(self, now_s: float) -> bool:
        """Return whether the Service may be asked again."""
        pause_s = PAUSE_WHILE_LISTING_S if self.listed else PAUSE_WHILE_EMPTY_S
        return now_s >= self.asked_at_s + max(pause_s, self.rest_s)


def seen(
    service: str, lookup: Lookup, *, earlier: ServiceView | None, asked_at_s: float
) -> ServiceView:
    """Return the view of a Service after an answer for its name."""
    listed = 0 if lookup.notes else _count_of_pods(lookup.addresses)
    empty_since_s = earlier.empty_since_s if earlier else None
    return ServiceView(
        name=service.rstrip("."),
        listed=listed,
        obstacle=lookup.obstacle,
        asked_at_s=asked_at_s,
        rest_s=lookup.rest_s,
        empty_since_s=None if listed else _first(empty_since_s, asked_at_s),
    )


def held_up(view: ServiceView, now_s: float) -> Lookup | None:
    """Return the answer for a pod that is not asked for, None when it is to be asked for."""
    if view.listed or view.obstacle not in _NOBODY or view.empty_since_s is None:
        return None
    until_s = view.empty_since_s + HOLD_S
    if now_s >= until_s:
        return None
    reason = _NOBODY[view.obstacle]
    return Lookup(
        addresses=(),
        obstacle=Obstacle.NAME_UNKNOWN,
        detail=f'the Service "{view.name}" lists no ready pod yet ({reason})',
        rest_s=max(0.0, min(view.asked_at_s + view.rest_s, until_s) - now_s),
    )


def told(view: ServiceView) -> str:
    """Return what the Service adds to the "no" of one of its pods, empty when it said nothing."""
    if view.listed:
        pods = "1 ready pod" if view.listed == 1 else f"{view.listed} ready pods"
        return f'the Service "{view.name}" lists {pods}'
    if view.obstacle in _NOBODY:
        return f'the Service "{view.name}" does not exist or selects no ready pod'
    return ""


def _count_of_pods(addresses: tuple[str, ...]) -> int:
    """Return how many pods a list of addresses stands for: each may have one of either family."""
    ipv6 = sum(":" in address for address in addresses)
    return max(ipv6, len(addresses) - ipv6)


def _first(earlier_s: float | None, now_s: float) -> float:
    return now_s if earlier_s is None else earlier_s
