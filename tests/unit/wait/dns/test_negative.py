"""How long a "no" rests, for any authority, any cache and any times of asking."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.wait.dns.negative import (
    LONGEST_REST_S,
    Denial,
    Denials,
    counts_down,
    rest_after,
)

TTLS_S = st.integers(min_value=5, max_value=86400)
PAUSES_S = st.lists(st.floats(min_value=0.4, max_value=40), min_size=1, max_size=30)
ROUNDINGS = st.sampled_from([math.floor, math.ceil, round])


def a_denial(ttl_s: int, at_s: float, zone: str = "z.") -> Denial:
    """Return a "no" of one zone."""
    return Denial(zone=zone, ttl_s=ttl_s, at_s=at_s)


def rests(
    ttl_at: Callable[[float], int], pauses_s: list[float], denials: Denials
) -> list[tuple[float, int, float]]:
    """Ask after each pause; return time, TTL and rest of each answer."""
    now_s, seen = 100.0, []
    for pause_s in pauses_s:
        now_s += pause_s
        ttl_s = ttl_at(now_s)
        seen.append((now_s, ttl_s, denials.rest_of("w-0. A", a_denial(ttl_s, now_s))))
    return seen


class Cache:
    """Keeps one "no" for its TTL, then fetches it anew when it is asked."""

    def __init__(self, ttl_s: int, rounded: Callable[[float], int]) -> None:
        self._ttl_s = ttl_s
        self._rounded = rounded
        self.ends_at_s = 0.0

    def __call__(self, now_s: float) -> int:
        """Return the TTL that an answer has now."""
        if now_s >= self.ends_at_s:
            self.ends_at_s = now_s + self._ttl_s
        return self._rounded(self.ends_at_s - now_s)


@given(TTLS_S, PAUSES_S)
def test_an_authoritys_no_never_rests(ttl_s: int, pauses_s: list[float]) -> None:
    """Whatever its TTL and however often it is asked, the news is seen with the next question."""
    assert {rest for _, _, rest in rests(lambda _: ttl_s, pauses_s, Denials())} == {0.0}


@given(TTLS_S, ROUNDINGS, st.floats(min_value=0.4, max_value=2))
def test_a_cache_is_known_after_a_few_questions(
    ttl_s: int, rounded: Callable[[float], int], pause_s: float
) -> None:
    """At the pace of the wait, before its "no" is over."""
    questions = math.ceil(3 / pause_s) + 1

    seen = rests(Cache(ttl_s, rounded), [pause_s] * questions, Denials())

    assert any(rest_s > 0 for *_, rest_s in seen)


@given(TTLS_S, ROUNDINGS, PAUSES_S)
def test_a_rest_outlasts_neither_the_cache_nor_half_a_minute(
    ttl_s: int, rounded: Callable[[float], int], pauses_s: list[float]
) -> None:
    """By no more than the second to which a TTL is rounded."""
    cache = Cache(ttl_s, rounded)

    def ttl_at(now_s: float) -> int:
        ttl_s = cache(now_s)
        ends_at_s.append(cache.ends_at_s)
        return ttl_s

    ends_at_s: list[float] = []
    for (now_s, _, rest_s), end_s in zip(
        rests(ttl_at, pauses_s, Denials()), ends_at_s, strict=True
    ):
        assert rest_s <= LONGEST_REST_S
        assert now_s + rest_s <= end_s + 1


def test_two_caches_in_turn_are_found_out_when_one_answers_twice() -> None:
    """A balancer may send each question to the other one at first."""
    denials = Denials()
    ttls_s = [(0, 30), (0.5, 30), (1.5, 29), (2, 28)]

    seen = [denials.rest_of("w-0. A", a_denial(ttl_s, at_s)) for at_s, ttl_s in ttls_s]

    assert seen == [0, 0, 29, 28]


def test_a_proof_holds_for_every_name_of_the_zone_and_for_no_other() -> None:
    """The same server may be the authority of another one."""
    denials = Denials()
    denials.rest_of("w-0. A", a_denial(30, 0))
    denials.rest_of("w-0. A", a_denial(28, 2))

    assert denials.rest_of("w-1. A", a_denial(30, 3)) == 30
    assert denials.rest_of("w-1. A", a_denial(30, 4, zone="other.")) == 0


@pytest.mark.parametrize(
    ("later", "claim"),
    [
        (a_denial(28, 2), True),
        (a_denial(29, 2), True),
        (a_denial(30, 2), False),
        (a_denial(10, 2), False),
        (a_denial(28, 2, zone="other."), False),
    ],
)
def test_only_a_drop_that_agrees_with_the_clock_proves_a_cache(later: Denial, claim: bool) -> None:
    """A zone's TTL may also have been changed."""
    assert counts_down(a_denial(30, 0), later) is claim


def test_a_no_without_a_soa_record_never_rests() -> None:
    """Nothing says for how long it could."""
    assert rest_after(Denial(zone="", ttl_s=0, at_s=0), from_cache=True) == 0
