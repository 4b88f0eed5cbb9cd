"""Runs: who holds them, when they expire, and for whom they are nobody's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.ssh.worker_words import LauncherId
from mpi_agent.worker.runs import Run, Runs

PI = LauncherId(name="pi-launcher", container="first")
PI_RESTARTED = LauncherId(name="pi-launcher", container="second")
OTHER = LauncherId(name="e-launcher", container="first")
LEASE_S = 60.0


def ids_of(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """Return the run ids."""
    return tuple(run.run_id for run in runs)


def a_watched_run(launcher: LauncherId = PI, run_id: str = "a") -> Runs:
    """Return one run, held by conversation 1 since second 100."""
    runs = Runs()
    runs.begin(run_id, launcher, watcher=1, at_s=100.0)
    return runs


def test_a_run_begins_once_and_is_renewed_by_the_same_run_id() -> None:
    """The launcher that comes back is not a new job."""
    runs = Runs()

    assert runs.begin("a", PI, watcher=1, at_s=0.0)
    assert not runs.begin("a", PI, watcher=2, at_s=1.0)
    assert runs.begin("b", PI, watcher=3, at_s=1.0)
    assert ids_of(runs.open) == ("a", "b")


def test_a_run_expires_a_lease_after_the_last_word() -> None:
    """Not a moment before."""
    runs = a_watched_run()
    runs.heard("a", watcher=1, at_s=110.0)

    assert runs.next_expiry_s(LEASE_S) == 170.0
    assert ids_of(runs.expired(at_s=169.9, lease_s=LEASE_S)) == ()
    assert ids_of(runs.expired(at_s=170.0, lease_s=LEASE_S)) == ("a",)


def test_a_broken_connection_is_no_word() -> None:
    """A network that is cut, and breaks later, buys no second lease."""
    runs = a_watched_run()

    runs.unwatched("a", watcher=1)

    assert runs.next_expiry_s(LEASE_S) == 160.0


def test_without_a_lease_nothing_expires() -> None:
    """`--launcher-gone 0` is for ever."""
    runs = a_watched_run()

    assert runs.next_expiry_s(None) is None
    assert runs.expired(at_s=1e9, lease_s=None) == ()


def test_a_launcher_that_comes_back_renews_its_lease() -> None:
    """A reconnecting watch is a word."""
    runs = a_watched_run()
    runs.unwatched("a", watcher=1)

    runs.begin("a", PI, watcher=2, at_s=150.0)

    assert runs.next_expiry_s(LEASE_S) == 210.0
    assert runs.nobodys(PI) == ()


def test_the_end_of_an_older_conversation_says_nothing() -> None:
    """It may be noticed long after the launcher came back."""
    runs = a_watched_run()
    runs.begin("a", PI, watcher=2, at_s=105.0)

    assert runs.unwatched("a", watcher=1) is None
    runs.heard("a", watcher=1, at_s=150.0)

    assert runs.next_expiry_s(LEASE_S) == 165.0
    assert runs.nobodys(PI) == ()


@pytest.mark.parametrize(
    ("asker", "is_nobodys"),
    [(PI, False), (OTHER, False), (None, False), (PI_RESTARTED, True)],
)
def test_a_watched_run_is_nobodys_for_its_restarted_launcher_alone(
    asker: LauncherId | None, is_nobodys: bool
) -> None:
    """Two launches at a time are legal, in one container and in two."""
    assert bool(a_watched_run().nobodys(asker)) is is_nobodys


@pytest.mark.parametrize("asker", [PI, OTHER, PI_RESTARTED, None])
def test_a_run_that_nobody_holds_is_nobodys_for_everybody(asker: LauncherId | None) -> None:
    """Its launcher is gone, whoever it was."""
    runs = a_watched_run()
    runs.unwatched("a", watcher=1)

    assert ids_of(runs.nobodys(asker)) == ("a",)


def test_a_run_that_is_being_ended_is_open_until_nothing_is_left() -> None:
    """The next launcher has to wait for it."""
    runs = a_watched_run()

    assert ids_of(runs.ending("a", "unheard of")) == ("a",)
    assert ids_of(runs.open) == ("a",)
    assert ids_of(runs.nobodys(OTHER)) == ("a",)
    assert runs.expired(at_s=1e9, lease_s=LEASE_S) == ()
    assert runs.unwatched("a", watcher=1) is None
    runs.over("a")

    assert runs.open == ()


def test_a_run_of_which_something_does_not_go_is_open_and_still_being_ended() -> None:
    """It is nobody's, until it goes or its launcher comes back."""
    runs = a_watched_run()
    runs.stuck("a")
    assert not runs.open[0].is_stuck, "it is watched"

    runs.ending("a")
    runs.stuck("a", "unheard of")

    assert [run.is_stuck for run in runs.nobodys(OTHER)] == [True]
    assert runs.still_ending("a", "unheard of") == ("a",)
    runs.begin("a", PI, watcher=2, at_s=170.0)
    assert runs.still_ending("a") == ()
    assert not runs.open[0].is_stuck


def test_a_launcher_that_comes_back_while_its_run_is_ended_is_not_forgotten() -> None:
    """What is left of its run is watched again."""
    runs = a_watched_run()
    runs.ending("a")

    runs.begin("a", PI, watcher=2, at_s=170.0)
    runs.over("a")

    assert ids_of(runs.open) == ("a",)
    assert runs.nobodys(PI) == ()


def test_time_in_which_the_worker_could_not_listen_does_not_count() -> None:
    """A container that was frozen has heard nobody."""
    runs = a_watched_run()

    runs.excuse(300.0)

    assert runs.next_expiry_s(LEASE_S) == 460.0


RUN_IDS = st.sampled_from("ab")
WATCHERS = st.integers(1, 3)
LAUNCHERS = st.sampled_from((PI, PI_RESTARTED, OTHER))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), RUN_IDS, LAUNCHERS, WATCHERS),
        st.tuples(st.sampled_from(("heard", "unwatched")), RUN_IDS, WATCHERS),
        st.tuples(st.sampled_from(("ending", "stuck", "over")), RUN_IDS),
    ),
    max_size=30,
)


def take(runs: Runs, step: tuple[object, ...], at_s: float) -> None:
    """Let one thing happen."""
    name, run_id, *rest = step
    match name, rest:
        case "begin", (LauncherId() as launcher, int(watcher)):
            runs.begin(str(run_id), launcher, watcher=watcher, at_s=at_s)
        case "heard", (int(watcher),):
            runs.heard(str(run_id), watcher=watcher, at_s=at_s)
        case "unwatched", (int(watcher),):
            runs.unwatched(str(run_id), watcher=watcher)
        case "ending", ():
            runs.ending(str(run_id))
        case "stuck", ():
            runs.stuck(str(run_id))
        case "over", ():
            runs.over(str(run_id))


@given(STEPS)
def test_whatever_happens_a_run_ends_only_when_it_may(steps: list[tuple[object, ...]]) -> None:
    """Nobody's, expired and open fit together at every step."""
    runs = Runs()
    for at_s, step in enumerate(steps):
        before = ids_of(runs.open)
        take(runs, step, float(at_s))
        open_now = {run.run_id: run for run in runs.open}

        assert step[0] == "over" or set(before) <= set(open_now), "only `over` forgets"
        for run in open_now.values():
            assert not (run.is_ending and run.watcher is not None)
            assert run.is_ending or not run.is_stuck
            assert (run in runs.nobodys(run.launcher)) is (run.watcher is None)
            assert run.heard_at_s <= at_s
        expired = runs.expired(at_s=float(at_s), lease_s=5.0)
        next_s = runs.next_expiry_s(5.0)
        assert bool(expired) is (next_s is not None and next_s <= at_s)
        assert all(run.heard_at_s + 5.0 <= at_s and not run.is_ending for run in expired)


@given(STEPS)
def test_ended_runs_are_forgotten_in_any_order(steps: list[tuple[object, ...]]) -> None:
    """So that the mark in the state directory never stays."""
    runs = Runs()
    for at_s, step in enumerate(steps):
        take(runs, step, float(at_s))

    run_ids = ids_of(runs.open)
    runs.ending(*run_ids)
    runs.over(*run_ids)

    assert runs.open == ()
