"""How long a "no" rests: whether it comes from a cache, and for how long the cache will repeat it.

A "no" carries a TTL, the smaller of the TTL and the `minimum` of the zone's SOA record. What it
means depends on who speaks:

    an authoritative server   always says the whole TTL, and has the news at once
    a cache                   says what is left of the TTL, and repeats the "no" until it is over

So a TTL tells nothing by itself: believing it at an authoritative server loses the first moment at
which a name exists, not believing it at a cache asks in vain. But the two differ in time. Let T be
the whole TTL and ask at a and later at b, while the "no" of a would still be cached (b - a < T):

    authoritative   T at a, T at b              the drop is 0
    a cache         r at a, r - (b - a) at b    the drop is what the clock says, to 1 s of rounding

A drop of at least 1 s that agrees with the clock is therefore a proof of a cache. Its absence
proves nothing: behind one address two caches may take turns, both at the start of their TTL. So
what is unknown is treated like an authority, it does not rest, and a proof, once seen, holds.

The proof holds for the zone, not for the server. CoreDNS, as kubeadm sets it up since the end of
2024, is the authority of the cluster's domain and a cache for every other.

Source: RFC 2308 section 5; CoreDNS plugin/cache and plugin/kubernetes; kubernetes/kubernetes
pull request 128359, "disable caching for authoritative zone".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LONGEST_REST_S", "Denial", "Denials", "counts_down", "rest_after"]

LONGEST_REST_S = 30.0
_ROUNDING_S = 1.5
"""a TTL is cut to whole seconds, and the answer travels"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A "no" as it came.

    Attributes:
        zone: owner of the SOA record that came with it; empty when none came.
        ttl_s: how long a cache may repeat it; 0 when no SOA record came.
    """

    zone: str
    ttl_s: int
    at_s: float


def counts_down(earlier: Denial, later: Denial) -> bool:
    """Return whether two denials of one question prove that a cache gave the second."""
    drop_s = earlier.ttl_s - later.ttl_s
    elapsed_s = later.at_s - earlier.at_s
    return earlier.zone == later.zone and drop_s >= 1 and abs(drop_s - elapsed_s) <= _ROUNDING_S


def rest_after(denial: Denial, *, from_cache: bool) -> float:
    """Return seconds for which asking again would only bring the same "no"."""
    return min(float(denial.ttl_s), LONGEST_REST_S) if from_cache else 0.0


class Denials:
    """Remembers the last denial of each question, and which zones turned out to be cached."""

    def __init__(self) -> None:
        self._last: dict[str, Denial] = {}
        self._cached_zones: set[str] = set()

    def rest_of(self, question: str, denial: Denial) -> float:
        """Return how long the question rests after this denial; learn from it."""
        earlier = self._last.get(question)
        self._last[question] = denial
        if earlier is not None and counts_down(earlier, denial):
            self._cached_zones.add(denial.zone)
        return rest_after(denial, from_cache=denial.zone in self._cached_zones)
