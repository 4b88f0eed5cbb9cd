"""When a program is begun again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.run.restarts import PastAttempt, RestartDecision, decide
from mpi_agent.supervision_settings import RestartSettings
from tests.builders import a_process_exit

EVERY_FAILURE = tuple(v for v in Verdict if v not in (Verdict.SUCCEEDED, Verdict.STOPPED))
THREE = RestartSettings(max_restarts=3)
ANY_FAILURE = RestartSettings(max_restarts=3, verdicts=EVERY_FAILURE)


def an_attempt(
    verdict: Verdict = Verdict.WORKERS_LOST,
    *,
    code: int = 201,
    ran_s: float = 10.0,
    ended_at_s: float = 100.0,
) -> PastAttempt:
    """Return an attempt that ended."""
    ending = Ending(
        verdict=verdict,
        exit_code=code,
        process_exit=a_process_exit(code=1, duration_s=ran_s),
        summary="it ended",
    )
    return PastAttempt(ending=ending, ended_at_s=ended_at_s)


def a_failure(code: int = 7, *, ran_s: float = 10.0) -> PastAttempt:
    """Return an attempt whose program failed."""
    return an_attempt(Verdict.PROGRAM_FAILED, code=code, ran_s=ran_s)


def decided(*past: PastAttempt, settings: RestartSettings = THREE) -> RestartDecision:
    """Return the decision right after the last attempt."""
    return decide(settings, past, past[-1].ended_at_s)


@pytest.mark.parametrize("verdict", [Verdict.WORKERS_LOST, Verdict.LAUNCH_FAILED])
def test_what_a_retry_may_help_is_begun_again(verdict: Verdict) -> None:
    """Without being asked for each verdict."""
    decision = decided(an_attempt(verdict))

    assert decision == RestartDecision(
        restarts=True,
        delay_s=1.0,
        reason=f"{verdict.value}; 2 of 3 restarts left after this one",
        left=2,
    )


def test_a_program_that_failed_is_begun_again_only_where_that_was_asked_for() -> None:
    """A bug does not go away."""
    decision = decided(a_failure())

    assert (decision.restarts, decision.delay_s) == (False, 0.0)
    assert decision.reason == '"program failed" is not in --restart-on; 3 of 3 restarts left'
    assert decided(a_failure(), settings=ANY_FAILURE).restarts


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict.SUCCEEDED, "the program succeeded; 3 of 3 restarts left"),
        (Verdict.STOPPED, "the program was stopped on request; 3 of 3 restarts left"),
    ],
)
def test_what_is_no_failure_is_never_begun_again(verdict: Verdict, reason: str) -> None:
    """Whatever is asked for."""
    settings = RestartSettings(max_restarts=3, verdicts=tuple(Verdict))

    decision = decided(an_attempt(verdict), settings=settings)

    assert (decision.restarts, decision.reason) == (False, reason)


def test_nothing_is_begun_again_once_no_restart_is_left() -> None:
    """The reason says of how many."""
    one = RestartSettings(max_restarts=1)

    assert decided(an_attempt(), settings=one).reason == (
        "workers lost; 0 of 1 restart left after this one"
    )
    assert decided(an_attempt(), an_attempt(), settings=one) == RestartDecision(
        restarts=False, delay_s=0.0, reason="workers lost, and none of 1 restart is left", left=0
    )


def test_only_restarts_within_the_window_count() -> None:
    """A job of a week may lose more workers than three."""
    settings = RestartSettings(max_restarts=2, window_s=3600.0)
    old, new, last = (an_attempt(ended_at_s=at_s) for at_s in (0.0, 3000.0, 4000.0))

    decision = decided(old, new, last, settings=settings)
    soon = decide(settings, (old, new, an_attempt(ended_at_s=3500.0)), 3500.0)

    assert decision.restarts
    assert decision.reason == "workers lost; 0 of 2 restarts within 3600 s left after this one"
    assert soon.reason == "workers lost, and none of 2 restarts within 3600 s is left"


def test_the_same_failure_twice_in_a_row_is_not_repeated() -> None:
    """A third attempt would fail alike."""
    decision = decided(a_failure(ran_s=12.0), a_failure(ran_s=11.0), settings=ANY_FAILURE)

    assert not decision.restarts
    assert decision.reason == (
        "the program failed with code 7 twice in a row without progress: after 12 s, and after"
        " 11 s; 2 of 3 restarts left"
    )


@pytest.mark.parametrize(
    "second",
    [
        a_failure(8),
        a_failure(7, ran_s=90.0),
        an_attempt(Verdict.WORKERS_LOST, code=7),
    ],
    ids=["another code", "clearly longer", "a worker was lost"],
)
def test_a_failure_of_another_kind_or_later_is_repeated(second: PastAttempt) -> None:
    """It got further, or something else went wrong."""
    assert decided(a_failure(7), second, settings=ANY_FAILURE).restarts


@pytest.mark.parametrize(("second_s", "restarts"), [(1150.0, False), (1170.0, True)])
def test_progress_is_a_tenth_and_a_minute_longer(second_s: float, restarts: bool) -> None:
    """Two attempts of the same work take about as long."""
    past = (a_failure(ran_s=1000.0), a_failure(ran_s=second_s))

    assert decided(*past, settings=ANY_FAILURE).restarts is restarts


def test_failures_that_are_not_neighbours_are_not_compared() -> None:
    """A worker was lost between them."""
    past = (a_failure(), an_attempt(), a_failure())

    assert decided(*past, settings=ANY_FAILURE).restarts


def test_the_pause_doubles_up_to_the_longest() -> None:
    """From the first one."""
    settings = RestartSettings(max_restarts=99, first_delay_s=2.0, longest_delay_s=10.0)

    pauses = [decided(*[an_attempt()] * n, settings=settings).delay_s for n in range(1, 6)]

    assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0]


def test_the_pause_is_the_first_again_after_a_long_run() -> None:
    """Ten times the longest pause: what failed before has healed."""
    settings = RestartSettings(max_restarts=99, first_delay_s=2.0, longest_delay_s=10.0)
    short, long = an_attempt(), an_attempt(ran_s=101.0)

    def pause_after(*past: PastAttempt) -> float:
        return decided(*past, settings=settings).delay_s

    assert pause_after(short, short, long) == 2.0
    assert pause_after(short, short, long, short) == 2.0
    assert pause_after(short, short, long, short, short) == 4.0
    assert pause_after(short, short, an_attempt(ran_s=99.0)) == 8.0


def test_a_first_pause_beyond_the_longest_is_kept() -> None:
    """The user wins."""
    settings = RestartSettings(max_restarts=9, first_delay_s=600.0, longest_delay_s=300.0)

    assert decided(an_attempt(), an_attempt(), settings=settings).delay_s == 600.0


ATTEMPTS = st.lists(
    st.builds(
        an_attempt,
        st.sampled_from(list(Verdict)),
        code=st.sampled_from([1, 7, 137]),
        ran_s=st.floats(0.0, 1e6),
        ended_at_s=st.floats(0.0, 1e6),
    ),
    min_size=1,
    max_size=80,
)
SETTINGS = st.builds(
    RestartSettings,
    max_restarts=st.integers(0, 5),
    window_s=st.none() | st.floats(1.0, 1e6),
    first_delay_s=st.floats(0.0, 600.0),
    longest_delay_s=st.floats(1.0, 300.0),
    verdicts=st.lists(st.sampled_from(EVERY_FAILURE), unique=True).map(tuple),
)


@given(settings=SETTINGS, past=ATTEMPTS, now_s=st.floats(0.0, 2e6))
def test_whatever_happened_the_promises_hold(
    settings: RestartSettings, past: list[PastAttempt], now_s: float
) -> None:
    """A restart has a verdict that was asked for, room, and a pause within its bounds."""
    decision = decide(settings, past, now_s)

    assert decision.reason
    assert "\n" not in decision.reason
    assert 0 <= decision.left <= settings.max_restarts
    if not decision.restarts:
        assert decision.delay_s == 0.0
        return
    assert past[-1].ending.verdict in settings.verdicts
    assert decision.left < settings.max_restarts
    longest_s = max(settings.longest_delay_s, settings.first_delay_s)
    assert settings.first_delay_s <= decision.delay_s <= longest_s


@given(settings=SETTINGS, attempt=st.builds(an_attempt, st.sampled_from(EVERY_FAILURE)))
def test_a_launcher_never_restarts_more_often_than_it_may(
    settings: RestartSettings, attempt: PastAttempt
) -> None:
    """However it goes on failing; the clock stands still, so that all are in the window."""
    past = [attempt]
    while decide(settings, past, attempt.ended_at_s).restarts:
        past.append(attempt)

    assert len(past) - 1 <= settings.max_restarts


@given(settings=SETTINGS, past=ATTEMPTS, now_s=st.floats(0.0, 1e6), later_s=st.floats(0.0, 1e6))
def test_waiting_never_takes_a_restart_away(
    settings: RestartSettings, past: list[PastAttempt], now_s: float, later_s: float
) -> None:
    """Restarts leave the window as time goes on; none comes back."""
    now, later = decide(settings, past, now_s), decide(settings, past, now_s + later_s)

    assert later.left >= now.left
    assert later.restarts >= now.restarts


def test_nothing_is_begun_again_once_we_were_told_to_stop() -> None:
    """Also where that came when the program had ended by itself."""
    past = (an_attempt(),)

    decision = decide(THREE, past, past[-1].ended_at_s, is_stopped=True)

    assert not decision.restarts
    assert decision.reason == "we were told to stop; 3 of 3 restarts left"
