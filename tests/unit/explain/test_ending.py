"""How a program ended, in one sentence and one code."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from mpi_agent.explain.ending import blame_hosts, conclude, on_fewer_hosts, with_news
from mpi_agent.explain.exit_status import describe_exit, describe_seconds
from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport
from mpi_agent.job.worker_news import WorkerNews
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


MIB, GIB = 1024**2, 1024**3


def out_of_memory(host: str, used: float | None, limit: float | None) -> WorkerNews:
    """Return news of a worker that ran out of memory; sizes are in GiB."""
    used_bytes = None if used is None else int(used * GIB)
    limit_bytes = None if limit is None else int(limit * GIB)
    return WorkerNews(host=host, kills=1, used_bytes=used_bytes, limit_bytes=limit_bytes)


@pytest.mark.parametrize(
    ("used", "limit", "words"),
    [
        (31.9, 32, "out of memory on w-3, 31.9 of 32 GiB"),
        (31.99, 32, "out of memory on w-3, 32 of 32 GiB"),
        (0.49, 0.5, "out of memory on w-3, 501.8 of 512 MiB"),
        (0.99, 1, "out of memory on w-3, 1 of 1 GiB"),
        (0.5, 1.5, "out of memory on w-3, 0.5 of 1.5 GiB"),
        (None, 32, "out of memory on w-3, limit 32 GiB"),
        (250, None, "out of memory on w-3, 250 GiB in use"),
        (None, None, "out of memory on w-3"),
    ],
)
def test_a_failure_while_a_worker_ran_out_of_memory_has_that_cause(
    used: float | None, limit: float | None, words: str
) -> None:
    """As far as the worker could tell how much it was."""
    failed = ended(137)
    ending = with_news(failed, [out_of_memory("w-3", used, limit)])

    assert ending.summary == f"{failed.summary}: {words}"
    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 137)


@pytest.mark.parametrize(("code", "by_signal"), [(137, None), (None, 9), (1, None), (255, None)])
def test_memory_explains_a_failure_however_mpirun_tells_it(
    code: int | None, by_signal: int | None
) -> None:
    """Hydra says 1 or 255 where a rank was killed; the code stays."""
    failed = ended(code, by_signal=by_signal)
    ending = with_news(failed, [out_of_memory("w-3", 31.9, 32)])

    assert ending.summary == f"{failed.summary}: out of memory on w-3, 31.9 of 32 GiB"
    assert ending.exit_code == failed.exit_code


def test_several_workers_that_ran_out_of_memory_are_folded() -> None:
    """With the numbers of the first one."""
    hosts = [out_of_memory(f"w-{number}", 31.9, 32) for number in (1, 2, 3)]

    assert with_news(ended(137), hosts).summary.endswith(
        ": out of memory on w-[1-3], 31.9 of 32 GiB on w-1"
    )


RANKS_TOLD = WorkerNews(host="w-1", is_evicted=True, ranks=4)
IDLE = WorkerNews(host="w-2", is_evicted=True)
GRACE_OVER = WorkerNews(host="w-3", is_evicted=True, ranks=4, is_lost=True)
DAEMON_ENDED = WorkerNews(host="w-4", is_evicted=True, is_lost=True)
GAVE_UP = WorkerNews(host="w-5", is_lost=True)


def test_evictions_are_told_with_what_became_of_the_worker() -> None:
    """After the cause, if there is one."""
    told = with_news(ended(1), [RANKS_TOLD, IDLE, GRACE_OVER, GAVE_UP]).summary
    both = with_news(ended(1), [out_of_memory("w-0", None, None), RANKS_TOLD]).summary

    evicted = "w-[1,3] were evicted, w-2 was evicted when no program ran there, w-5 went away"
    assert told == f"{ended(1).summary}; {evicted}"
    assert both == f"{ended(1).summary}: out of memory on w-0; w-1 was evicted"


@pytest.mark.parametrize(
    "ending", [ended(0), ended(1, stop=signal.SIGTERM)], ids=["success", "stop"]
)
def test_what_workers_tell_is_a_remark_to_an_ending_that_has_its_reason(ending: Ending) -> None:
    """A program that saved and ended with 0 when its worker was evicted has succeeded."""
    told = with_news(ending, [out_of_memory("w-0", None, None), RANKS_TOLD])

    assert told.summary == f"{ending.summary}; out of memory on w-0; w-1 was evicted"
    assert (told.verdict, told.exit_code) == (ending.verdict, ending.exit_code)


@pytest.mark.parametrize("code", [0, 1, 255])
@pytest.mark.parametrize("lost", [GRACE_OVER, DAEMON_ENDED, GAVE_UP], ids=lambda news: news.host)
def test_a_program_that_was_ended_on_a_worker_is_no_success_and_no_failure_of_its_own(
    code: int, lost: WorkerNews
) -> None:
    """Open MPI 5 says any of these; a retry may help."""
    told = with_news(ended(code), [lost])

    assert (told.verdict, told.exit_code) == (Verdict.WORKERS_LOST, 201)
    assert f"{lost.host} w" in told.summary
    assert "succeeded" not in told.summary


def test_a_success_that_is_none_names_who_was_lost_under_it_and_the_others_apart() -> None:
    """With mpirun's own word."""
    news = [GRACE_OVER, RANKS_TOLD, out_of_memory("w-0", None, None)]

    assert with_news(ended(0), news).summary == (
        "the program cannot have finished: w-3 was evicted while it ran (mpirun: exit code 0)"
        "; out of memory on w-0; w-1 was evicted"
    )


@pytest.mark.parametrize("code", [1, 137, 255])
def test_a_program_that_fails_once_ranks_of_it_were_told_to_go_lost_that_worker(code: int) -> None:
    """Its ranks there left, which the others do not survive."""
    told = with_news(ended(code), [RANKS_TOLD])

    assert (told.verdict, told.exit_code) == (Verdict.WORKERS_LOST, 201)


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_an_eviction_where_no_program_ran_changes_neither_verdict_nor_code(code: int) -> None:
    """The ranks there had ended before, or it never had any."""
    told = with_news(ended(code), [IDLE])

    assert told.summary == f"{ended(code).summary}; w-2 was evicted when no program ran there"
    assert (told.verdict, told.exit_code) == (ended(code).verdict, ended(code).exit_code)


@pytest.mark.parametrize("news", [RANKS_TOLD, IDLE, GRACE_OVER], ids=lambda news: news.host)
def test_a_stop_beside_an_eviction_stays_a_stop(news: WorkerNews) -> None:
    """The operator deletes all pods at once."""
    told = with_news(ended(1, stop=signal.SIGTERM), [news])

    assert (told.verdict, told.exit_code) == (Verdict.STOPPED, 143)


def test_a_program_on_fewer_hosts_is_a_lost_worker_only_where_one_was_lost_under_it() -> None:
    """Mpirun said 0, so the ranks that were told to go did not make it fail."""
    fewer = on_fewer_hosts(ended(0), WHY, ended_for_it=False)

    assert with_news(fewer, [RANKS_TOLD]).exit_code == 78
    assert with_news(fewer, [GRACE_OVER]).exit_code == 201


def test_news_that_comes_later_is_weighed_with_what_came_before() -> None:
    """The same ending, whatever was known at the first look."""
    first = with_news(ended(0), [RANKS_TOLD])
    later = with_news(ended(0), [replace(RANKS_TOLD, is_lost=True)])

    assert (first.exit_code, later.exit_code) == (0, 201)


def test_an_ending_without_news_stays_as_it_is() -> None:
    """Most do."""
    assert with_news(ended(7), []) == ended(7)
