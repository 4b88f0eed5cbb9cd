"""What was found, with what workers told since."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.known_findings import with_news
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import Verdict
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.worker_news import WorkerNews
from tests.builders import a_process_exit
from tests.recorded import recorded

KILLED = WorkerNews(host="w-1", kills=1)
EVICTED = WorkerNews(host="w-2", is_evicted=True, ranks=2, is_lost=True)


def evidence(*, code: int | None = 1, by_signal: int | None = None) -> Evidence:
    """Return what is known of a program that raised."""
    output = recorded("ompi5-traceback").output
    return Evidence(
        process_exit=a_process_exit(code=code, signal=by_signal),
        program='"train"',
        implementation=Implementation.OPEN_MPI,
        output=output,
        findings=find_symptoms(output),
    )


def ids(known: Evidence) -> list[str]:
    """Return what was found."""
    return [finding.symptom.id for finding in known.findings]


def test_more_news_does_not_repeat_what_was_known() -> None:
    """Workers speak until their farewell."""
    first = with_news(evidence(), (KILLED,))

    assert ids(with_news(first, (KILLED,))) == ids(first)
    assert set(ids(with_news(first, (KILLED, EVICTED)))) == {*ids(first), "worker-evicted"}
    assert ids(with_news(first, ())) == ids(with_news(evidence(), ()))


def test_an_alarm_is_found_and_comes_first_where_it_is_the_reason() -> None:
    """The program's own words are not why a worker was lost."""
    lost = Alarm(kind=AlarmKind.WORKERS_LOST, why="w-1 lost: no answer on TCP since 12:01:07")

    ending = conclude(with_news(replace(evidence(), alarm=lost), ()))

    assert [finding.symptom.id for finding in ending.findings] == ["worker-lost"]
    assert ending.findings[0].cause in ending.summary


def test_an_mpirun_that_was_killed_is_found_unless_the_agent_did_it() -> None:
    """A script is none."""
    killed = evidence(code=None, by_signal=9)

    ending = conclude(with_news(killed, ()))

    assert ending.findings[0].symptom.id == "mpirun-killed"
    assert ending.verdict is Verdict.PROGRAM_FAILED
    assert ending.summary.startswith("mpirun itself was killed by SIGKILL after 1.5 s")
    for other in (replace(killed, stopped_by=15), replace(killed, starts_ranks_itself=True)):
        assert "mpirun-killed" not in ids(with_news(other, ()))
