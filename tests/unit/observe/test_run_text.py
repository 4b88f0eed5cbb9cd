"""A run and its ending in the log, for people."""

from __future__ import annotations

import io

import pytest

from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    ProgramEnded,
    RankFailed,
    RanksStalled,
    RanksStarted,
    RestartDecided,
    WorkerLost,
    WorkerReturned,
    WorkerSuspected,
)
from mpi_agent.job.symptoms import Kind
from mpi_agent.observe.log import Log
from mpi_agent.observe.run_values import is_trouble
from tests.unit.observe.sightings import (
    a_finding,
    a_loss,
    a_loss_of_a_worker,
    a_sweep,
    an_ending,
)

SILENT = "no answer on TCP since 12:01:07"


def lines_of(event: Event) -> list[str]:
    """Return what the text log writes."""
    stream = io.StringIO()
    Log(stream)(event)
    return stream.getvalue().splitlines()


def the_end(ending: Ending) -> list[str]:
    """Return the last lines of a log."""
    return lines_of(ProgramEnded(ending=ending))


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            AttemptBegan(number=2, max_restarts=3, run_id="0f.1e.2d.2"),
            "began attempt=2 max_restarts=3 run_id=0f.1e.2d.2",
        ),
        (RanksStarted(host_count=8, after_s=1.25), "ranks started hosts=8 after_s=1.25"),
        (
            RankFailed(host="pi-worker-1", rank=3, how="signal 11 (SIGSEGV)"),
            "rank 3 on pi-worker-1 ended with signal 11 (SIGSEGV)",
        ),
        (
            RanksStalled(why="all 6 ranks are idle", silent_s=600.0, ends_program=True),
            "ranks stalled silent_s=600: all 6 ranks are idle; the program is ended",
        ),
        (
            RanksStalled(why="rank 3 is idle", silent_s=60.0, ends_program=False),
            "ranks stalled silent_s=60: rank 3 is idle",
        ),
        (
            RanksStalled(
                why="all 4 ranks are busy", silent_s=5.0, ends_program=False, is_stalled=False
            ),
            "silent for 5 s, but all 4 ranks are busy",
        ),
        (WorkerSuspected(host="w-1", why=SILENT), f"w-1 may be lost: {SILENT}"),
        (WorkerReturned(host="w-1", silent_s=6.5), "w-1 gave a sign of life again after 6.5 s"),
        (
            WorkerLost(loss=a_loss("w-1")),
            f"w-1 was lost: {SILENT} after_s=8040.0 noticed_after_s=14.2",
        ),
        (
            RestartDecided(restarts=True, delay_s=2.0, reason="workers lost; 2 left"),
            "restarting in 2 s: workers lost; 2 left",
        ),
        (
            RestartDecided(restarts=False, delay_s=0.0, reason="no restart is left of 3"),
            "not restarting: no restart is left of 3",
        ),
        (
            AttemptEnded(ending=an_ending(Verdict.PROGRAM_FAILED, code=3)),
            'attempt 1: "pi" ended with code 3 (verdict=PROGRAM_FAILED code=3)',
        ),
    ],
)
def test_what_happens_is_one_line(event: Event, line: str) -> None:
    """With the names first and the numbers last."""
    assert lines_of(event) == [f"mpi-agent: {line}"]


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        (
            a_sweep(),
            "swept workers=3 took_s=0.12 ended=4 killed=1 left=0 segments=2: the program ended",
        ),
        (a_sweep(ended=0), "swept workers=3 took_s=0.12 nothing was left: the program ended"),
        (
            a_sweep(ended=0, silent=("w-1", "w-2")),
            "swept workers=1 silent=w-[1-2] took_s=0.12 nothing was left: the program ended",
        ),
        (
            a_sweep(ended=0, silent=("w-0", "w-1", "w-2")),
            "swept workers=0 silent=w-[0-2] took_s=0.12: the program ended",
        ),
    ],
)
def test_a_sweep_claims_nothing_of_workers_that_did_not_answer(sweep: Event, line: str) -> None:
    """Those are named."""
    assert lines_of(sweep) == [f"mpi-agent: {line}"]


def test_a_success_ends_with_one_line() -> None:
    """There is nothing to explain."""
    assert the_end(an_ending()) == [
        'mpi-agent: "pi" ended with code 0 (verdict=SUCCEEDED code=0)',
    ]


def test_above_an_ending_stand_cause_remedy_its_line_and_what_came_of_it() -> None:
    """So that nobody looks for line 40 of 200, and the sentence is the last line of the log."""
    followed = a_finding(
        "orte-lost-daemon", cause="mpirun lost a daemon", line="ORTE has lost", line_number=77
    )

    assert the_end(a_loss_of_a_worker(a_finding(host="pi-worker-2"), followed)) == [
        "mpi-agent: cause: CUDA ran out of memory on pi-worker-2 [cuda-out-of-memory]",
        "    remedy: lower the batch size",
        "    line 40 of stderr: RuntimeError: CUDA out of memory",
        "    then: mpirun lost a daemon (line 77 of stderr)",
        f"mpi-agent: pi-worker-2 lost after 2 h 14 min: {SILENT} (verdict=WORKERS_LOST code=201)",
    ]


def test_what_the_agent_knows_by_itself_has_no_line() -> None:
    """And a host that the cause names already is not named twice."""
    known = a_finding(
        "worker-evicted", cause="pi-worker-2 was evicted", line_number=0, host="pi-worker-2"
    )

    assert the_end(a_loss_of_a_worker(known))[:-1] == [
        "mpi-agent: cause: pi-worker-2 was evicted [worker-evicted]",
        "    remedy: lower the batch size",
    ]


def test_a_cause_that_the_sentence_has_is_not_told_twice() -> None:
    """Only its name, by which it can be looked up."""
    found = a_finding(cause="pi-worker-2 lost after 2 h 14 min", line_number=0)

    assert the_end(a_loss_of_a_worker(found))[:-1] == [
        "mpi-agent: symptom: cuda-out-of-memory",
        "    remedy: lower the batch size",
    ]


def test_a_consequence_is_not_called_a_cause() -> None:
    """Alone it is what was seen; its remedy is none."""
    noise = a_finding("orte-lost-daemon", cause="a rank was gone", kind=Kind.CONSEQUENCE)

    assert the_end(a_loss_of_a_worker(noise))[:-1] == [
        "mpi-agent: seen: a rank was gone (line 40 of stderr)",
    ]


def test_what_the_program_went_on_after_is_told_as_what_was_before() -> None:
    """It is no cause either, with another one beside it or not."""
    past = a_finding(cause="a port was taken", is_past=True)
    root = a_finding("rank-segfault", cause="rank 3 crashed", line_number=900)

    assert the_end(a_loss_of_a_worker(root, past))[:-1] == [
        "mpi-agent: cause: rank 3 crashed [rank-segfault]",
        "    remedy: lower the batch size",
        "    line 900 of stderr: RuntimeError: CUDA out of memory",
        "    before: a port was taken (line 40 of stderr)",
    ]
    assert the_end(a_loss_of_a_worker(past))[:-1] == [
        "mpi-agent: before: a port was taken (line 40 of stderr)",
    ]


@pytest.mark.parametrize(("count", "more"), [(3, []), (4, ["    then: 1 more"])])
def test_what_followed_is_cut_short(count: int, more: list[str]) -> None:
    """Launchers repeat themselves."""
    findings = [a_finding(f"s-{number}", line_number=number + 1) for number in range(count + 1)]

    lines = the_end(a_loss_of_a_worker(*findings))

    assert len([line for line in lines if line.startswith("    then: CUDA")]) == 3
    assert lines[6:-1] == more


def test_a_line_of_the_output_cannot_move_the_cursor() -> None:
    """Whoever wrote the program wrote it."""
    lines = the_end(a_loss_of_a_worker(a_finding(line="\x1b[2Jboo\r")))

    assert lines[2] == "    line 40 of stderr: \\x1b[2Jboo\\r"


@pytest.mark.parametrize(
    ("event", "is_one"),
    [
        (ProgramEnded(ending=an_ending()), False),
        (ProgramEnded(ending=a_loss_of_a_worker()), True),
        (AttemptEnded(ending=a_loss_of_a_worker()), True),
        (a_sweep(), False),
        (a_sweep(left=1), True),
        (a_sweep(silent=("w-0",)), True),
        (WorkerReturned(host="w-1", silent_s=6.5), False),
        (RestartDecided(restarts=False, delay_s=0.0, reason="none is left"), False),
    ],
)
def test_only_trouble_is_a_warning(event: Event, is_one: bool) -> None:
    """A sweep is one where something may be left."""
    assert is_trouble(event) is is_one
