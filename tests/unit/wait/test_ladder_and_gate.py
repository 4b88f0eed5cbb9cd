"""The ladder never falls, the gate ends when it must, and each host ends in one row."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.errors import HostsNotReadyError, HostsRefusedError
from mpi_agent.job.events import WaitProgressed
from mpi_agent.job.readiness import (
    HostReadiness,
    Obstacle,
    ProbeResult,
    ReadinessReport,
    Stage,
)
from mpi_agent.wait.gate import Gate
from mpi_agent.wait.ladder import REFUSAL_GRACE_S, advance, is_refused, is_wait_over
from mpi_agent.wait.pace import pause_after
from mpi_agent.wait.report import REMEDIES, progress_line, readiness_error
from tests.builders import a_probe_result
from tests.fakes import EventRecorder, FakeClock, ScriptedProbe

obstacles = st.sampled_from([None, *Obstacle])
stages = st.sampled_from([stage for stage in Stage if stage is not Stage.AUTHENTICATED])


def run_gate(
    script: dict[str, tuple[Obstacle | None, ...]],
    *,
    timeout_s: float | None = 60.0,
    parallel: int = 128,
    step_s: float = 0.01,
) -> tuple[ReadinessReport, ScriptedProbe, EventRecorder]:
    """Run a gate over scripted hosts, on a clock that advances with every look at it."""
    clock, recorder = FakeClock(step_s), EventRecorder()
    probe = ScriptedProbe(script, clock)
    gate = Gate(probe=probe, now_s=clock, emit=recorder, parallel=parallel, jitter=lambda: 0.0)
    report = asyncio.run(gate.wait(tuple(script), timeout_s))
    return report, probe, recorder


@given(st.lists(st.tuples(obstacles, stages), max_size=20))
def test_a_stage_never_falls_while_waiting(answers: list[tuple[Obstacle | None, Stage]]) -> None:
    """A host that answered once has answered, whatever comes later."""
    host = HostReadiness(host="a")
    for at_s, (obstacle, stage) in enumerate(answers):
        result = a_probe_result("a", stage=stage, obstacle=obstacle, at_s=at_s)
        after = advance(host, result, pause_s=1.0)

        assert after.stage >= host.stage
        assert after.attempts == host.attempts + 1
        host = after


def test_only_an_unbroken_refusal_counts_as_one() -> None:
    """A worker whose sshd came up before its keys heals in a moment."""
    host = HostReadiness(host="a")
    host = advance(host, a_probe_result(obstacle=Obstacle.KEY_REFUSED, at_s=0), pause_s=1)
    host = advance(host, a_probe_result(obstacle=Obstacle.PORT_REFUSED, at_s=5), pause_s=1)
    host = advance(host, a_probe_result(obstacle=Obstacle.KEY_REFUSED, at_s=6), pause_s=1)

    assert not is_refused(host, 6 + REFUSAL_GRACE_S - 0.1)
    assert is_refused(host, 6 + REFUSAL_GRACE_S)


def test_the_wait_goes_on_while_anybody_may_still_come() -> None:
    """One refused host does not end the wait for one that has not answered."""
    refused = HostReadiness(host="a", stage=Stage.ANSWERING, refused_since_s=0.0)
    missing = HostReadiness(host="b")

    assert is_wait_over((refused,), 100.0)
    assert not is_wait_over((refused, missing), 100.0)


def test_a_late_host_is_let_through_at_its_first_moment() -> None:
    """Nothing sleeps a fixed time."""
    report, probe, _ = run_gate(
        {"a": (None,), "b": (Obstacle.PORT_REFUSED,) * 5 + (None,)}, step_s=0.02
    )

    assert report.is_ready
    assert probe.asked.count("a") == 1
    assert probe.asked.count("b") == 6


def test_every_host_ends_in_exactly_one_row_and_no_probe_comes_after_the_deadline() -> None:
    """The report is complete, and the wait is bounded."""
    report, probe, _ = run_gate(
        {"a": (None,), "b": (Obstacle.NAME_MISSING,), "c": (Obstacle.PORT_REFUSED,)},
        timeout_s=3.0,
        step_s=0.05,
    )

    assert [host.host for host in report.hosts] == ["a", "b", "c"]
    assert [host.host for host in report.laggards] == ["b", "c"]
    assert sum(host.attempts for host in report.hosts) == len(probe.asked)
    assert probe.in_flight == 0
    assert report.elapsed_s < 3.5


def test_no_more_probes_are_in_flight_than_allowed() -> None:
    """One budget for the job."""
    _, probe, _ = run_gate({f"w-{i}": (None,) for i in range(50)}, parallel=7)

    assert probe.most_in_flight == 7


def test_a_refusal_that_does_not_heal_ends_the_wait_before_the_deadline() -> None:
    """Nobody waits ten minutes for a wrong key."""
    report, _, _ = run_gate({"a": (Obstacle.KEY_REFUSED,)}, timeout_s=600.0, step_s=0.05)

    assert not report.is_ready
    assert REFUSAL_GRACE_S <= report.elapsed_s < 60


def test_progress_is_told_at_most_once_in_ten_seconds() -> None:
    """A log is for reading."""
    report, _, recorder = run_gate({"a": (Obstacle.PORT_REFUSED,)}, timeout_s=35.0, step_s=0.05)
    lines = [event for event in recorder.events if isinstance(event, WaitProgressed)]

    assert 1 <= len(lines) <= report.elapsed_s / 10


@pytest.mark.parametrize(
    ("missing", "longest_s"), [(1, 0.1), (10, 0.1), (1000, 6.0)], ids=["last", "few", "many"]
)
def test_the_budget_is_spread_over_the_missing(missing: int, longest_s: float) -> None:
    """The fewer are missing, the more often each is asked."""
    pauses = [
        pause_after(Obstacle.PORT_REFUSED, missing=missing, jitter=j) for j in (0.0, 0.5, 1.0)
    ]

    assert 0 < min(pauses) <= max(pauses) <= longest_s


def test_a_name_is_asked_at_most_about_twice_a_second() -> None:
    """Name servers are shared with the whole cluster."""
    assert pause_after(Obstacle.NAME_MISSING, missing=1, jitter=0.5) >= 0.5


def test_every_obstacle_has_a_remedy() -> None:
    """The troubleshooting table is complete."""
    assert set(REMEDIES) == set(Obstacle)


def _host(name: str, obstacle: Obstacle, stage: Stage) -> HostReadiness:
    result: ProbeResult = a_probe_result(name, stage=stage, obstacle=obstacle)
    return advance(HostReadiness(host=name), result, pause_s=1.0)


def test_the_error_names_who_is_missing_and_why() -> None:
    """One sentence, folded, with a hint that knows Kubernetes."""
    report = ReadinessReport(
        hosts=tuple(_host(f"pi-worker-{i}", Obstacle.NAME_MISSING, Stage.UNKNOWN) for i in (3, 6)),
        elapsed_s=300.0,
        timeout_s=300.0,
    )

    error = readiness_error(report)

    assert isinstance(error, HostsNotReadyError)
    assert error.summary == (
        'cannot reach 2 of 2 hosts within 300 s: "pi-worker-[3,6]": name does not resolve'
    )
    assert "kubectl get pods" in error.hint
    assert len(error.evidence) == 2


def test_refused_hosts_have_a_code_of_their_own() -> None:
    """A retry would end the same way."""
    refused = _host("a", Obstacle.KEY_REFUSED, Stage.ANSWERING)
    missing = _host("b", Obstacle.PORT_REFUSED, Stage.RESOLVED)

    only = readiness_error(ReadinessReport(hosts=(refused,), elapsed_s=12, timeout_s=60))
    both = readiness_error(ReadinessReport(hosts=(refused, missing), elapsed_s=60, timeout_s=60))

    assert (type(only), only.exit_code) == (HostsRefusedError, 77)
    assert (type(both), both.exit_code) == (HostsNotReadyError, 200)


def test_the_progress_line_counts_reasons() -> None:
    """Who is missing, and at which stage."""
    report = ReadinessReport(
        hosts=(
            HostReadiness(host="w-0", stage=Stage.AUTHENTICATED),
            _host("w-1", Obstacle.PORT_REFUSED, Stage.RESOLVED),
            _host("w-2", Obstacle.PORT_REFUSED, Stage.RESOLVED),
        ),
        elapsed_s=20.4,
        timeout_s=600.0,
    )

    assert progress_line(report) == (
        "1 of 3 hosts ready after 20 s (limit 600 s); waiting for w-[1-2]: 2 connection refused"
    )
