"""The metrics after a sequence of events."""

from __future__ import annotations

import re

import pytest

from mpi_agent import __version__
from mpi_agent.job.endings import Verdict
from mpi_agent.job.events import (
    Event,
    HostsReady,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    WaitStarted,
)
from mpi_agent.job.readiness import Obstacle, ReadinessReport, Stage
from mpi_agent.observe.metrics import Metrics
from tests.unit.observe.sightings import (
    NAMES,
    StillClock,
    a_ready_host,
    a_report,
    a_result,
    an_ending,
)

STARTED = WaitStarted(names=NAMES, timeout_s=600.0)
PROBED = ProbeEnded(result=a_result(), report=a_report(ready=1))
PASSED = ProbeEnded(
    result=a_result("pi-worker-0", None, stage=Stage.EQUIPPED), report=a_report(ready=2)
)


def samples_after(*events: Event, later_s: float = 0.0) -> dict[str, float]:
    """Return every sample that Prometheus would read, by name and labels."""
    clock = StillClock(100.0)
    metrics = Metrics(now_s=clock)
    for event in events:
        metrics(event)
    clock.now_s += later_s
    lines = metrics.render().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_every_label_value_is_there_from_the_start() -> None:
    """A rate needs the zero before the first one."""
    samples = samples_after()

    assert samples['mpi_agent_hosts{stage="ready"}'] == 0
    assert samples[f'mpi_agent_build_info{{version="{__version__}"}}'] == 1
    for obstacle in Obstacle:
        assert samples[f'mpi_agent_probes_total{{outcome="{obstacle.name.lower()}"}}'] == 0
    for stage in tuple(Stage)[1:]:
        name = f'mpi_agent_probe_duration_seconds_count{{stage="{stage.name.lower()}"}}'
        assert samples[name] == 0


def test_hosts_are_counted_under_the_stage_they_reached_or_as_ready() -> None:
    """So that the stages add up to the hosts expected."""
    samples = samples_after(STARTED, PROBED)
    hosts = {name: value for name, value in samples.items() if "mpi_agent_hosts{" in name}

    assert hosts['mpi_agent_hosts{stage="resolved"}'] == 2
    assert hosts['mpi_agent_hosts{stage="ready"}'] == 1
    assert sum(hosts.values()) == samples["mpi_agent_hosts_expected"] == 3


def test_probes_are_counted_by_outcome() -> None:
    """Passed, or the name of the obstacle."""
    samples = samples_after(STARTED, PROBED, PROBED, PASSED)

    assert samples['mpi_agent_probes_total{outcome="port_refused"}'] == 2
    assert samples['mpi_agent_probes_total{outcome="passed"}'] == 1


def test_each_question_of_a_probe_is_timed() -> None:
    """By the stage it asked for."""
    samples = samples_after(STARTED, PROBED, PASSED)
    name = "mpi_agent_probe_duration_seconds"

    assert samples[f'{name}_bucket{{le="0.001",stage="resolved"}}'] == 0
    assert samples[f'{name}_bucket{{le="0.0025",stage="resolved"}}'] == 2
    assert samples[f'{name}_sum{{stage="reachable"}}'] == pytest.approx(0.4)
    assert samples[f'{name}_count{{stage="answering"}}'] == 0


def test_the_wait_is_timed_until_the_hosts_are_ready() -> None:
    """Then it stands still."""
    ready = HostsReady(report=a_report(ready=3))

    waiting = samples_after(STARTED, PROBED, later_s=1.5)
    over = samples_after(STARTED, PROBED, ready, later_s=50.0)

    assert (waiting["mpi_agent_wait_seconds"], waiting["mpi_agent_ready"]) == (13.5, 0)
    assert (over["mpi_agent_wait_seconds"], over["mpi_agent_ready"]) == (12.0, 1)


def test_the_program_is_timed_and_its_code_told_once_there_is_one() -> None:
    """A code of 0 before the end would be a lie."""
    started = ProgramStarted(argv=("mpirun",), pid=42, np=6, host_count=3)
    ended = ProgramEnded(ending=an_ending(Verdict.PROGRAM_FAILED, code=3))

    running = samples_after(started, later_s=2.0)
    over = samples_after(started, ended, later_s=9.0)

    assert (running["mpi_agent_program_running"], running["mpi_agent_program_seconds"]) == (1, 2.0)
    assert "mpi_agent_program_exit_code" not in running
    assert (over["mpi_agent_program_running"], over["mpi_agent_program_seconds"]) == (0, 1.5)
    assert over["mpi_agent_program_exit_code"] == 3


def test_names_follow_the_rule() -> None:
    """`mpi_agent_<noun>_<unit>`; counters end in _total, and nothing tells when it was made."""
    metrics = Metrics(now_s=StillClock())

    for metric in metrics.registry.collect():
        assert re.fullmatch(r"mpi_agent_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.documentation.endswith(".")
    assert "_created" not in metrics.render().decode()


def test_a_thousand_hosts_do_not_make_a_single_series_more() -> None:
    """Names of hosts are no labels."""
    hosts = tuple(a_ready_host(f"pi-worker-{index}") for index in range(1000))
    report = ReadinessReport(hosts=hosts, elapsed_s=1.0, timeout_s=None, at_s=100.0)

    assert set(samples_after(HostsReady(report=report))) == set(samples_after())
