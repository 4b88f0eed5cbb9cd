"""How a program ended, in one sentence and one code."""

from __future__ import annotations

import re
import signal
from dataclasses import replace

import pytest

from mpi_agent.explain.ending import blame_hosts, conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_exit, describe_seconds
from mpi_agent.explain.matcher import findings_of_news
from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.symptoms import Finding, Kind, Symptom
from mpi_agent.job.worker_news import RankExit, WorkerNews
from mpi_agent.wait.ladder import advance
from tests.builders import a_probe_result, a_process_exit


def evidence(
    code: int | None = 0,
    *news: WorkerNews,
    by_signal: int | None = None,
    stop: int | None = None,
    alarm: Alarm | None = None,
    not_dialled: str | None = None,
) -> Evidence:
    """Return what is known of `pi` when an mpirun of Open MPI exited so."""
    return Evidence(
        process_exit=a_process_exit(code=code, signal=by_signal),
        program='"pi"',
        implementation=Implementation.OPEN_MPI,
        news=news,
        stopped_by=stop,
        alarm=alarm,
        not_dialled=not_dialled,
    )


def ended(
    code: int | None,
    *news: WorkerNews,
    by_signal: int | None = None,
    stop: int | None = None,
    alarm: Alarm | None = None,
    not_dialled: str | None = None,
) -> Ending:
    """Return the ending of that."""
    return conclude(
        evidence(code, *news, by_signal=by_signal, stop=stop, alarm=alarm, not_dialled=not_dialled)
    )


@pytest.mark.parametrize(
    ("code", "by_signal", "stop", "verdict", "exit_code"),
    [
        (0, None, None, Verdict.SUCCEEDED, 0),
        (7, None, None, Verdict.PROGRAM_FAILED, 7),
        (137, None, None, Verdict.PROGRAM_FAILED, 137),
        (None, 9, None, Verdict.PROGRAM_FAILED, 137),
        (1, None, signal.SIGTERM, Verdict.STOPPED, 143),
        (1, None, signal.SIGINT, Verdict.STOPPED, 130),
        (1, None, signal.SIGHUP, Verdict.STOPPED, 129),
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


@pytest.mark.parametrize("code", [132, 183, 213, 250, 255])
def test_a_code_of_failed_starts_is_the_programs_once_every_host_was_dialled(code: int) -> None:
    """Intel's mpiexec ends with 255 for a program that aborted."""
    ending = conclude(replace(evidence(code), started_everywhere=True))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert ended(code).verdict is Verdict.LAUNCH_FAILED


@pytest.mark.parametrize(
    ("mpi", "codes"),
    [
        (Implementation.OPEN_MPI, {131, 132, 181, 183, 213, 243, 250, 255}),
        (Implementation.MPICH, {255}),
        (Implementation.INTEL_MPI, {141, 255}),
        (None, set()),
    ],
)
def test_each_launcher_has_its_own_codes_of_failed_starts(
    mpi: Implementation | None, codes: set[int]
) -> None:
    """And a script without one has none."""
    known = [replace(evidence(code), implementation=mpi) for code in range(1, 256)]

    failed = {e.code for e in known if conclude(e).verdict is Verdict.LAUNCH_FAILED}

    assert failed == codes


@pytest.mark.parametrize("code", [131, 132, 183, 205, 213, 250, 255])
def test_a_code_alone_tells_nothing_of_a_single_rank_a_script_or_a_long_run(code: int) -> None:
    """Open MPI 5 names the rank that ended badly only among several."""
    single = replace(evidence(code), np=1)
    seen = replace(single, ranks_were_seen=True)
    script = replace(evidence(code), starts_ranks_itself=True)
    long = replace(evidence(code), process_exit=an_exit_after_an_hour(code))

    for known in (single, seen, script, *([long] if code != 205 else [])):
        ending = conclude(known)
        assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)


def an_exit_after_an_hour(code: int) -> ProcessExit:
    """Return one of an mpirun."""
    return ProcessExit(pid=1, code=code, signal=None, started_at_s=10, ended_at_s=3610)


@pytest.mark.parametrize("code", [131, 132])
def test_a_code_that_the_launcher_made_up_is_no_signal(code: int) -> None:
    """Open MPI's 131 is no SIGQUIT."""
    found = (a_finding("wrong format", kind=Kind.CAUSE, verdict=Verdict.LAUNCH_FAILED),)
    known = replace(evidence(code), findings=found)

    for summary in (conclude(known).summary, conclude(replace(known, np=1)).summary):
        assert f"exit code {code}" in summary
        assert "SIG" not in summary


@pytest.mark.parametrize("code", [132, 183, 213, 250])
def test_a_code_of_failed_starts_is_the_programs_once_ranks_were_seen(code: int) -> None:
    """By a worker, or by whoever watches hosts without one."""
    by_worker = ended(code, WorkerNews(host="w-1", saw_ranks=True))
    by_others = conclude(replace(evidence(code), ranks_were_seen=True))

    assert by_worker.verdict is by_others.verdict is Verdict.PROGRAM_FAILED


def test_the_summary_is_one_line_with_the_cause() -> None:
    """It fits `kubectl describe`."""
    assert ended(7).summary == '"pi" failed with exit code 7 after 1.5 s'
    assert "\n" not in ended(1, stop=signal.SIGTERM).summary


def test_mpiruns_own_exit_is_kept_as_it_was() -> None:
    """Whatever the agent exits with."""
    assert ended(1, stop=signal.SIGTERM).process_exit == a_process_exit(code=1)


def a_finding(cause: str, *, kind: Kind, verdict: Verdict | None = None) -> Finding:
    """Return a symptom that was found."""
    symptom = Symptom(
        id="a-symptom",
        pattern=re.compile("a"),
        stacks=(),
        kind=kind,
        verdict=verdict,
        cause=cause,
        remedy="",
        source="",
    )
    return Finding(symptom=symptom, cause=cause)


def test_the_root_cause_explains_a_failure() -> None:
    """In the same line; what is only a consequence does not."""
    cause = a_finding("/dev/shm is full on w-1", kind=Kind.CAUSE)
    consequence = a_finding("a peer went away", kind=Kind.CONSEQUENCE)

    told = conclude(replace(evidence(7), findings=(cause, consequence)))

    assert told.summary == f"{ended(7).summary}: /dev/shm is full on w-1"
    assert told.findings == (cause, consequence)
    assert conclude(replace(evidence(7), findings=(consequence,))).summary == ended(7).summary


@pytest.mark.parametrize("stop", [None, signal.SIGTERM])
def test_a_success_needs_no_cause(stop: int | None) -> None:
    """A warning in the output is none."""
    found = (a_finding("/dev/shm is full on w-1", kind=Kind.CAUSE),)

    ending = conclude(replace(evidence(0, stop=stop), findings=found))

    assert ending.summary == ended(0).summary
    assert ending.findings == ()


def test_a_root_cause_of_failed_starts_tells_them_from_failed_programs() -> None:
    """Mpirun says 1 for both."""
    found = (
        a_finding("more processes than slots", kind=Kind.CAUSE, verdict=Verdict.LAUNCH_FAILED),
    )

    ending = conclude(replace(evidence(1), findings=found))

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, 1)


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
NOT_DIALLED = Alarm(kind=AlarmKind.HOSTS_NOT_DIALLED, why=WHY)


def test_a_success_on_fewer_hosts_is_none() -> None:
    """The work of one host is not the work of the job (promise P1)."""
    ending = ended(0, not_dialled=WHY)

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, 78)
    assert ending.summary == f"the program ran on fewer hosts than the job has: {WHY}"


def test_a_program_that_was_ended_for_it_has_failed_to_launch() -> None:
    """Mpirun's code is then only that of our TERM."""
    ending = ended(1, alarm=NOT_DIALLED, not_dialled=WHY)

    assert (ending.verdict, ending.exit_code) == (Verdict.LAUNCH_FAILED, 78)
    assert ending.summary == f"the program ran on fewer hosts than the job has: {WHY}"


def test_another_failure_keeps_its_code_and_names_the_hosts() -> None:
    """It came first."""
    ending = ended(7, not_dialled=WHY)

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 7)
    assert ending.summary == f"{ended(7).summary}; {WHY}"


@pytest.mark.parametrize("alarm", [NOT_DIALLED, None], ids=["ended for it", "not ended for it"])
def test_a_program_that_was_stopped_stays_stopped(alarm: Alarm | None) -> None:
    """Whoever stops a start leaves hosts out."""
    stopped = ended(1, stop=signal.SIGTERM, alarm=alarm, not_dialled=WHY)

    assert stopped == ended(1, stop=signal.SIGTERM)


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
    ending = ended(137, out_of_memory("w-3", used, limit))

    assert ending.summary == f"{ended(137).summary}: {words}"
    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 137)


def test_memory_is_a_remark_to_a_code_of_the_programs_own() -> None:
    """Who knows that one was for the other."""
    ending = ended(7, out_of_memory("w-3", 31.9, 32))

    assert ending.summary == f"{ended(7).summary}; out of memory on w-3, 31.9 of 32 GiB"


def test_memory_is_a_remark_to_a_rank_that_is_known_to_have_ended_otherwise() -> None:
    """A crash is one."""
    crash = RankExit(rank=0, code=None, signal=11, at_s=11.0)
    known = replace(out_of_memory("w-3", None, None), rank_exits=(crash,))

    ending = ended(1, known)

    assert ending.exit_code == 139
    assert ending.summary.endswith("(mpirun: exit code 1); out of memory on w-3")


@pytest.mark.parametrize(("code", "by_signal"), [(137, None), (None, 9), (1, None)])
def test_memory_explains_a_failure_however_mpirun_tells_it(
    code: int | None, by_signal: int | None
) -> None:
    """A code that may be the program's own stays."""
    ending = ended(code, out_of_memory("w-3", 31.9, 32), by_signal=by_signal)
    failed = ended(code, by_signal=by_signal)

    assert ending.summary == f"{failed.summary}: out of memory on w-3, 31.9 of 32 GiB"
    assert ending.exit_code == failed.exit_code


@pytest.mark.parametrize("code", [15, 255])
@pytest.mark.parametrize("mpi", [Implementation.MPICH, Implementation.INTEL_MPI])
def test_a_rank_that_was_killed_for_memory_is_137_whatever_hydra_says(
    code: int, mpi: Implementation
) -> None:
    """As Open MPI has it."""
    known = evidence(code, out_of_memory("w-3", 31.9, 32))

    ending = conclude(replace(known, implementation=mpi))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 137)
    assert ending.summary == (
        '"pi" failed with exit code 137 (128 + SIGKILL) of a rank on w-3 after 1.5 s'
        f": out of memory on w-3, 31.9 of 32 GiB (mpirun: exit code {code})"
    )


def test_several_workers_that_ran_out_of_memory_are_folded() -> None:
    """With the numbers of the first one."""
    hosts = [out_of_memory(f"w-{number}", 31.9, 32) for number in (1, 2, 3)]

    assert ended(137, *hosts).summary.endswith(": out of memory on w-[1-3], 31.9 of 32 GiB on w-1")


RANKS_TOLD = WorkerNews(host="w-1", is_evicted=True, ranks=4)
IDLE = WorkerNews(host="w-2", is_evicted=True)
GRACE_OVER = WorkerNews(host="w-3", is_evicted=True, ranks=4, is_lost=True)
DAEMON_ENDED = WorkerNews(host="w-4", is_evicted=True, is_lost=True)
GAVE_UP = WorkerNews(host="w-5", is_lost=True)


def test_evictions_are_told_with_what_became_of_the_worker() -> None:
    """Losses first, for they are the reason of all else, and without any other."""
    told = ended(1, RANKS_TOLD, IDLE, GRACE_OVER, GAVE_UP).summary
    both = ended(1, out_of_memory("w-0", None, None), RANKS_TOLD).summary

    assert told == (
        "w-[1,3] were evicted, w-5 went away after 1.5 s (mpirun: exit code 1)"
        "; w-2 was evicted when no program ran there"
    )
    assert both == "w-1 was evicted after 1.5 s (mpirun: exit code 1); out of memory on w-0"


@pytest.mark.parametrize(("code", "stop"), [(0, None), (0, signal.SIGTERM), (1, signal.SIGTERM)])
def test_what_workers_tell_is_a_remark_to_an_ending_that_has_its_reason(
    code: int, stop: int | None
) -> None:
    """A program that saved and ended with 0 when its worker was evicted has succeeded."""
    ending = ended(code, stop=stop)

    told = ended(code, out_of_memory("w-0", None, None), RANKS_TOLD, stop=stop)

    assert told.summary == f"{ending.summary}; out of memory on w-0; w-1 was evicted"
    assert (told.verdict, told.exit_code) == (ending.verdict, ending.exit_code)


@pytest.mark.parametrize("code", [0, 1, 255])
@pytest.mark.parametrize("lost", [GRACE_OVER, DAEMON_ENDED, GAVE_UP], ids=lambda news: news.host)
def test_a_program_that_was_ended_on_a_worker_is_no_success_and_no_failure_of_its_own(
    code: int, lost: WorkerNews
) -> None:
    """Open MPI 5 says any of these; a retry may help."""
    told = ended(code, lost)

    assert (told.verdict, told.exit_code) == (Verdict.WORKERS_LOST, 201)
    assert f"{lost.host} w" in told.summary
    assert "succeeded" not in told.summary
    assert [loss.host for loss in told.losses] == [lost.host]


def test_a_success_that_is_none_names_who_was_lost_under_it_and_the_others_apart() -> None:
    """With mpirun's own word."""
    assert ended(0, GRACE_OVER, RANKS_TOLD, out_of_memory("w-0", None, None)).summary == (
        "the program cannot have finished: w-3 was evicted while it ran (mpirun: exit code 0)"
        "; out of memory on w-0; w-1 was evicted"
    )


@pytest.mark.parametrize("code", [1, 137, 255])
def test_a_program_that_fails_once_ranks_of_it_were_told_to_go_lost_that_worker(code: int) -> None:
    """Its ranks there left, which the others do not survive."""
    told = ended(code, RANKS_TOLD)

    assert (told.verdict, told.exit_code) == (Verdict.WORKERS_LOST, 201)


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_an_eviction_where_no_program_ran_changes_neither_verdict_nor_code(code: int) -> None:
    """The ranks there had ended before, or it never had any."""
    told = ended(code, IDLE)

    assert told.summary == f"{ended(code).summary}; w-2 was evicted when no program ran there"
    assert (told.verdict, told.exit_code) == (ended(code).verdict, ended(code).exit_code)


@pytest.mark.parametrize("news", [RANKS_TOLD, IDLE, GRACE_OVER], ids=lambda news: news.host)
def test_a_stop_beside_an_eviction_stays_a_stop(news: WorkerNews) -> None:
    """The operator deletes all pods at once."""
    told = ended(1, news, stop=signal.SIGTERM)

    assert (told.verdict, told.exit_code) == (Verdict.STOPPED, 143)


def test_a_success_after_a_stop_is_none_where_a_worker_ended_what_was_left() -> None:
    """It did not finish by itself."""
    told = ended(0, GRACE_OVER, stop=signal.SIGTERM)

    assert (told.verdict, told.exit_code) == (Verdict.STOPPED, 143)


def test_a_program_on_fewer_hosts_is_a_lost_worker_only_where_one_was_lost_under_it() -> None:
    """Mpirun said 0, so the ranks that were told to go did not make it fail."""
    assert ended(0, RANKS_TOLD, not_dialled=WHY).exit_code == 78
    assert ended(0, GRACE_OVER, not_dialled=WHY).exit_code == 201


def test_news_that_comes_later_is_weighed_with_what_came_before() -> None:
    """The same ending, whatever was known at the first look."""
    first = ended(0, RANKS_TOLD)
    later = ended(0, replace(RANKS_TOLD, is_lost=True))

    assert (first.exit_code, later.exit_code) == (0, 201)


def test_rank_exits_that_are_good_change_nothing() -> None:
    """Most are."""
    done = WorkerNews(host="w-1", rank_exits=(RankExit(rank=0, code=0, signal=None, at_s=1.0),))
    unseen = WorkerNews(
        host="w-1", rank_exits=(RankExit(rank=0, code=None, signal=None, at_s=1.0),)
    )

    assert ended(0, done) == ended(0, unseen) == ended(0)
    assert ended(7, done) == ended(7, unseen) == ended(7)


LOST = HostLoss(
    host="pi-worker-3", why="no answer on TCP since 12:01:07", after_s=8040, noticed_after_s=12
)


def alarm(kind: AlarmKind, *, seen: bool = True, code: int | None = None) -> Alarm:
    """Return one of that kind."""
    return Alarm(kind=kind, why="for a reason", ranks_were_seen=seen, exit_code=code)


@pytest.mark.parametrize(
    ("raised", "verdict", "code", "words"),
    [
        (
            alarm(AlarmKind.START_TOO_LATE, seen=False),
            Verdict.LAUNCH_FAILED,
            200,
            '"pi" did not start in time: for a reason',
        ),
        (
            alarm(AlarmKind.START_TOO_LATE),
            Verdict.WORKERS_LOST,
            201,
            '"pi" did not start on every host in time: for a reason',
        ),
        (
            Alarm(kind=AlarmKind.WORKERS_LOST, why="for a reason", losses=(LOST,)),
            Verdict.WORKERS_LOST,
            201,
            "pi-worker-3 lost after 2 h 14 min: no answer on TCP since 12:01:07",
        ),
        (
            alarm(AlarmKind.RANK_FAILED, code=7),
            Verdict.PROGRAM_FAILED,
            7,
            '"pi" failed with exit code 7 after 1.5 s: for a reason',
        ),
        (
            alarm(AlarmKind.RANK_FAILED),
            Verdict.PROGRAM_FAILED,
            1,
            '"pi" failed after 1.5 s: for a reason',
        ),
        (
            alarm(AlarmKind.RANKS_STALLED),
            Verdict.STALLED,
            203,
            '"pi" stalled, and was ended after 1.5 s: for a reason',
        ),
    ],
)
@pytest.mark.parametrize("mpirun_code", [0, 1, 15, 143, 255])
def test_what_the_agent_ended_a_program_for_is_its_ending(
    raised: Alarm, verdict: Verdict, code: int, words: str, mpirun_code: int
) -> None:
    """Mpirun's code is then that of being ended."""
    ending = ended(mpirun_code, alarm=raised)

    assert (ending.verdict, ending.exit_code, ending.summary) == (verdict, code, words)
    assert ending.losses == raised.losses


def test_several_lost_hosts_are_told_in_the_words_of_whoever_noticed_them_together() -> None:
    """Only there stands that no host answers any more."""
    why = "no host answers any more: pi-worker-[3-4] lost: no answer on TCP since 12:01:07"
    losses = (LOST, replace(LOST, host="pi-worker-4"))

    ending = ended(1, alarm=Alarm(kind=AlarmKind.WORKERS_LOST, why=why, losses=losses))

    assert ending.summary == f"workers lost after 2 h 14 min: {why}"
    assert ending.losses == losses


def test_a_host_that_was_lost_because_it_was_evicted_was_evicted() -> None:
    """And is told so once, also where the worker says it itself."""
    evicted = replace(LOST, host="w-3", why="it was evicted")
    raised = Alarm(kind=AlarmKind.WORKERS_LOST, why="w-3 was evicted", losses=(evicted,))

    ending = ended(1, GRACE_OVER, alarm=raised)

    assert ending.summary == "w-3 was evicted after 2 h 14 min"
    assert ending.losses == (evicted,)


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_a_lost_worker_is_told_once_and_nothing_else_is_the_cause(code: int) -> None:
    """Whatever mpirun made of it."""
    found = (
        a_finding("the program said so", kind=Kind.CAUSE, verdict=Verdict.PROGRAM_FAILED),
        a_finding("it was evicted", kind=Kind.CAUSE, verdict=Verdict.WORKERS_LOST),
    )

    ending = conclude(replace(evidence(code, GRACE_OVER), findings=found))

    assert ending.summary.count("w-3") == 1
    assert "failed" not in ending.summary
    assert "said so" not in ending.summary
    assert ending.findings[0].cause == "it was evicted"
    assert [loss.why for loss in ending.losses] == ["it was evicted"]


@pytest.mark.parametrize("number", [9, 11, 15])
def test_an_mpirun_that_was_killed_is_not_blamed_on_the_program(number: int) -> None:
    """The kernel kills it in the launcher's container, say."""
    name = signal.Signals(number).name

    ending = ended(None, by_signal=number)

    assert ending.summary == f"mpirun itself was killed by {name} after 1.5 s"
    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 128 + number)


def test_a_script_that_was_killed_is_no_mpirun() -> None:
    """It is what was started."""
    ending = conclude(replace(evidence(None, by_signal=9), starts_ranks_itself=True))

    assert ending.summary == '"pi" itself was killed by SIGKILL after 1.5 s'


def test_a_worker_that_was_lost_under_a_rank_that_failed_is_the_reason() -> None:
    """201 comes before the program's own code."""
    ending = ended(1, GRACE_OVER, alarm=alarm(AlarmKind.RANK_FAILED, code=7))

    assert (ending.verdict, ending.exit_code) == (Verdict.WORKERS_LOST, 201)


def test_the_attempt_is_kept() -> None:
    """Which run it was."""
    assert conclude(replace(evidence(0), attempt=3)).attempt == 3


def test_a_success_is_believed_where_ranks_may_fail() -> None:
    """A script goes on with its next mpirun; Open MPI does with --enable-recovery."""
    failed = WorkerNews(host="w-1", rank_exits=(RankExit(rank=0, code=7, signal=None, at_s=1.0),))
    known = evidence(0, failed)

    assert conclude(known).exit_code == 7
    assert conclude(replace(known, may_lose_ranks=True)).exit_code == 0


def test_a_rank_that_failed_long_before_is_not_why_others_failed() -> None:
    """Where the program is known to go on without it."""
    early = RankExit(rank=0, code=7, signal=None, at_s=100.0)
    late = RankExit(rank=1, code=9, signal=None, at_s=3609.5)
    known = replace(
        evidence(1, WorkerNews(host="w-1", rank_exits=(early, late))),
        process_exit=an_exit_after_an_hour(1),
    )

    assert conclude(known).exit_code == 7
    assert conclude(replace(known, may_lose_ranks=True)).exit_code == 9


START, OF_PROGRAM, LOSS, OF_ANY = (
    replace(a_finding(str(verdict), kind=Kind.CAUSE, verdict=verdict), line="it said so")
    for verdict in (Verdict.LAUNCH_FAILED, Verdict.PROGRAM_FAILED, Verdict.WORKERS_LOST, None)
)


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        (alarm(AlarmKind.RANK_FAILED, code=7), (OF_PROGRAM, OF_ANY)),
        (alarm(AlarmKind.RANKS_STALLED), ()),
        (alarm(AlarmKind.WORKERS_LOST), (LOSS,)),
        (alarm(AlarmKind.HOSTS_NOT_DIALLED), ()),
        (alarm(AlarmKind.START_TOO_LATE), (LOSS, START)),
        (alarm(AlarmKind.START_TOO_LATE, seen=False), (START,)),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Alarm) else "",
)
@pytest.mark.parametrize("ranks_were_seen", [True, False])
def test_where_the_agent_ended_a_program_only_what_agrees_with_the_reason_counts(
    raised: Alarm, kept: tuple[Finding, ...], ranks_were_seen: bool
) -> None:
    """The rest is what ranks say when they are ended."""
    findings = (START, OF_PROGRAM, LOSS, OF_ANY)
    known = replace(evidence(1, alarm=raised), ranks_were_seen=ranks_were_seen, findings=findings)
    seen_by_the_alarm = raised.kind is AlarmKind.HOSTS_NOT_DIALLED and not ranks_were_seen

    assert conclude(known).findings == ((START,) if seen_by_the_alarm else kept)


def test_what_the_agent_knows_by_itself_counts_beside_its_reason() -> None:
    """Memory that ran out, and what no verdict is known of."""
    memory = find_out_of_memory()
    known = a_finding("held back for its CPU limit", kind=Kind.CONSEQUENCE)
    raised = alarm(AlarmKind.RANKS_STALLED)

    ending = conclude(replace(evidence(1, alarm=raised), findings=(memory, OF_PROGRAM, known)))

    assert ending.findings == (memory, known)


def find_out_of_memory() -> Finding:
    """Return the agent's own finding."""
    (found,) = findings_of_news([out_of_memory("w-3", None, None)])
    return found
