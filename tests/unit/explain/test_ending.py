"""How a program ended, in one sentence and one code."""

from __future__ import annotations

import signal

import pytest

from mpi_agent.explain.ending import blame_hosts, conclude, on_fewer_hosts
from mpi_agent.explain.exit_status import describe_exit, describe_seconds
from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport
from mpi_agent.wait.ladder import advance
from tests.builders import a_probe_result, a_process_exit


def ended(code: int | None, *, by_signal: int | None = None, stop: int | None = None) -> Ending:
    """Return the ending of `pi` for an mpirun that exited so."""
    exit_ = a_process_exit(code=code, signal=by_signal)
    return conclude(exit_, program='"pi"', stopped_by=stop)


@pytest.mark.parametrize(
    ("code", "by_signal", "stop", "verdict", "exit_code"),
    [
        (0, None, None, Verdict.SUCCEEDED, 0),
        (7, None, None, Verdict.PROGRAM_FAILED, 7),
        (137, None, None, Verdict.PROGRAM_FAILED, 137),
        (None, 9, None, Verdict.PROGRAM_FAILED, 137),
        (1, None, signal.SIGTERM, Verdict.STOPPED, 143),
        (1, None, signal.SIGINT, Verdict.STOPPED, 130),
        (0, None, signal.SIGTERM, Verdict.SUCCEEDED, 0),
        (255, None, None, Verdict.LAUNCH_FAILED, 255),
    ],
)
def test_verdict_and_code(
    code: int | None,
    by_signal: int | None,
    stop: int | None,
    verdict: Verdict,
    exit_code: int,
) -> None:
    """The program's code comes back; being told to stop is 128 + the signal."""
    ending = ended(code, by_signal=by_signal, stop=stop)

    assert (ending.verdict, ending.exit_code) == (verdict, exit_code)


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_success_after_a_stop_is_a_stop_for_an_mpirun_that_hides_it(
    stop: signal.Signals, code: int
) -> None:
    """MPICH's ends with 0 though its ranks were killed."""
    ending = conclude(a_process_exit(code=0), program='"pi"', stopped_by=stop, hides_stops=True)

    assert (ending.verdict, ending.exit_code) == (Verdict.STOPPED, code)


def test_a_success_without_a_stop_is_one_for_every_mpirun() -> None:
    """Nobody told it to stop, so there is nothing to hide."""
    ending = conclude(a_process_exit(code=0), program='"pi"', stopped_by=None, hides_stops=True)

    assert (ending.verdict, ending.exit_code) == (Verdict.SUCCEEDED, 0)


@pytest.mark.parametrize("code", [132, 183, 213, 250, 255])
def test_a_code_of_failed_starts_is_the_programs_once_every_host_was_dialled(code: int) -> None:
    """Intel's mpiexec ends with 255 for a program that aborted."""
    ending = conclude(
        a_process_exit(code=code), program='"pi"', stopped_by=None, started_everywhere=True
    )

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert ended(code).verdict is Verdict.LAUNCH_FAILED


def test_the_summary_is_one_line_with_the_cause() -> None:
    """It fits `kubectl describe`."""
    assert ended(7).summary == '"pi" failed with exit code 7 after 1.5 s'
    assert "\n" not in ended(1, stop=signal.SIGTERM).summary


def test_a_failed_launch_names_who_went_away_after_the_wait() -> None:
    """And is left as it is while everybody still lets us in."""
    gone = advance(
        HostReadiness(host="w-1"), a_probe_result("w-1", obstacle=Obstacle.PORT_REFUSED), pause_s=1
    )
    there = HostReadiness(host="w-0", is_ready=True)

    def blamed(*hosts: HostReadiness) -> str:
        report = ReadinessReport(hosts=hosts, elapsed_s=1.0, timeout_s=3.0)
        return blame_hosts(ended(255), report).summary

    assert blamed(there, gone).endswith("; w-1 went away after the wait: connection refused")
    assert blamed(there) == ended(255).summary


@pytest.mark.parametrize(
    ("code", "by_signal", "words"),
    [
        (7, None, "exit code 7"),
        (137, None, "exit code 137 (128 + SIGKILL)"),
        (None, 11, "signal 11 (SIGSEGV)"),
        (200, None, "exit code 200"),
    ],
)
def test_an_exit_in_words(code: int | None, by_signal: int | None, words: str) -> None:
    """Signals have names."""
    assert describe_exit(a_process_exit(code=code, signal=by_signal)) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(1.72, "1.7 s"), (250, "4 min 10 s"), (8040, "2 h 14 min")]
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    """As people say it."""
    assert describe_seconds(seconds) == words


def test_an_exit_has_a_code_or_a_signal() -> None:
    """Never both, never neither."""
    with pytest.raises(ValueError, match="by a code or by a signal"):
        ProcessExit(pid=1, code=0, signal=9, started_at_s=0, ended_at_s=1)


WHY = "mpirun dialled 0 of 2 hosts and never w-[0-1]"


def test_a_success_on_fewer_hosts_is_none() -> None:
    """The work of one host is not the work of the job (promise P1)."""
    ending = on_fewer_hosts(ended(0), WHY, ended_for_it=False)

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, 78)
    assert ending.summary == f"the program ran on fewer hosts than the job has: {WHY}"


def test_a_program_that_was_ended_for_it_has_failed_to_launch() -> None:
    """Mpirun's code is then only that of our TERM."""
    ending = on_fewer_hosts(ended(1), WHY, ended_for_it=True)

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, 78)


def test_another_failure_keeps_its_code_and_names_the_hosts() -> None:
    """It came first."""
    ending = on_fewer_hosts(ended(7), WHY, ended_for_it=False)

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 7)
    assert ending.summary == f"{ended(7).summary}; {WHY}"


def test_a_stop_that_mpirun_hid_is_no_success_on_fewer_hosts() -> None:
    """It was stopped while hosts were still being dialled."""
    stopped = conclude(
        a_process_exit(code=0), program='"pi"', stopped_by=signal.SIGTERM, hides_stops=True
    )

    assert on_fewer_hosts(stopped, WHY, ended_for_it=False).exit_code == 143


@pytest.mark.parametrize("ended_for_it", [True, False])
def test_a_program_that_was_stopped_stays_stopped(*, ended_for_it: bool) -> None:
    """Whoever stops a start leaves hosts out."""
    stopped = ended(1, stop=signal.SIGTERM)

    assert on_fewer_hosts(stopped, WHY, ended_for_it=ended_for_it) == stopped
