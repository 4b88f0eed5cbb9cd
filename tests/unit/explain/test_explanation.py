"""What the agent itself wrote into a saved log, and what it means for what else stands there."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from mpi_agent.explain.explanation import explain_log
from mpi_agent.explain.own_words import read_own_ending
from mpi_agent.job.endings import Verdict
from mpi_agent.job.events import AttemptEnded, Event, ProgramEnded
from mpi_agent.job.worker_events import RunOver
from mpi_agent.observe.log import JsonLog, Log
from tests.unit.explain.logs import an_output
from tests.unit.observe.sightings import a_finding, a_loss_of_a_worker, an_ending

REFUSED = "ssh: connect to host w1 port 22: Connection refused"
CRASHED = "mpirun noticed that process rank 3 with PID 7 on node w2 exited on signal 11 (Segm)."
KILLED = "mpirun noticed that process rank 3 with PID 7 on node w2 exited on signal 9 (Killed)."
STEPS = "\n".join(f"step {number}" for number in range(500))
FRONTS = (
    "",
    "2026-11-30T12:00:00.123456789Z ",
    "[pod/pi-launcher-x7k2p/launcher] 2026-11-30T12:00:00Z ",
)
LOST = a_loss_of_a_worker(a_finding())


def written_by(kind: type[Log | JsonLog], event: Event) -> str:
    """Return the lines that a log writes for an event."""
    stream = io.StringIO()
    kind(stream)(event)
    return stream.getvalue().removesuffix("\n")


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("kind", [Log, JsonLog])
@pytest.mark.parametrize(
    "event", [ProgramEnded(ending=LOST), AttemptEnded(ending=LOST)], ids=["program", "attempt"]
)
def test_the_ending_that_the_agent_wrote_is_read_from_its_log(
    event: Event, kind: type[Log | JsonLog], front: str
) -> None:
    """As text and as JSON, with what kubectl puts in front."""
    lines = ["step 1", *written_by(kind, event).split("\n")]

    ending = read_own_ending(an_output("\n".join(front + line for line in lines)))

    assert ending is not None
    assert (ending.verdict, ending.exit_code) == (Verdict.WORKERS_LOST, 201)
    assert ending.summary == LOST.summary
    assert ending.line_number == len(lines)


@pytest.mark.parametrize("kind", [Log, JsonLog])
def test_a_workers_log_tells_the_ending_without_a_verdict(kind: type[Log | JsonLog]) -> None:
    """It was told no more than code and sentence."""
    event = RunOver(run_id="0f.1e.2d.2", exit_code=139, summary='"pi" failed')

    ending = read_own_ending(an_output(written_by(kind, event)))

    assert ending is not None
    assert (ending.verdict, ending.exit_code) == (None, 139)
    assert ending.summary in ('"pi" failed', "")


@pytest.mark.parametrize(
    "text",
    [
        "mpi-agent: began attempt=1 max_restarts=0 run_id=1",
        "say: mpi-agent: it ended (verdict=SUCCEEDED code=0)",
        "mpi-agent: it ended (verdict=SUCCEEDED code=0) or so",
        '{"event": "program_ended"}',
        '{"event": "program_ended", "exit_code": true}',
        '{"event": "program_ended", "exit_code": 0',
        '{"event": "program_ended", "exit_code": 0, "line": ' + "[" * 100_000,
    ],
    ids=range(7),
)
def test_what_only_looks_like_it_is_no_ending(text: str) -> None:
    """Another line of ours, a quotation, a line that was cut."""
    assert read_own_ending(an_output(text)) is None


@pytest.mark.parametrize("verdict", [Verdict.SUCCEEDED, Verdict.STOPPED])
def test_a_run_that_did_not_fail_needs_no_cause(verdict: Verdict) -> None:
    """Whatever was said while it ran, or while it was stopped."""
    code = 0 if verdict is Verdict.SUCCEEDED else 143
    said = written_by(Log, ProgramEnded(ending=an_ending(verdict, code=code)))

    explained = explain_log(an_output(f"{REFUSED}\n{KILLED}\n{said}"))

    assert (explained.findings, explained.verdict) == ((), verdict)
    assert explained.says_why


def test_only_the_last_attempt_is_explained() -> None:
    """What ended the one before is over."""
    began = "mpi-agent: began attempt=2 max_restarts=3 run_id=0f.1e.2d.2"

    explained = explain_log(an_output(f"{REFUSED}\n{began}\n{CRASHED}"))

    assert [(f.symptom.id, f.line_number) for f in explained.findings] == [("rank-segfault", 3)]


@pytest.mark.parametrize("kind", [Log, JsonLog])
def test_what_the_agent_quotes_is_not_found_again(kind: type[Log | JsonLog]) -> None:
    """Its line of the output stood where it was written, long before."""
    quoted = a_finding(line=REFUSED)
    failed = replace(an_ending(Verdict.PROGRAM_FAILED, code=1), findings=(quoted,))
    said = written_by(kind, ProgramEnded(ending=failed))

    explained = explain_log(an_output(f"{REFUSED}\n{STEPS}\n{CRASHED}\n{said}"))

    assert explained.root is not None
    assert explained.root.symptom.id == "rank-segfault"


@pytest.mark.parametrize(
    "of_ranks", [KILLED, "connect() to 10.0.0.7:1028 failed: Connection refused (111)"]
)
def test_what_ranks_say_because_a_worker_was_lost_is_not_why(of_ranks: str) -> None:
    """They were ended, or had nobody to talk to; the agent's own verdict says why."""
    said = written_by(Log, ProgramEnded(ending=a_loss_of_a_worker()))

    explained = explain_log(an_output(f"{of_ranks}\n{said}"))

    assert explained.root is None
    assert explained.verdict is Verdict.WORKERS_LOST
    assert explained.says_why
