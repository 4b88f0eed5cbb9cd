"""What the agent knows by itself as findings, and its place among those of the output."""

from __future__ import annotations

import pytest

from mpi_agent.explain.matcher import (
    find_symptoms,
    finding_of_alarm,
    finding_of_exit,
    finding_of_throttling,
    findings_of_news,
    put_together,
)
from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind
from mpi_agent.job.worker_news import WorkerNews
from tests.builders import a_process_exit
from tests.unit.explain.logs import an_output

REFUSED = "ssh: connect to host w1 port 22: Connection refused"
CONSEQUENCE = "ORTE was unable to reliably start one or more daemons."
SIGN = "mpirun noticed that process rank 3 with PID 7 on node w2 exited on signal 9 (Killed)."
GIB = 1 << 30


def test_kills_for_memory_are_told_with_their_amounts() -> None:
    """They come first: they are what killed the ranks."""
    news = (
        WorkerNews(host="w0", is_evicted=True, is_lost=True, ranks=2),
        WorkerNews(host="w1", kills=1, used_bytes=2 * GIB, limit_bytes=2 * GIB),
    )

    memory, evicted = findings_of_news(news)

    assert memory.cause == 'processes on "w1" were killed for their memory, 2 of 2 GiB'
    assert (memory.host, memory.line_number, memory.line) == ("w1", 0, "")
    assert (evicted.symptom.id, evicted.symptom.verdict) == ("worker-evicted", Verdict.WORKERS_LOST)


def test_an_eviction_where_no_program_ran_explains_nothing() -> None:
    """Nor does a worker that only lives."""
    news = (WorkerNews(host="w0", is_evicted=True), WorkerNews(host="w1", saw_ranks=True))

    assert findings_of_news(news) == ()


def test_a_worker_that_took_the_run_for_over_is_told() -> None:
    """It was not evicted."""
    (finding,) = findings_of_news((WorkerNews(host="w0", is_lost=True),))

    assert (finding.symptom.id, finding.host) == ("worker-gone", "w0")


def test_throttling_is_told_with_its_numbers_and_never_as_the_root() -> None:
    """It makes slow, it does not kill."""
    finding = finding_of_throttling("w0", throttled=90, periods=100)

    assert finding.cause == (
        'the kernel held back ranks on "w0" for their CPU limit, in 90 of 100 periods'
    )
    assert finding.symptom.kind is Kind.CONSEQUENCE


@pytest.mark.parametrize(
    ("periods", "throttled", "is_told"), [(1000, 300, True), (1000, 200, False), (50, 50, False)]
)
def test_throttling_is_news_where_it_was_often(
    periods: int, throttled: int, *, is_told: bool
) -> None:
    """More than a quarter of at least a hundred periods."""
    news = (WorkerNews(host="w0", periods=periods, throttled=throttled),)

    assert [item.symptom.id for item in findings_of_news(news)] == ["cpu-throttled"] * is_told


LOSS = HostLoss(host="w1", why="no answer on TCP", after_s=90.0, noticed_after_s=14.0)


@pytest.mark.parametrize(
    ("alarm", "symptom_id", "cause"),
    [
        (
            Alarm(kind=AlarmKind.WORKERS_LOST, why="w1 lost: no answer on TCP", losses=(LOSS,)),
            "worker-lost",
            "w1 lost after 1 min 30 s: no answer on TCP",
        ),
        (Alarm(kind=AlarmKind.RANKS_STALLED, why="all are idle"), "ranks-stalled", "all are idle"),
        (
            Alarm(kind=AlarmKind.START_TOO_LATE, why="w1 is missing"),
            "start-too-late",
            "w1 is missing",
        ),
        (
            Alarm(kind=AlarmKind.RANK_FAILED, why="rank 3 is gone"),
            "rank-failed-alone",
            "rank 3 is gone",
        ),
    ],
)
def test_why_the_agent_ended_a_program_is_a_finding(
    alarm: Alarm, symptom_id: str, cause: str
) -> None:
    """In the words of the alarm, with a remedy of the catalogue."""
    finding = finding_of_alarm(alarm)

    assert finding is not None
    assert (finding.symptom.id, finding.cause) == (symptom_id, cause)
    assert finding.symptom.remedy


def test_hosts_that_were_left_out_have_their_reason_and_no_row() -> None:
    """The sentence says all of it."""
    assert finding_of_alarm(Alarm(kind=AlarmKind.HOSTS_NOT_DIALLED, why="w1")) is None


def test_an_mpirun_that_was_killed_itself_is_a_finding() -> None:
    """By SIGKILL, as the kernel kills for memory; no other end of it is."""
    killed = finding_of_exit(a_process_exit(code=None, signal=9))

    assert killed is not None
    assert killed.symptom.id == "mpirun-killed"
    assert finding_of_exit(a_process_exit(code=None, signal=15)) is None
    assert finding_of_exit(a_process_exit(code=137)) is None


def test_what_the_agent_knows_and_what_the_output_says_are_put_in_one_order() -> None:
    """A cause that it knows comes first, a sign that it knows after those of the output."""
    said = find_symptoms(an_output(f"{CONSEQUENCE}\n{SIGN}\n{REFUSED}"))
    memory = findings_of_news((WorkerNews(host="w1", kills=1),))
    stalled = finding_of_alarm(Alarm(kind=AlarmKind.RANKS_STALLED, why="all are idle"))
    assert stalled is not None

    together = put_together(said, (stalled, *memory))

    assert [finding.symptom.id for finding in together] == [
        "out-of-memory",
        "ssh-refused",
        "rank-killed",
        "ranks-stalled",
        "orte-daemon-not-started",
    ]


def test_one_event_is_told_once_by_whoever_knows_more_of_it() -> None:
    """The kernel's line of a kill that the worker told, the loss of a host that was evicted."""
    said = find_symptoms(an_output("Memory cgroup out of memory: Killed process 71 (loader)"))
    news = (
        WorkerNews(host="w1", is_evicted=True, ranks=2, kills=1),
        WorkerNews(host="w2", is_evicted=True, ranks=2),
    )
    lost = finding_of_alarm(Alarm(kind=AlarmKind.WORKERS_LOST, why="evicted", losses=(LOSS,)))
    assert lost is not None

    together = put_together(said, (*findings_of_news(news), lost))

    assert [(finding.symptom.id, finding.host) for finding in together] == [
        ("out-of-memory", "w1"),
        ("worker-evicted", "w1"),
        ("worker-evicted", "w2"),
    ]
    assert [finding.symptom.id for finding in put_together(said, ())] == ["out-of-memory-kernel"]
