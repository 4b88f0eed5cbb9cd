"""Stopped on request, or ended by itself in time."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Output
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.worker_news import RankExit, WorkerNews
from tests.builders import a_process_exit
from tests.recorded import recorded

OPEN_MPI, MPICH, INTEL = Implementation.OPEN_MPI, Implementation.MPICH, Implementation.INTEL_MPI
ALL = (OPEN_MPI, MPICH, INTEL)


def stopped(
    code: int,
    *,
    mpi: Implementation = OPEN_MPI,
    by: signal.Signals = signal.SIGTERM,
    with_: signal.Signals = signal.SIGTERM,
    mpirun_was_told: bool = False,
    output: Output | None = None,
    news: tuple[WorkerNews, ...] = (),
) -> Evidence:
    """Return what is known of a program that was to be stopped, and whose ranks were told so."""
    return Evidence(
        process_exit=a_process_exit(code=code),
        program='"pi"',
        implementation=mpi,
        output=output or Output(),
        news=news,
        stopped_by=by,
        stop_signal=with_,
        mpirun_was_told=mpirun_was_told,
        ranks_were_told=True,
    )


@pytest.mark.parametrize("mpi", ALL)
def test_a_program_that_ends_with_0_in_time_has_succeeded(mpi: Implementation) -> None:
    """Its ranks were told and mpirun was not: nobody hides anything."""
    ending = conclude(stopped(0, mpi=mpi))

    assert (ending.verdict, ending.exit_code) == (Verdict.SUCCEEDED, 0)


@pytest.mark.parametrize("mpi", ALL)
@pytest.mark.parametrize("code", [3, 7, 75])
def test_a_program_that_ends_by_itself_in_time_keeps_its_own_code(
    code: int, mpi: Implementation
) -> None:
    """A checkpointer may have one for it."""
    ending = conclude(stopped(code, mpi=mpi))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert ending.summary.endswith("; it had been told to stop")


@pytest.mark.parametrize(
    ("by", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("with_", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("mpi", ALL)
def test_ranks_that_died_of_the_stops_signal_were_stopped(
    by: signal.Signals, code: int, with_: signal.Signals, mpi: Implementation
) -> None:
    """128 + the signal that we got, whatever the ranks got."""
    ending = conclude(stopped(128 + with_, mpi=mpi, by=by, with_=with_))

    assert (ending.verdict, ending.exit_code) == (Verdict.STOPPED, code)


@pytest.mark.parametrize(
    "name",
    [
        "ompi4-rank-sigterm",
        "ompi5-rank-sigterm",
        "mpich4-rank-sigterm",
        "mpich4-ranks-sigterm",
        "mpich5-rank-sigterm-one-host",
        "impi-rank-sigterm",
        "impi-rank-sigterm-one-host",
    ],
)
def test_ranks_that_died_of_the_stops_signal_are_known_under_every_launcher(name: str) -> None:
    """With 143, 255, 137 or 15."""
    run = recorded(name)

    ending = conclude(stopped(run.code or 0, mpi=run.implementation, output=run.output))

    assert (ending.verdict, ending.exit_code) == (Verdict.STOPPED, 143)


@pytest.mark.parametrize("code", [15, 137, 255])
@pytest.mark.parametrize("mpi", [MPICH, INTEL])
def test_a_code_of_hydra_that_tells_nothing_is_a_stop(code: int, mpi: Implementation) -> None:
    """Unless a worker saw what the program ended with."""
    told = WorkerNews(host="w-1", rank_exits=(RankExit(rank=0, code=7, signal=None, at_s=1.0),))

    assert conclude(stopped(code, mpi=mpi)).verdict is Verdict.STOPPED
    assert conclude(stopped(code, mpi=mpi, news=(told,))).exit_code == 7


def test_a_rank_that_died_of_the_stops_signal_counts_before_what_its_peers_ended_with() -> None:
    """Open MPI names the one that failed when its peer was gone."""
    run = recorded("ompi5-rank-exit7")
    told = WorkerNews(host="w-1", rank_exits=(RankExit(rank=0, code=None, signal=15, at_s=1.0),))

    assert conclude(stopped(7, output=run.output, news=(told,))).verdict is Verdict.STOPPED
    assert conclude(stopped(7, output=run.output)).exit_code == 7


def gone(rank: int, at_s: float, *, code: int | None = None, by: int | None = None) -> RankExit:
    """Return how a rank ended."""
    return RankExit(rank=rank, code=code, signal=by, at_s=at_s)


OWN_EXIT, CRASH = gone(0, 10.0, code=3), gone(0, 10.0, by=11)


@pytest.mark.parametrize(("own", "code"), [(OWN_EXIT, 3), (CRASH, 139)])
@pytest.mark.parametrize("after_s", [-0.2, 0.0, 0.1, 2.0])
def test_ranks_that_the_launcher_ends_after_one_that_ended_by_itself_are_bystanders(
    own: RankExit, code: int, after_s: float
) -> None:
    """Open MPI ends them by TERM, which a worker may be heard to tell first."""
    bystander = gone(1, own.at_s + after_s, by=15)
    told = (
        WorkerNews(host="w-1", rank_exits=(bystander,)),
        WorkerNews(host="w-0", rank_exits=(own,)),
    )

    ending = conclude(stopped(code, news=told))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)


@pytest.mark.parametrize("code", [3, 143, 1])
def test_a_rank_that_ends_by_itself_long_after_another_died_of_the_stop_was_stopped(
    code: int,
) -> None:
    """Its peer was gone."""
    told = WorkerNews(host="w-0", rank_exits=(gone(1, 8.0, by=15), OWN_EXIT))

    assert conclude(stopped(code, news=(told,))).verdict is Verdict.STOPPED


@pytest.mark.parametrize("mpi", ALL)
def test_a_stop_and_a_success_have_no_findings(mpi: Implementation) -> None:
    """Whatever was printed."""
    run = recorded("ompi5-ssh-refused")
    found = find_symptoms(run.output)
    known = replace(stopped(0, mpi=mpi, output=run.output), findings=found)

    assert found
    assert conclude(known).findings == ()
    assert conclude(replace(known, mpirun_was_told=True)).findings == ()


def test_a_crash_while_it_stops_is_a_failure() -> None:
    """Its own code: 139."""
    run = recorded("ompi5-rank-sigsegv")

    ending = conclude(stopped(139, output=run.output))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 139)


@pytest.mark.parametrize("mpi", ALL)
@pytest.mark.parametrize("code", [1, 7, 15, 143, 255])
def test_an_mpirun_that_was_told_says_only_that_it_was(code: int, mpi: Implementation) -> None:
    """Whatever it is."""
    ending = conclude(stopped(code, mpi=mpi, mpirun_was_told=True))

    assert (ending.verdict, ending.exit_code) == (Verdict.STOPPED, 143)
    assert ending.summary.startswith('"pi" was stopped on request after 1.5 s (mpirun: exit code')


@pytest.mark.parametrize(
    ("mpi", "verdict", "code"),
    [
        (OPEN_MPI, Verdict.SUCCEEDED, 0),
        (INTEL, Verdict.SUCCEEDED, 0),
        (MPICH, Verdict.STOPPED, 143),
    ],
)
def test_an_mpirun_that_was_told_and_ends_with_0_finished_unless_it_hides_stops(
    mpi: Implementation, verdict: Verdict, code: int
) -> None:
    """MPICH's ends with 0 though its ranks were killed."""
    ending = conclude(stopped(0, mpi=mpi, mpirun_was_told=True))

    assert (ending.verdict, ending.exit_code) == (verdict, code)


def test_a_success_without_a_stop_is_one_for_every_mpirun() -> None:
    """Nobody told it to stop, so there is nothing to hide."""
    assert conclude(replace(stopped(0, mpi=MPICH), stopped_by=None)).exit_code == 0


def test_a_stop_comes_before_what_the_agent_would_have_ended_it_for() -> None:
    """Whoever asks for a stop gets one."""
    alarm = Alarm(kind=AlarmKind.WORKERS_LOST, why="no answer")

    assert conclude(replace(stopped(1), alarm=alarm)).exit_code == 143


@pytest.mark.parametrize("name", ["ompi5-kill9-daemon", "ompi4-kill9-daemon", "impi-kill-worker"])
def test_daemons_that_go_while_a_program_is_stopped_are_not_lost(name: str) -> None:
    """They were told to."""
    run = recorded(name)
    known = stopped(1, mpi=run.implementation, output=run.output, mpirun_was_told=True)

    assert conclude(known).verdict is Verdict.STOPPED
