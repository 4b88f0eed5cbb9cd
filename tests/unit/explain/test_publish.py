"""The termination message and the file beside it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent import __version__
from mpi_agent.errors import HostsUnusedError, StoppedError
from mpi_agent.explain.ending_message import render_ending, render_ending_message
from mpi_agent.explain.publish import (
    keep_ending,
    tell_ending,
    telling_failures,
    write_termination_message,
)
from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.symptoms import Finding, Kind, Symptom
from mpi_agent.state import StateDirectory
from tests.builders import a_process_exit

ANY_TEXT = st.text(st.characters(codec=None), max_size=6000)
"""Lone surrogates too, as bytes that are no UTF-8 reach us."""


def an_ending(
    summary: str = '"train" failed with exit code 1 after 2 min 3 s',
    *findings: Finding,
    lost: tuple[str, ...] = (),
) -> Ending:
    """Return how an attempt ended."""
    losses = tuple(HostLoss(host=h, why="silent", after_s=1.0, noticed_after_s=1.0) for h in lost)
    return Ending(
        verdict=Verdict.PROGRAM_FAILED,
        exit_code=1,
        process_exit=a_process_exit(code=1, duration_s=123.4567),
        summary=summary,
        findings=findings,
        losses=losses,
        attempt=2,
    )


def a_finding(
    cause: str = "CUDA ran out of memory",
    remedy: str = "lower the batch size",
    line: str = "OOM",
    *,
    kind: Kind = Kind.CAUSE,
) -> Finding:
    """Return what was found in the output."""
    symptom = Symptom(
        id="cuda-out-of-memory",
        pattern=re.compile("OOM"),
        stacks=("CUDA",),
        kind=kind,
        verdict=None,
        cause=cause,
        remedy=remedy,
        source="invented",
    )
    return Finding(symptom=symptom, cause=cause, line=line, line_number=40)


def parts_of(message: str) -> tuple[str, dict[str, Any]]:
    """Return the sentence and the object of a message."""
    sentence, text = message.split("\n")
    values: dict[str, Any] = json.loads(text)
    return sentence, values


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a file as the kubelet makes it."""
    path = tmp_path / "termination-log"
    path.touch()
    return path


def test_the_first_line_tells_people_what_why_and_what_to_do() -> None:
    """In `kubectl describe` it stands alone in front of the object."""
    sentence, _ = parts_of(render_ending_message(an_ending("pi failed", a_finding())))

    assert sentence == (
        "mpi-agent: pi failed; cause: CUDA ran out of memory; hint: lower the batch size"
    )


def test_a_cause_that_the_sentence_has_is_not_told_twice() -> None:
    """Some endings name theirs."""
    finding = a_finding("w-1 was evicted")

    sentence, _ = parts_of(render_ending_message(an_ending("pi failed: w-1 was evicted", finding)))

    assert sentence == "mpi-agent: pi failed: w-1 was evicted; hint: lower the batch size"


def test_a_consequence_is_published_neither_as_cause_nor_with_a_hint() -> None:
    """A bystander that was killed, or mere noise, says nothing of why."""
    noise = a_finding("a rank was gone", kind=Kind.CONSEQUENCE)

    sentence, told = parts_of(render_ending_message(an_ending("pi failed", noise)))

    assert sentence == "mpi-agent: pi failed"
    assert [told[name] for name in ("cause", "remedy", "symptom", "line")] == [None] * 4


def test_what_stands_behind_a_consequence_may_be_the_cause() -> None:
    """The first that is none is taken."""
    noise = a_finding("a rank was gone", kind=Kind.CONSEQUENCE)

    _, told = parts_of(render_ending_message(an_ending("pi failed", noise, a_finding())))

    assert told["cause"] == "CUDA ran out of memory"


def test_the_second_line_is_one_object_for_machines() -> None:
    """With every key, also where nothing is known."""
    _, told = parts_of(render_ending_message(an_ending("pi failed", a_finding(), lost=("w-1",))))
    _, bare = parts_of(render_ending_message(an_ending("pi failed")))

    assert told == {
        "verdict": "program_failed",
        "exit_code": 1,
        "summary": "pi failed",
        "cause": "CUDA ran out of memory",
        "remedy": "lower the batch size",
        "symptom": "cuda-out-of-memory",
        "lost": ["w-1"],
        "lost_count": 1,
        "attempt": 2,
        "process_code": 1,
        "process_signal": None,
        "duration_s": 123.457,
        "version": __version__,
        "line": "OOM",
    }
    assert list(bare) == list(told)
    assert [bare[name] for name in ("cause", "remedy", "symptom", "line")] == [None] * 4


@given(
    summary=ANY_TEXT,
    cause=ANY_TEXT,
    remedy=ANY_TEXT,
    line=ANY_TEXT,
    lost=st.lists(st.text(min_size=1, max_size=253), max_size=300),
)
def test_whatever_it_tells_it_fits_and_is_an_object(
    summary: str, cause: str, remedy: str, line: str, lost: list[str]
) -> None:
    """In two lines of UTF-8; the codes are never cut."""
    ending = an_ending(summary, a_finding(cause, remedy, line), lost=tuple(lost))

    message = render_ending_message(ending)

    assert len(message.encode()) <= 4096
    sentence, values = parts_of(message)
    assert sentence.isprintable()
    assert (values["exit_code"], values["symptom"]) == (1, "cuda-out-of-memory")
    assert values["lost_count"] == len(lost)
    assert json.loads(render_ending(ending))["lost_count"] == len(lost)


def test_the_least_important_value_is_cut_first() -> None:
    """The line of the output goes before the names, and these before the remedy."""
    lost = tuple(f"pi-worker-{number}" for number in range(400))
    finding = a_finding(line="x" * 3000)

    _, values = parts_of(render_ending_message(an_ending("pi failed", finding, lost=lost)))

    assert values["line"] == ""
    assert 50 < len(values["lost"]) < 400
    assert values["lost"] == list(lost[: len(values["lost"])])
    assert (values["remedy"], values["summary"]) == ("lower the batch size", "pi failed")


def test_what_is_cut_says_so_and_uses_the_room_that_there_is() -> None:
    """A line of the output is worth every byte of it."""
    message = render_ending_message(an_ending("pi failed", a_finding(line="x" * 5000)))

    assert parts_of(message)[1]["line"].endswith("x...")
    assert len(message.encode()) == 4096


def test_the_file_of_an_attempt_is_whole_and_replaces_the_one_before(tmp_path: Path) -> None:
    """For the next launcher, and for who copies the state directory out."""
    state = StateDirectory(tmp_path)
    long = an_ending("x" * 9000)

    assert keep_ending(an_ending("first"), state) is None
    assert keep_ending(long, state) is None

    assert json.loads((tmp_path / "ending.json").read_text())["summary"] == "x" * 9000


def test_a_file_that_cannot_be_written_is_told_and_no_error(tmp_path: Path) -> None:
    """The ending's code is what counts."""
    why = keep_ending(an_ending(), StateDirectory(tmp_path / "gone"))

    assert why is not None
    assert "ending.json" in why


def test_the_ending_is_told_where_there_is_a_place(log: Path) -> None:
    """There is none outside of Kubernetes."""
    assert tell_ending(an_ending(), path=log)
    assert parts_of(log.read_text())[1]["attempt"] == 2
    assert not tell_ending(an_ending(), path=log.with_name("missing"))


def test_an_error_of_the_agent_is_told_like_an_ending(log: Path) -> None:
    """It lets the error pass."""
    error = HostsUnusedError("cannot use 2 hosts", hint="name them", evidence=("w-1  idle",))

    with pytest.raises(HostsUnusedError), telling_failures(path=log):
        raise error

    sentence, values = parts_of(log.read_text())
    assert sentence == "mpi-agent: cannot use 2 hosts; hint: name them"
    assert (values["verdict"], values["exit_code"]) == ("not_started", 78)
    assert (values["remedy"], values["line"]) == ("name them", "w-1  idle")
    assert values["attempt"] is values["process_code"] is None


def test_a_stop_before_the_program_is_a_stop(log: Path) -> None:
    """Nothing went wrong."""
    error = StoppedError("told to stop", hint="nothing was started", signal_number=15)

    with pytest.raises(StoppedError), telling_failures(path=log):
        raise error

    assert parts_of(log.read_text())[1]["verdict"] == "stopped"


def test_other_text_is_cut_to_the_limit(log: Path) -> None:
    """Whatever it is."""
    assert write_termination_message("x" * 5000, path=log)

    assert len(log.read_bytes()) == 4096


def test_a_signal_of_mpirun_is_told_as_one() -> None:
    """And not as a code."""
    killed = replace(an_ending(), process_exit=a_process_exit(code=None, signal=9))

    _, values = parts_of(render_ending_message(killed))

    assert (values["process_code"], values["process_signal"]) == (None, 9)
