"""The live line: drawn while waiting, gone before anything else is printed."""

from __future__ import annotations

import io

import pytest

from mpi_agent.job.events import (
    Event,
    HostAdvanced,
    HostsReady,
    Noted,
    ProbeEnded,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport
from mpi_agent.observe.bar import Bar, LiveLog, render_bar, terminal_width
from mpi_agent.observe.log import Log
from tests.unit.observe.sightings import (
    NAMES,
    StillClock,
    a_missing_host,
    a_ready_host,
    a_report,
    a_result,
)

ERASE = "\r\x1b[K"
STARTED = WaitStarted(names=NAMES, timeout_s=600.0)
PROBED = ProbeEnded(result=a_result(), report=a_report())


class Terminal:
    """A live log on a terminal of some width."""

    def __init__(self, *, width: int = 200) -> None:
        self.clock = StillClock()
        self._stream = io.StringIO()
        bar = Bar(self._stream, now_s=self.clock, width=lambda: width)
        self.log = LiveLog(Log(self._stream), bar)

    def shows(self, *events: Event) -> str:
        """Return what these events write."""
        before = len(self._stream.getvalue())
        for event in events:
            self.log(event)
        return self._stream.getvalue()[before:]

    def written_by_error(self) -> str:
        """Return what a failure writes."""
        before = len(self._stream.getvalue())
        self.log.error("cannot wait", hint="look", evidence=(), exit_code=200)
        return self._stream.getvalue()[before:]


def test_the_line_says_who_is_missing_and_why() -> None:
    """The most frequent reason first."""
    missing = a_missing_host("pi-worker-3", a_result("pi-worker-3", Obstacle.NAME_UNKNOWN))
    hosts = (
        *(a_ready_host(f"pi-worker-{i}") for i in (0, 1, 2, 4, 5)),
        missing,
        a_missing_host("pi-worker-6", a_result("pi-worker-6")),
        a_missing_host("pi-worker-7", missing.last_failure),
    )
    report = ReadinessReport(hosts=hosts, elapsed_s=12.3, timeout_s=600.0, at_s=100.0)

    assert render_bar(report) == (
        "mpi-agent: [######----] 5/8 ready  12 s of 600 s  waiting for pi-worker-[3,6-7]: "
        "2 name does not exist, 1 connection refused"
    )


def test_without_a_limit_the_line_names_none() -> None:
    """A host that nobody asked yet is told as such."""
    report = ReadinessReport(hosts=(HostReadiness(host="a"),), elapsed_s=0.0, timeout_s=None)

    assert render_bar(report) == (
        "mpi-agent: [----------] 0/1 ready  0 s  waiting for a: 1 no answer yet"
    )


def test_each_drawing_replaces_the_one_before() -> None:
    """By going back to the first column; no line feed moves the screen."""
    terminal = Terminal()

    shown = terminal.shows(STARTED, PROBED)

    assert shown == (
        f"mpi-agent: waiting for hosts=3 timeout_s=600\n{ERASE}{render_bar(a_report())}"
    )


def test_the_bar_is_drawn_at_most_five_times_a_second() -> None:
    """However many probes end."""
    terminal = Terminal()
    terminal.shows(STARTED, PROBED)

    terminal.clock.now_s += 0.19
    assert terminal.shows(PROBED, HostAdvanced(host=a_missing_host("pi-worker-2"))) == ""
    terminal.clock.now_s += 0.02
    assert terminal.shows(PROBED).startswith(ERASE)


def test_the_bar_never_reaches_the_last_column() -> None:
    """Where terminals wrap."""
    shown = Terminal(width=40).shows(STARTED, PROBED)

    assert len(shown.rpartition(ERASE)[2]) == 39


def test_a_line_of_the_log_takes_the_place_of_the_bar() -> None:
    """And the bar comes back with the next probe."""
    terminal = Terminal()
    terminal.shows(STARTED, PROBED)

    assert terminal.shows(Noted(text="x")) == f"{ERASE}mpi-agent: note: x\n"
    terminal.clock.now_s += 1
    assert terminal.shows(PROBED) == f"{ERASE}{render_bar(a_report())}"


def test_progress_lines_are_drawn_and_not_printed() -> None:
    """The bar already says it."""
    terminal = Terminal()
    terminal.shows(STARTED)

    shown = terminal.shows(WaitProgressed(report=a_report(), line="1 of 3 hosts ready"))

    assert shown == f"{ERASE}{render_bar(a_report())}"


def test_the_bar_is_gone_once_the_hosts_are_ready() -> None:
    """And a probe that ends late does not bring it back."""
    terminal = Terminal()
    terminal.shows(STARTED, PROBED)

    shown = terminal.shows(HostsReady(report=a_report(ready=3)))
    terminal.clock.now_s += 1

    assert shown.startswith(f"{ERASE}mpi-agent: hosts became ready")
    assert terminal.shows(PROBED) == ""


def test_the_bar_is_gone_before_a_failure_is_told() -> None:
    """For good."""
    terminal = Terminal()
    terminal.shows(STARTED, PROBED)

    assert terminal.written_by_error() == f"{ERASE}mpi-agent: cannot wait\nhint: look\n"
    terminal.clock.now_s += 1
    assert terminal.shows(PROBED) == ""


def test_erasing_what_was_not_drawn_writes_nothing() -> None:
    """The caller need not know whether there is a bar."""
    terminal = Terminal()
    terminal.shows(STARTED)

    terminal.log.erase()

    assert terminal.shows() == ""


@pytest.mark.parametrize("name", ["pi\x1b[2J", "pi\udcff"])
def test_a_name_never_moves_the_cursor(name: str) -> None:
    """It comes from a file."""
    report = ReadinessReport(hosts=(HostReadiness(host=name),), elapsed_s=0.0, timeout_s=None)

    assert render_bar(report).isprintable()


def test_a_stream_that_is_no_terminal_has_no_columns() -> None:
    """So nobody draws on it."""
    assert terminal_width(io.StringIO()) == 0
