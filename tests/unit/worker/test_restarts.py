"""When an ssh server that ended is started again, and when it is given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.worker.restarts import Life, RestartDecision, RestartPolicy, decide_restart

POLICY = RestartPolicy()
NEVER_READY = Life(lived_s=20.0, was_ready=False)
SHORT = Life(lived_s=0.1, was_ready=True)
GOOD = Life(lived_s=1.0, was_ready=True)

lives = st.builds(Life, lived_s=st.floats(min_value=0, max_value=1e6), was_ready=st.booleans())


def decisions(*lived: Life, policy: RestartPolicy = POLICY) -> list[RestartDecision]:
    """Return what is decided after each life, until the server is given up."""
    told: list[RestartDecision] = []
    failures = 0
    for life in lived:
        told.append(decide_restart(policy, life, failures=failures))
        failures = told[-1].failures
        if told[-1].pause_s is None:
            break
    return told


def test_a_server_that_was_ready_for_a_while_is_started_again_at_once() -> None:
    """Somebody killed it; the job that runs must be able to dial on."""
    assert decisions(GOOD) == [RestartDecision(pause_s=0.0, failures=0)]


def test_one_that_is_killed_every_second_is_never_given_up() -> None:
    """Neither in a minute nor in an hour."""
    assert {decision.pause_s for decision in decisions(*[GOOD] * 3600)} == {0.0}


@pytest.mark.parametrize("life", [NEVER_READY, SHORT])
def test_pauses_double_and_end_with_the_eighth_failure(life: Life) -> None:
    """What cannot start is told within 12 s, and its port is not hammered meanwhile."""
    pauses = [decision.pause_s for decision in decisions(*[life] * 20)]

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, None]


def test_a_good_life_wipes_out_the_failures_before_it() -> None:
    """Only failures in a row count."""
    told = decisions(SHORT, NEVER_READY, GOOD, SHORT)

    assert [decision.failures for decision in told] == [1, 2, 0, 1]
    assert told[-1].pause_s == POLICY.first_pause_s


@given(st.lists(lives, max_size=40))
def test_a_server_is_given_up_exactly_after_so_many_failures_in_a_row(lived: list[Life]) -> None:
    """Whatever lives came before."""
    told = decisions(*lived)

    for decision in told:
        assert (decision.pause_s is None) == (decision.failures >= POLICY.most_failures)
        assert decision.pause_s is None or 0 <= decision.pause_s <= POLICY.longest_pause_s


@given(st.lists(st.builds(Life, lived_s=st.floats(0.5, 1e6), was_ready=st.just(True))))
def test_lives_that_were_good_never_lead_to_the_end(lived: list[Life]) -> None:
    """However many there are, and however short beyond half a second."""
    assert all(decision.pause_s == 0 for decision in decisions(*lived))


def test_a_policy_that_nobody_could_follow_is_refused() -> None:
    """No pause, pauses that shrink, and no start at all."""
    for wrong_s in (0.0, 9.0):
        with pytest.raises(ValueError, match="pauses"):
            RestartPolicy(first_pause_s=wrong_s)
    with pytest.raises(ValueError, match="at least one"):
        RestartPolicy(most_failures=0)
