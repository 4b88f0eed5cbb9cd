"""The metrics after a sequence of events."""

from __future__ import annotations

import re

import pytest

from mpi_agent import __version__
from mpi_agent.job.endings import Verdict
from mpi_agent.job.events import (
    AttemptEnded,
    Event,
    HostsReady,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    RankFailed,
    RanksStarted,
    RestartDecided,
    SignalReceived,
    WaitStarted,
    WorkerLost,
    WorkerReturned,
    WorkerSuspected,
)
from mpi_agent.job.readiness import Obstacle, ReadinessReport, Stage
from mpi_agent.observe.metrics import Metrics
from tests.unit.observe.sightings import (
    NAMES,
    StillClock,
    a_loss,
    a_loss_of_a_worker,
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


STARTED_PROGRAM = ProgramStarted(argv=("mpirun",), pid=42, np=6, host_count=3)
RESTART = RestartDecided(restarts=True, delay_s=2.0, reason="a worker was lost")


def text_of(metrics: Metrics) -> str:
    """Return what is served."""
    return metrics.render().decode()


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


def test_attempts_are_counted_by_verdict_and_the_latest_one_is_told() -> None:
    """One that is not the last counts too; the job's code comes with the last one alone."""
    lost = AttemptEnded(ending=a_loss_of_a_worker())
    ended = ProgramEnded(ending=an_ending())
    name = "mpi_agent_attempts_total"

    between = samples_after(STARTED_PROGRAM, WorkerLost(loss=a_loss()), lost, RESTART)
    over = samples_after(STARTED_PROGRAM, lost, RESTART, STARTED_PROGRAM, ended)

    assert between[f'{name}{{verdict="workers_lost"}}'] == 1
    assert sum(value for key, value in between.items() if key.startswith(name)) == 1
    assert (between["mpi_agent_restarts_total"], between["mpi_agent_attempt"]) == (1, 2)
    assert between["mpi_agent_workers_lost_total"] == 1
    assert between["mpi_agent_last_exit_code"] == 201
    assert between['mpi_agent_last_verdict{verdict="workers_lost"}'] == 1
    assert "mpi_agent_program_exit_code" not in between
    assert over["mpi_agent_last_exit_code"] == over["mpi_agent_program_exit_code"] == 0
    assert over['mpi_agent_last_verdict{verdict="workers_lost"}'] == 0
    assert over['mpi_agent_last_verdict{verdict="succeeded"}'] == 1


def test_every_verdict_is_there_before_the_first_attempt_is_over() -> None:
    """And no exit code is."""
    samples = samples_after()

    for verdict in Verdict:
        label = f'{{verdict="{verdict.name.lower()}"}}'
        assert samples[f"mpi_agent_attempts_total{label}"] == 0
        assert samples[f"mpi_agent_last_verdict{label}"] == 0
    assert "mpi_agent_last_exit_code" not in samples


def test_a_program_that_is_being_ended_still_runs() -> None:
    """Its grace period is part of it."""
    stop = SignalReceived(name="SIGTERM", action="passed on to the program")

    assert samples_after(STARTED_PROGRAM, stop)["mpi_agent_program_running"] == 1


def test_each_phase_is_timed_over_all_attempts() -> None:
    """The phase that goes on counts too."""
    clock = StillClock(100.0)
    metrics = Metrics(now_s=clock)
    ready = HostsReady(report=a_report(ready=3))
    lost = AttemptEnded(ending=a_loss_of_a_worker())

    for event, after_s in (
        *((STARTED, 1.0), (ready, 10.0), (STARTED_PROGRAM, 0.5), (WorkerLost(loss=a_loss()), 60.0)),
        *((lost, 4.0), (RESTART, 0.25), (STARTED, 3.0), (ready, 5.0), (STARTED_PROGRAM, 0.5)),
    ):
        clock.now_s += after_s
        metrics(event)
    clock.now_s += 7.0
    seconds = dict(re.findall(r'phase_seconds_total{phase="(\w+)"} (\S+)', text_of(metrics)))

    assert {name: float(value) for name, value in seconds.items()} == {
        "discovering": 1.0,
        "waiting": 15.0,
        "starting": 1.0,
        "running": 67.0,
        "ending": 4.25,
        "restarting": 3.0,
    }


def test_ranks_and_suspects_are_told_as_they_are_now() -> None:
    """A worker that came back is no suspect any more."""
    suspected = WorkerSuspected(host="pi-worker-1", why="silent")
    back = WorkerReturned(host="pi-worker-1", silent_s=3.0)
    started = RanksStarted(host_count=3, after_s=1.25)
    failed = RankFailed(host="pi-worker-1", rank=3, how="exit code 7")

    samples = samples_after(STARTED_PROGRAM, started, suspected, failed)

    assert samples["mpi_agent_workers_suspected"] == 1
    assert samples["mpi_agent_ranks_start_seconds"] == 1.25
    assert samples["mpi_agent_ranks_failed_total"] == 1
    assert samples_after(suspected, back)["mpi_agent_workers_suspected"] == 0
    assert "mpi_agent_ranks_start_seconds" not in samples_after(STARTED_PROGRAM)


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
