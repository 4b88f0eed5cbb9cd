"""The table of what a stop does: whom it reaches, with what, and when."""

from __future__ import annotations

import signal

import pytest

from mpi_agent.command.topics import Family
from mpi_agent.job.alarms import AlarmKind
from mpi_agent.run.stopping import Phase, Step, Stopping, StopTerms, Told, Whom

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
KILL, USR1, USR2, QUIT = signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT
GRACE_S = 24.0
ALL = Told(everywhere=True, ranks=4)
SOME = Told(everywhere=False, ranks=2)
NOBODY = Told(everywhere=True, ranks=0, without_ranks=("w-0", "w-1"))


def a_stop(
    *,
    grace_s: float = GRACE_S,
    stop_signal: signal.Signals = TERM,
    family: Family | None = Family.OPEN_MPI,
) -> Stopping:
    """Return a program that runs."""
    return Stopping(StopTerms(grace_s=grace_s, stop_signal=stop_signal, family=family))


def of(steps: tuple[Step, ...]) -> list[tuple[Whom, signal.Signals]]:
    """Return who gets what."""
    return [(step.whom, step.signal) for step in steps]


def begun(stopping: Stopping, number: signal.Signals = TERM, at_s: float = 100.0) -> Step:
    """Return the step with which a stop begins."""
    (step,) = stopping.received(number, at_s)
    return step


@pytest.mark.parametrize("number", [TERM, INT, HUP], ids=lambda number: number.name)
def test_a_stop_reaches_the_ranks_first_by_their_own_signal(number: signal.Signals) -> None:
    """Whatever we were sent."""
    stopping = a_stop()

    step = begun(stopping, number)

    assert (step.whom, step.signal, step.begins_stop) == (Whom.RANKS, TERM, True)
    assert stopping.stopped_by is number
    assert not stopping.mpirun_was_told


def test_mpirun_is_left_alone_until_the_reserve_when_all_ranks_were_told() -> None:
    """They have nearly all of the grace to save what they have."""
    stopping = a_stop()
    step = begun(stopping)

    assert stopping.answered(step, told=ALL, now_s=101.0) == ()
    assert stopping.next_at_s == 100.0 + GRACE_S - 3.0
    assert not stopping.mpirun_was_told
    assert of(stopping.at(100.0 + GRACE_S - 3.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.mpirun_was_told
    assert stopping.next_at_s == 100.0 + GRACE_S
    assert of(stopping.at(100.0 + GRACE_S)) == [(Whom.MPIRUN, KILL)]
    assert stopping.next_at_s is None


def test_mpirun_gets_the_signal_at_once_when_not_all_ranks_were_told() -> None:
    """Its own path is the only one; INT stays INT."""
    stopping = a_stop()
    step = begun(stopping, INT)

    assert of(stopping.answered(step, told=SOME, now_s=101.0)) == [(Whom.MPIRUN, INT)]
    assert stopping.next_at_s == 100.0 + GRACE_S
    assert (stopping.mpirun_was_told, stopping.ranks_were_told) == (True, False)


def test_an_answer_is_awaited_for_three_seconds() -> None:
    """Then mpirun is told; an answer that comes later changes nothing but what is known."""
    stopping = a_stop()
    step = begun(stopping)

    assert stopping.next_at_s == 103.0
    assert of(stopping.at(103.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.answered(step, told=ALL, now_s=104.0) == ()
    assert stopping.ranks_were_told
    assert stopping.next_at_s == 100.0 + GRACE_S


def test_a_short_grace_does_not_wait_longer_for_an_answer_than_mpirun_can_wait() -> None:
    """The reserve is a quarter of it."""
    stopping = a_stop(grace_s=2.0)
    begun(stopping)

    assert stopping.next_at_s == 101.5
    assert of(stopping.at(101.5)) == [(Whom.MPIRUN, TERM)]
    assert of(stopping.at(102.0)) == [(Whom.MPIRUN, KILL)]


def test_no_grace_kills_at_once() -> None:
    """Who asks for 0 s means it."""
    stopping = a_stop(grace_s=0.0)
    begun(stopping)

    assert of(stopping.at(100.0)) == [(Whom.MPIRUN, KILL)]


@pytest.mark.parametrize("all_told", [True, False], ids=["all told", "by mpirun"])
def test_ranks_that_are_to_get_usr1_keep_the_grace_either_way(*, all_told: bool) -> None:
    """Mpirun passes USR1 on and goes on; TERM would end the ranks half a second later."""
    stopping = a_stop(stop_signal=USR1)
    step = begun(stopping)

    passed = stopping.answered(step, told=ALL if all_told else SOME, now_s=101.0)

    assert of(passed) == ([] if all_told else [(Whom.MPIRUN, USR1)])
    assert not stopping.mpirun_was_told
    assert of(stopping.at(121.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.mpirun_was_told


@pytest.mark.parametrize("was_told", [True, False], ids=["ranks first", "still asking"])
def test_the_second_stop_tells_mpirun_and_leaves_three_seconds(*, was_told: bool) -> None:
    """Somebody is in a hurry."""
    stopping = a_stop()
    step = begun(stopping, INT)
    if was_told:
        stopping.answered(step, told=ALL, now_s=101.0)

    assert of(stopping.received(INT, 102.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.next_at_s == 105.0
    assert stopping.stopped_by is INT


def test_the_second_stop_gives_no_more_time_than_is_left() -> None:
    """It shortens."""
    stopping = a_stop()
    begun(stopping)
    stopping.at(103.0)
    stopping.received(TERM, 100.0 + GRACE_S - 1.0)

    assert stopping.next_at_s == 100.0 + GRACE_S


def test_the_third_stop_kills_at_once() -> None:
    """And nothing comes after that."""
    stopping = a_stop()
    begun(stopping)
    stopping.received(INT, 101.0)

    assert of(stopping.received(TERM, 101.5)) == [(Whom.MPIRUN, KILL)]
    assert stopping.phase is Phase.KILLED
    assert stopping.next_at_s is None
    assert stopping.alarmed(102.0) == ()
    assert stopping.next_at_s is None


def test_usr1_goes_to_the_ranks_and_to_mpirun_only_where_they_were_not_all_told() -> None:
    """It is no stop, and nobody is in a hurry."""
    stopping = a_stop()
    (step,) = stopping.received(USR1, 100.0)

    assert (step.whom, step.signal, step.begins_stop) == (Whom.RANKS, USR1, False)
    assert stopping.answered(step, told=ALL, now_s=101.0) == ()
    assert of(stopping.answered(step, told=SOME, now_s=101.0)) == [(Whom.MPIRUN, USR1)]
    assert (stopping.phase, stopping.next_at_s) == (Phase.RUNNING, None)
    assert (stopping.stopped_by, stopping.mpirun_was_told) == (None, False)


def test_hydra_never_gets_usr2() -> None:
    """It would end by it; ranks that could not be told directly go without."""
    stopping = a_stop(family=Family.HYDRA)
    (step,) = stopping.received(USR2, 100.0)

    assert stopping.answered(step, told=SOME, now_s=101.0) == ()


def test_hydra_gets_term_where_not_all_ranks_could_be_told_usr2() -> None:
    """A stop has to reach them somehow."""
    stopping = a_stop(family=Family.HYDRA, stop_signal=USR2)
    step = begun(stopping)

    assert of(stopping.answered(step, told=SOME, now_s=101.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.phase is Phase.ENDING


def test_the_answer_to_a_usr1_is_none_to_the_stop_that_came_meanwhile() -> None:
    """Even where the ranks are stopped by the same signal."""
    stopping = a_stop(stop_signal=USR1)
    (step,) = stopping.received(USR1, 100.0)
    begun(stopping, TERM, 100.5)
    stopping.answered(step, told=ALL, now_s=101.0)

    assert stopping.phase is Phase.ASKING
    assert not stopping.ranks_were_told


def test_quit_goes_to_mpirun_alone() -> None:
    """It asks for a core, and is no stop."""
    stopping = a_stop()

    assert of(stopping.received(QUIT, 100.0)) == [(Whom.MPIRUN, QUIT)]
    assert stopping.stopped_by is None


@pytest.mark.parametrize(("grace_s", "left_s"), [(24.0, 3.0), (2.0, 2.0)])
def test_an_alarm_ends_mpirun_and_leaves_five_seconds_at_most(
    grace_s: float, left_s: float
) -> None:
    """Nobody has anything to save."""
    stopping = a_stop(grace_s=grace_s)

    assert of(stopping.alarmed(100.0)) == [(Whom.MPIRUN, TERM)]
    assert stopping.next_at_s == 100.0 + left_s
    assert stopping.mpirun_was_told


def test_an_alarm_does_not_give_a_stop_more_time() -> None:
    """The grace has begun already."""
    stopping = a_stop()
    begun(stopping)
    stopping.alarmed(100.0 + GRACE_S - 2.0)

    assert stopping.next_at_s == 100.0 + GRACE_S


def test_a_stop_after_an_alarm_is_passed_on_and_the_next_ones_count() -> None:
    """Mpirun is told already, and nobody asks the ranks any more."""
    stopping = a_stop()
    stopping.alarmed(100.0)

    assert of(stopping.received(INT, 101.0)) == [(Whom.MPIRUN, INT)]
    assert stopping.next_at_s == 103.0
    assert of(stopping.received(INT, 101.5)) == [(Whom.MPIRUN, TERM)]
    assert stopping.next_at_s == 103.0
    assert of(stopping.received(INT, 102.0)) == [(Whom.MPIRUN, KILL)]


@pytest.mark.parametrize("kind", AlarmKind, ids=lambda kind: kind.name)
def test_alarms_about_ranks_are_not_heeded_once_they_were_told_to_stop(kind: AlarmKind) -> None:
    """One that ended was asked to; the others may still save what they have."""
    stopping = a_stop()
    assert stopping.heeds(kind)
    begun(stopping)

    is_about_ranks = kind in {AlarmKind.RANK_FAILED, AlarmKind.RANKS_STALLED}
    assert stopping.heeds(kind) is not is_about_ranks


@pytest.mark.parametrize("family", [*Family, None])
@pytest.mark.parametrize("stop_signal", [TERM, USR1])
def test_a_stop_that_no_rank_could_hear_goes_to_the_program_at_once(
    family: Family | None, stop_signal: signal.Signals
) -> None:
    """It is being started: ranks that come later would never know."""
    stopping = a_stop(family=family, stop_signal=stop_signal)
    step = begun(stopping, INT)

    assert of(stopping.answered(step, told=NOBODY, now_s=100.5)) == [(Whom.MPIRUN, INT)]
    assert stopping.phase is Phase.ENDING
    assert (stopping.ranks_were_told, stopping.mpirun_was_told) == (False, True)


def test_ranks_that_come_after_the_others_were_told_end_the_waiting() -> None:
    """They know of no stop, and only mpirun's own way reaches them without telling others twice."""
    stopping = a_stop()
    step = begun(stopping, INT)
    stopping.answered(step, told=ALL, now_s=101.0)

    assert of(stopping.late_ranks_came()) == [(Whom.MPIRUN, INT)]
    assert stopping.phase is Phase.ENDING
    assert stopping.late_ranks_came() == ()


def test_a_command_that_is_no_mpirun_passes_nothing_on() -> None:
    """A shell ends by USR1; where no rank is, the signal is for the command itself."""
    stopping = a_stop(family=None, stop_signal=USR1)
    (step,) = stopping.received(USR1, 99.0)
    assert stopping.answered(step, told=SOME, now_s=99.5) == ()
    assert of(stopping.answered(step, told=NOBODY, now_s=99.5)) == [(Whom.MPIRUN, USR1)]

    begin = begun(stopping, TERM)
    assert of(stopping.answered(begin, told=SOME, now_s=101.0)) == [(Whom.MPIRUN, TERM)]


def test_all_of_a_stop_is_over_four_seconds_after_the_kill() -> None:
    """Kubernetes kills five seconds after the usual grace."""
    stopping = a_stop()
    assert stopping.ends_at_s is None
    begun(stopping)

    assert stopping.ends_at_s == 100.0 + GRACE_S + 4.0
    stopping.at(100.0 + GRACE_S)
    assert stopping.ends_at_s == 100.0 + GRACE_S + 4.0
    stopping.received(TERM, 100.0 + GRACE_S + 1.0)
    assert stopping.ends_at_s == 100.0 + GRACE_S + 4.0


def test_further_stops_bring_the_end_of_all_nearer() -> None:
    """The second leaves three seconds, the third none."""
    stopping = a_stop()
    begun(stopping)

    stopping.received(INT, 102.0)
    assert stopping.ends_at_s == 109.0
    stopping.received(INT, 103.0)
    assert stopping.ends_at_s == 107.0


def test_an_alarm_alone_counts_nobodys_seconds() -> None:
    """Only a stop does, and no alarm gives it more."""
    stopping = a_stop()
    stopping.alarmed(100.0)
    assert stopping.ends_at_s is None

    stopping.received(TERM, 102.0)
    assert stopping.ends_at_s == 107.0
