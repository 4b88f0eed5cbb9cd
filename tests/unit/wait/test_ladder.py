"""The ladder never falls, and knows which obstacles waiting does not heal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.readiness import HostReadiness, Obstacle, Stage
from mpi_agent.wait.ladder import (
    LASTING_OBSTACLES,
    UNFIT_OBSTACLES,
    advance,
    can_still_succeed,
    is_refused,
)
from mpi_agent.wait.pace import REFUSAL_PAUSE_S, pause_after
from tests.builders import a_probe_result

obstacles = st.sampled_from([None, *Obstacle])
stages = st.sampled_from(list(Stage))
KEY_GRACE_S = LASTING_OBSTACLES[Obstacle.KEY_REFUSED]


def after(*answers: tuple[float, Obstacle | None]) -> HostReadiness:
    """Return a host that met these obstacles, each at its second."""
    host = HostReadiness(host="a")
    for at_s, obstacle in answers:
        host = advance(host, a_probe_result("a", obstacle=obstacle, at_s=at_s), pause_s=1.0)
    return host


@given(st.lists(st.tuples(obstacles, stages), max_size=20))
def test_a_stage_never_falls_while_waiting(answers: list[tuple[Obstacle | None, Stage]]) -> None:
    """A host that answered once has answered, whatever comes later; one that is ready stays so."""
    host = HostReadiness(host="a")
    for at_s, (obstacle, stage) in enumerate(answers):
        result = a_probe_result("a", stage=stage, obstacle=obstacle, at_s=at_s)
        risen = advance(host, result, pause_s=1.0)

        assert risen.stage >= host.stage
        assert risen.is_ready >= host.is_ready
        assert risen.attempts == host.attempts + 1
        assert risen.since_s == (host.since_s if risen.stage == host.stage else at_s)
        host = risen


def test_only_an_unbroken_refusal_counts_as_one() -> None:
    """A worker whose sshd came up before its keys heals in a moment."""
    host = after((0, Obstacle.KEY_REFUSED), (5, Obstacle.PORT_REFUSED), (6, Obstacle.KEY_REFUSED))

    assert not is_refused(host, 6 + KEY_GRACE_S - 0.1)
    assert is_refused(host, 6 + KEY_GRACE_S)


def test_being_turned_away_does_not_break_a_refusal() -> None:
    """Since OpenSSH 9.8 sshd shuts out an address whose logins failed."""
    host = after((0, Obstacle.KEY_REFUSED), (4, Obstacle.TURNED_AWAY), (8, Obstacle.KEY_REFUSED))

    assert is_refused(host, KEY_GRACE_S)
    assert host.obstacle is Obstacle.KEY_REFUSED


def test_being_turned_away_is_told_where_nothing_stands_behind_it() -> None:
    """More logins at once than MaxStartups allows."""
    assert after((0, Obstacle.TURNED_AWAY)).obstacle is Obstacle.TURNED_AWAY


def test_a_foreign_host_key_is_believed_only_after_a_cached_address_has_expired() -> None:
    """The pod may have been replaced, and its old address given to another."""
    host = after((0, Obstacle.HOST_KEY_UNKNOWN))

    assert not is_refused(host, KEY_GRACE_S)
    assert is_refused(host, 30.0)


def test_a_host_that_is_refused_for_good_ends_the_wait_for_the_others() -> None:
    """Without it the job cannot run, so nobody waits ten minutes for the rest."""
    refused, missing = after((0, Obstacle.KEY_REFUSED)), HostReadiness(host="b")

    assert can_still_succeed((refused, missing), 1.0, wanted=2)
    assert not can_still_succeed((refused, missing), 60.0, wanted=2)


def test_a_wait_for_some_goes_on_without_a_refused_host() -> None:
    """`--min-workers` needs only so many."""
    refused, missing = after((0, Obstacle.KEY_REFUSED)), HostReadiness(host="b")

    assert can_still_succeed((refused, missing), 60.0, wanted=1)


@pytest.mark.parametrize("obstacle", sorted(set(Obstacle) - set(LASTING_OBSTACLES), key=str))
def test_what_may_heal_is_never_refused(obstacle: Obstacle) -> None:
    """Names, ports and servers that are still starting."""
    assert not is_refused(after((0, obstacle)), 1e6)


def test_a_host_that_cannot_do_its_part_was_let_in_or_cannot_be_dialled() -> None:
    """The set of unfit obstacles and the stages at which they are met belong together."""
    low = {Obstacle.ADDRESS_FAMILY, Obstacle.ADDRESS_SHARED}

    for obstacle in UNFIT_OBSTACLES - low:
        assert a_probe_result(obstacle=obstacle).stage is Stage.AUTHENTICATED


@pytest.mark.parametrize(
    ("missing", "longest_s"), [(1, 0.1), (10, 0.1), (1000, 6.0)], ids=["last", "few", "many"]
)
def test_the_budget_is_spread_over_the_missing(missing: int, longest_s: float) -> None:
    """The fewer are missing, the more often each is asked."""
    result = a_probe_result(obstacle=Obstacle.PORT_REFUSED)
    pauses = [pause_after(result, missing=missing, jitter=j) for j in (0.0, 0.5, 1.0)]

    assert 0 < min(pauses) <= max(pauses) <= longest_s


def test_a_name_is_asked_at_most_about_twice_a_second() -> None:
    """Name servers are shared with the whole cluster."""
    result = a_probe_result(obstacle=Obstacle.NAME_UNKNOWN)

    assert pause_after(result, missing=1, jitter=0.5) >= 0.5


def test_a_cached_no_is_not_asked_for_again() -> None:
    """Before its time is over the answer would be the same."""
    result = a_probe_result(obstacle=Obstacle.NAME_UNKNOWN, rest_s=12.0)

    assert pause_after(result, missing=1, jitter=0.0) == 12.0


@pytest.mark.parametrize("obstacle", [Obstacle.KEY_REFUSED, Obstacle.DAEMON_MISSING])
def test_who_refuses_us_is_asked_seldom(obstacle: Obstacle) -> None:
    """Each failed login counts against us at sshd, and each full one costs the worker something."""
    pause_s = pause_after(a_probe_result(obstacle=obstacle), missing=1, jitter=0.5)

    assert pause_s >= REFUSAL_PAUSE_S


def test_facts_are_those_of_the_probe_that_passed() -> None:
    """A later failure of a host that was ready takes nothing back."""
    facts = HostFacts(gpus=2)
    ready = advance(
        HostReadiness(host="a"), replace(a_probe_result(obstacle=None), facts=facts), pause_s=1.0
    )

    later = advance(ready, a_probe_result(obstacle=Obstacle.PORT_REFUSED, at_s=1), pause_s=1.0)

    assert (ready.facts, later.facts) == (facts, facts)
