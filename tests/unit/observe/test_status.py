"""The status page and the report of `wait`, as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    RanksStalled,
    RanksStarted,
    RestartDecided,
    SignalReceived,
    WaitStarted,
    WorkerLost,
    WorkerReturned,
    WorkerSuspected,
)
from mpi_agent.observe.status import Status, render_report
from tests.unit.observe.sightings import (
    NAMES,
    StillClock,
    a_finding,
    a_loss,
    a_loss_of_a_worker,
    a_report,
    a_result,
    a_sweep,
    an_ending,
    some_hosts,
)

DISCOVERED = HostsDiscovered(hosts=some_hosts())
STARTED = WaitStarted(names=NAMES, timeout_s=600.0)
PROBED = ProbeEnded(result=a_result(), report=a_report(ready=1))
READY = HostsReady(report=a_report(ready=3))
RANKS = RanksStarted(host_count=3, after_s=1.25)
RUNNING = ProgramStarted(argv=("mpirun", "--token=1234"), pid=42, np=6, host_count=3)


def status_after(*events: Event, later_s: float = 0.0) -> dict[str, Any]:
    """Return the page after some events that all came at 100 s."""
    clock = StillClock(100.0)
    status = Status(now_s=clock)
    for event in events:
        status(event)
    clock.now_s += later_s
    values: dict[str, Any] = json.loads(status.render())
    return values


def test_at_first_nothing_is_known() -> None:
    """And that is said with null, not with zeros."""
    status = status_after()

    assert status["phase"] == "discovering"
    assert [status[name] for name in ("job", "wait", "program", "ending")] == [None] * 4


def test_hosts_are_told_as_soon_as_they_are_discovered() -> None:
    """With the source that named them."""
    assert status_after(DISCOVERED)["job"] == {
        "hosts": 3,
        "slots": 6,
        "source": "/etc/mpi/hostfile",
    }


def test_hosts_that_changed_replace_the_first_ones() -> None:
    """The job is what its source says last."""
    changed = HostsChanged(hosts=some_hosts(5), added=(), removed=())

    assert status_after(DISCOVERED, changed)["job"]["hosts"] == 5


def test_everybody_is_unknown_when_the_wait_starts() -> None:
    """Before the first probe has ended."""
    wait = status_after(DISCOVERED, STARTED, later_s=2.0)["wait"]

    assert (wait["stages"]["unknown"], wait["hosts_ready"]) == (3, 0)
    assert (wait["elapsed_s"], wait["timeout_s"]) == (2.0, 600.0)
    assert wait["obstacles"] == {"not_asked": 3}
    assert [host["since_s"] for host in wait["not_ready"]] == [2.0, 2.0, 2.0]


def test_a_host_that_is_missing_is_named_with_stage_time_and_obstacle() -> None:
    """Durations go on between two probes."""
    status = status_after(STARTED, PROBED, later_s=1.0)

    assert status["phase"] == "waiting"
    assert status["wait"]["elapsed_s"] == 13.0
    assert [host["name"] for host in status["wait"]["not_ready"]] == ["pi-worker-1", "pi-worker-2"]
    assert status["wait"]["not_ready"][0] == {
        "name": "pi-worker-1",
        "ready": False,
        "stage": "resolved",
        "attempts": 7,
        "address": None,
        "port": None,
        "obstacle": "port_refused",
        "detail": "10.0.0.7 port 2222: connection refused",
        "since_s": 11.0,
        "hindered_s": 9.0,
        "notes": [],
    }


def test_the_wait_stands_still_once_the_hosts_are_ready() -> None:
    """What it took is what is told for ever after."""
    wait = status_after(STARTED, PROBED, READY, later_s=50.0)["wait"]

    assert (wait["ready"], wait["elapsed_s"], wait["not_ready"]) == (True, 12.0, [])


def test_a_running_program_is_told_without_its_arguments() -> None:
    """Whoever reaches the port may read this page."""
    status = status_after(DISCOVERED, STARTED, READY, RUNNING, later_s=3.0)

    assert status["phase"] == "running"
    assert status["program"] == {"pid": 42, "np": 6, "hosts": 3, "running_s": 3.0}
    assert "1234" not in json.dumps(status)


def test_the_ending_is_told_with_verdict_and_code() -> None:
    """And mpirun's own exit."""
    status = status_after(READY, RUNNING, ProgramEnded(ending=an_ending()), later_s=9.0)

    assert status["phase"] == "ended"
    assert status["program"]["running_s"] == 1.5
    assert status["ending"] == {
        "verdict": "succeeded",
        "exit_code": 0,
        "summary": '"pi" ended with code 0',
        "attempt": 1,
        "duration_s": 1.5,
        "process_code": 0,
        "process_signal": None,
        "losses": [],
        "findings": [],
    }


def test_an_ending_tells_who_was_lost_and_what_was_found() -> None:
    """What the agent knows by itself has no line."""
    found = (a_finding(), a_finding("worker-evicted", line_number=0, host="pi-worker-2"))
    ending = status_after(RUNNING, ProgramEnded(ending=a_loss_of_a_worker(*found)))["ending"]

    assert (ending["verdict"], ending["exit_code"], ending["process_code"]) == (
        *("workers_lost", 201),
        205,
    )
    assert ending["losses"] == [
        {
            "host": "pi-worker-2",
            "why": "no answer on TCP since 12:01:07",
            "after_s": 8040.0,
            "noticed_after_s": 14.25,
        }
    ]
    assert ending["findings"][0] == {
        "symptom": "cuda-out-of-memory",
        "kind": "cause",
        "is_past": False,
        "cause": "CUDA ran out of memory",
        "remedy": "lower the batch size",
        "line": "RuntimeError: CUDA out of memory",
        "line_number": 40,
        "stream": "stderr",
        "host": None,
    }
    assert [ending["findings"][1][key] for key in ("line", "line_number", "stream", "host")] == (
        [None, None, None, "pi-worker-2"]
    )


def test_the_first_attempt_is_one_without_restarts() -> None:
    """Also where nobody told of it."""
    assert status_after(RUNNING)["attempt"] == {
        "number": 1,
        "run_id": None,
        "max_restarts": 0,
        "restarts": 0,
        "restarts_left": 0,
        "ranks_after_s": None,
        "suspects": [],
        "losses": [],
    }


def test_a_worker_is_suspected_until_it_comes_back_or_is_lost() -> None:
    """Who is suspected twice stands there once."""
    suspected = [
        WorkerSuspected(host=name, why="no answer on TCP since 12:01:07")
        for name in (NAMES[0], NAMES[1], NAMES[2], NAMES[2])
    ]
    back = WorkerReturned(host=NAMES[0], silent_s=3.0)

    status = status_after(RUNNING, *suspected, back, WorkerLost(loss=a_loss(NAMES[1])))

    assert [suspect["host"] for suspect in status["attempt"]["suspects"]] == [NAMES[2]]
    assert [loss["host"] for loss in status["attempt"]["losses"]] == [NAMES[1]]
    assert (status["phase"], status["program"]["running_s"]) == ("ending", 0.0)


def test_a_restart_forgets_the_program_and_keeps_how_it_ended() -> None:
    """The job itself has no ending yet."""
    began = AttemptBegan(number=1, max_restarts=3, run_id="0f.1e.2d.1")
    restart = RestartDecided(restarts=True, delay_s=2.0, reason="a worker was lost")
    ended = AttemptEnded(ending=a_loss_of_a_worker(a_finding()))

    status = status_after(began, READY, RUNNING, RANKS, ended, restart, later_s=1.0)

    assert (status["phase"], status["since_s"]) == ("restarting", 1.0)
    assert [status[name] for name in ("wait", "program", "ending")] == [None] * 3
    assert status["attempt"] == {
        "number": 2,
        "run_id": None,
        "max_restarts": 3,
        "restarts": 1,
        "restarts_left": 2,
        "ranks_after_s": None,
        "suspects": [],
        "losses": [],
    }
    (past,) = status["past_endings"]
    assert (past["verdict"], past["attempt"], past["lost"]) == ("workers_lost", 1, ["pi-worker-2"])
    assert past["symptom"] == "cuda-out-of-memory"


def test_the_wait_of_the_next_attempt_counts_anew() -> None:
    """Its hosts are not those that were ready before."""
    restart = RestartDecided(restarts=True, delay_s=2.0, reason="a worker was lost")
    ended = AttemptEnded(ending=a_loss_of_a_worker())

    status = status_after(STARTED, READY, RUNNING, ended, restart, STARTED, later_s=3.0)

    assert (status["phase"], status["wait"]["hosts_ready"]) == ("waiting", 0)
    assert status["wait"]["elapsed_s"] == 3.0


def test_no_more_than_ten_past_endings_are_kept() -> None:
    """The latest ones."""
    events: list[Event] = []
    for number in range(1, 15):
        events += (
            AttemptEnded(ending=a_loss_of_a_worker(attempt=number)),
            RestartDecided(restarts=True, delay_s=1.0, reason="a worker was lost"),
        )

    status = status_after(*events)

    assert [past["attempt"] for past in status["past_endings"]] == list(range(5, 15))
    assert status["attempt"]["number"] == 15


@pytest.mark.parametrize(
    ("event", "phase"),
    [
        (SignalReceived(name="SIGTERM", action="passed on"), "ending"),
        (SignalReceived(name="SIGUSR1", action="passed on"), "running"),
        (RanksStalled(why="all are idle", silent_s=60.0, ends_program=True), "ending"),
        (RanksStalled(why="all are idle", silent_s=60.0, ends_program=False), "running"),
        (WorkerSuspected(host="w", why="silent"), "running"),
        (a_sweep(), "ending"),
    ],
)
def test_what_ends_a_program_begins_the_phase_of_ending(event: Event, phase: str) -> None:
    """And nothing else does."""
    assert status_after(RUNNING, event)["phase"] == phase


def test_a_sweep_before_the_program_is_no_ending() -> None:
    """It makes room for this attempt."""
    assert status_after(STARTED, READY, a_sweep())["phase"] == "starting"


def test_the_report_of_a_wait_has_every_host() -> None:
    """Durations look back from the moment of the report."""
    report = json.loads(render_report(a_report(ready=1)))

    assert (report["ready"], report["hosts_ready"], report["hosts_total"]) == (False, 1, 3)
    assert [host["name"] for host in report["hosts"]] == list(NAMES)
    assert report["hosts"][0] == {
        "name": "pi-worker-0",
        "ready": True,
        "stage": "equipped",
        "attempts": 4,
        "address": "10.0.0.5",
        "port": 2222,
        "obstacle": None,
        "detail": None,
        "since_s": 5.0,
        "hindered_s": None,
        "notes": ["its MPI could not be asked"],
    }


def test_enough_hosts_are_a_ready_wait() -> None:
    """Though some are missing."""
    report = json.loads(render_report(replace(a_report(ready=1), enough=1)))

    assert (report["ready"], report["hosts_needed"], report["hosts_total"]) == (True, 1, 3)
