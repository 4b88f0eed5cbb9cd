"""Events in words and as JSON lines."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import Any

import pytest

from mpi_agent.job.endings import Verdict
from mpi_agent.job.events import (
    Event,
    HostAdvanced,
    HostsChanged,
    HostsReady,
    Noted,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.readiness import HostReadiness, Stage
from mpi_agent.observe.fan_out import FanOut
from mpi_agent.observe.json_text import render_json
from mpi_agent.observe.log import EventLog, JsonLog, Log, make_log, render_event
from mpi_agent.setting_words import Form
from tests.unit.observe.sightings import (
    NAMES,
    ONE_OF_EACH,
    a_missing_host,
    a_report,
    a_result,
    an_ending,
    some_hosts,
)

TOLD_AS_JSON = tuple(event for event in ONE_OF_EACH if not isinstance(event, ProbeEnded))


def text_of(event: Event) -> str:
    """Return what the text log writes."""
    stream = io.StringIO()
    Log(stream)(event)
    return stream.getvalue()


def json_of(event: Event) -> dict[str, Any]:
    """Return what the JSON log writes, read by a strict parser."""
    stream = io.StringIO()
    JsonLog(stream, now_s=lambda: 1_790_000_000.25)(event)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    values: dict[str, Any] = json.loads(lines[0], parse_constant=_refuse)
    return values


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def test_every_kind_of_event_has_an_example_here() -> None:
    """So that the promises below hold for the event that is added next year."""
    kinds = {kind.__name__ for kind in Event.__subclasses__()}

    assert {type(event).__name__ for event in ONE_OF_EACH} == kinds


@pytest.mark.parametrize("event", TOLD_AS_JSON, ids=lambda event: type(event).__name__)
def test_every_event_becomes_one_json_line_with_time_level_message_and_values(event: Event) -> None:
    """In which the message is the text log's line."""
    values = json_of(event)

    assert list(values)[:4] == ["at", "event", "level", "message"]
    assert values["at"] == "2026-09-21T14:13:20.250Z"
    assert len(values) > 4
    assert values["message"] == (render_event(event) or values["message"]) != ""


def test_a_single_probe_is_not_logged() -> None:
    """There are hundreds a second."""
    stream = io.StringIO()

    JsonLog(stream)(ProbeEnded(result=a_result(), report=a_report()))
    Log(stream)(ProbeEnded(result=a_result(), report=a_report()))

    assert stream.getvalue() == ""


def test_a_host_that_advanced_is_told_as_json_alone() -> None:
    """A thousand hosts climb five stages each."""
    event = HostAdvanced(host=a_missing_host("pi-worker-2"))

    assert text_of(event) == ""
    assert json_of(event) == {
        "at": "2026-09-21T14:13:20.250Z",
        "event": "host_advanced",
        "level": "info",
        "message": "host advanced name=pi-worker-2 stage=resolved",
        "name": "pi-worker-2",
        "ready": False,
        "stage": "resolved",
        "attempts": 7,
        "address": None,
        "port": None,
        "obstacle": "port_refused",
        "detail": "10.0.0.7 port 2222: connection refused",
    }


@pytest.mark.parametrize(
    ("timeout_s", "limit"),
    [(600.0, "timeout_s=600"), (0.5, "timeout_s=0.5"), (None, "timeout=none")],
)
def test_the_start_of_the_wait_names_the_limit(timeout_s: float | None, limit: str) -> None:
    """Or says that there is none."""
    line = text_of(WaitStarted(names=("a",) * 8, timeout_s=timeout_s))

    assert line == f"mpi-agent: waiting for hosts=8 {limit}\n"


def test_hosts_that_changed_are_named_folded() -> None:
    """With a dash for nobody."""
    event = HostsChanged(hosts=some_hosts(), added=NAMES[1:], removed=())

    assert text_of(event) == (
        "mpi-agent: the hosts changed while waiting: hosts=3 added=pi-worker-[1-2] removed=-\n"
    )
    assert json_of(event)["added"] == ["pi-worker-1", "pi-worker-2"]
    assert json_of(event)["level"] == "warning"


def test_ready_hosts_are_counted_apart_from_those_that_were_not_needed() -> None:
    """A wait for enough hosts may end before the last one came."""
    line = text_of(HostsReady(report=a_report(ready=2)))

    assert line == "mpi-agent: hosts became ready count=2 waited_s=12.00 ssh_port=2222\n"


def test_progress_as_json_counts_by_stage_and_by_obstacle() -> None:
    """Under names from closed sets."""
    values = json_of(WaitProgressed(report=a_report(ready=1), line="1 of 3"))

    assert values["stages"]["ready"] == 1
    assert values["stages"]["resolved"] == 2
    assert sum(values["stages"].values()) == values["hosts_total"] == 3
    assert values["obstacles"] == {"port_refused": 2}
    assert values["waiting_for"] == ["pi-worker-1", "pi-worker-2"]
    assert (values["hosts_ready"], values["elapsed_s"], values["timeout_s"]) == (1, 12.0, 600.0)


def test_a_program_that_failed_is_a_warning() -> None:
    """One that succeeded is not."""
    failed = ProgramEnded(ending=an_ending(Verdict.PROGRAM_FAILED, code=3))

    assert json_of(failed)["level"] == "warning"
    assert json_of(failed)["exit_code"] == 3
    assert json_of(ProgramEnded(ending=an_ending()))["level"] == "info"


@pytest.mark.parametrize("odd", ["\udcff", '"\\', "\x00\x1b[2J", "\u2028", "ä€😀", "a\nb"])
def test_odd_text_still_makes_one_valid_json_line(odd: str) -> None:
    """Without lone surrogates, on which parsers differ."""
    values = json_of(ProgramStarted(argv=("./pi", odd), pid=1, np=1, host_count=1))

    argument = values["argv"][1]
    assert argument == odd.encode("utf-8", "backslashreplace").decode()
    assert argument.encode("utf-8")


def test_a_number_that_json_does_not_have_becomes_null() -> None:
    """Python would write Infinity, which other parsers refuse."""
    assert render_json({"a": float("inf"), "b": (float("nan"), 0.1234567)}) == (
        '{"a": null, "b": [null, 0.123]}'
    )


def test_the_text_log_never_lets_a_name_move_the_cursor() -> None:
    """Reasons come from the network."""
    assert text_of(Noted(text="banner \x1b[2J\udcff ä\n")) == (
        "mpi-agent: note: banner \\x1b[2J\\udcff ä\\n\n"
    )


@pytest.mark.parametrize("form", Form)
def test_a_failure_is_told_in_the_form_of_the_log(form: Form) -> None:
    """With the hint and what was seen."""
    stream = io.StringIO()
    log: EventLog = make_log(form, stream)

    log.error("cannot reach 1 of 8 hosts", hint="look", evidence=("a  no name yet",), exit_code=200)

    if form is Form.TEXT:
        assert stream.getvalue() == (
            "mpi-agent: cannot reach 1 of 8 hosts\n    a  no name yet\nhint: look\n"
        )
    else:
        values = json.loads(stream.getvalue())
        assert (values["event"], values["level"]) == ("failed", "error")
        assert (values["message"], values["hint"]) == ("cannot reach 1 of 8 hosts", "look")
        assert (values["evidence"], values["exit_code"]) == (["a  no name yet"], 200)


def test_an_event_goes_to_every_sink() -> None:
    """In their order."""
    seen: list[str] = []
    sink = FanOut(lambda _: seen.append("first"), lambda _: seen.append("second"))

    sink(Noted(text="x"))

    assert seen == ["first", "second"]


def test_a_host_that_was_never_asked_has_no_obstacle() -> None:
    """Null is not the same as an obstacle of the last minute."""
    values = json_of(HostAdvanced(host=HostReadiness(host="a", stage=Stage.UNKNOWN)))

    assert values["obstacle"] is None
    assert values["detail"] is None


@pytest.mark.parametrize("form", Form)
def test_a_reader_that_is_gone_does_not_end_the_job(form: Form) -> None:
    """The log is for whoever still reads it; the program's exit code is for all."""
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "w") as stream:
        log = make_log(form, stream)

        log(Noted(text="nobody reads this"))
        log.error("cannot", hint="none", evidence=(), exit_code=1)
