"""Where a worker stands, and what its pages say of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mpi_agent.cgroup import MemoryAccount
from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import (
    LauncherGone,
    LoginAccepted,
    LoginRefused,
    MemoryExceeded,
    RunBegan,
    RunOver,
    SshServerEnded,
    WorkerDraining,
    WorkerNotReady,
    WorkerReady,
)
from mpi_agent.job_processes import RankUsage
from mpi_agent.observe.heartbeat import Heartbeat
from mpi_agent.observe.pages import Page, worker_pages
from mpi_agent.observe.usage import Recently, Usage
from mpi_agent.observe.worker_metrics import WorkerMetrics
from mpi_agent.observe.worker_snapshot import OpenRun, WorkerPhase
from mpi_agent.observe.worker_status import Role, WorkerStatus
from tests.unit.observe.sightings import ONE_OF_EACH, StillClock

READY = WorkerReady(server="openssh", port=2222, user="mpiuser", key_fingerprints=("SHA256:a",))
DRAINING = WorkerDraining(signal_name="SIGTERM", drain_signal_name="SIGUSR1", ranks=2, grace_s=25.0)


def a_rank(rank: int, *, cpu_s: float = 1.5, memory_bytes: int = 1 << 20) -> RankUsage:
    """Return what one rank used."""
    return RankUsage(
        rank=rank, local_rank=rank % 2, pid=100 + rank, cpu_s=cpu_s, memory_bytes=memory_bytes
    )


def a_status(
    *events: Event,
    role: Role = Role.WORKER,
    usage: Usage | None = None,
    clock: Callable[[], float] | None = None,
) -> WorkerStatus:
    """Return the status of a worker to which these things happened."""
    seen = Usage() if usage is None else usage
    status = WorkerStatus(
        role=role, name="pi-worker-3", now_s=clock or StillClock(), look=lambda: seen
    )
    for event in events:
        status(event)
    return status


def page_of(status: WorkerStatus) -> dict[str, Any]:
    """Return the status as a reader gets it."""
    values: dict[str, Any] = json.loads(status.render())
    return values


def answer(status: WorkerStatus, path: str, *, heartbeat: Heartbeat | None = None) -> Page:
    """Return the answer to a GET."""
    alive = heartbeat or Heartbeat(now_s=StillClock())
    return worker_pages(status, WorkerMetrics(status), alive)[path]()


def metric_lines(status: WorkerStatus) -> list[str]:
    """Return the samples of /metrics."""
    lines = answer(status, "/metrics").body.decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("events", "phase", "why"),
    [
        ((), "starting", "its ssh server has not answered yet"),
        ((READY,), "ready", None),
        ((READY, WorkerNotReady(why="sshd is being restarted")), "not-ready", "sshd is being"),
        ((READY, WorkerNotReady(why="gone"), READY), "ready", None),
        ((READY, DRAINING), "draining", "it is draining after SIGTERM"),
        ((DRAINING, READY), "draining", "it is draining after SIGTERM"),
        ((DRAINING, WorkerNotReady(why="gone")), "draining", "it is draining after SIGTERM"),
    ],
)
def test_the_phase_follows_what_happened(
    events: tuple[Event, ...], phase: str, why: str | None
) -> None:
    """And a worker that was told to end stays draining."""
    status = a_status(*events)

    page, ready = page_of(status), answer(status, "/readyz")

    assert page["phase"] == phase
    assert (page["why"] is None) if why is None else page["why"].startswith(why)
    assert ready.code == (200 if why is None else 503)


def test_the_kubelet_reads_why_in_one_line() -> None:
    """Whatever the reason contains."""
    page = answer(a_status(WorkerNotReady(why="a\nb\x1b[2J")), "/readyz")

    assert (page.code, page.body) == (503, b"not ready: a\\nb\\x1b[2J\n")


def test_since_counts_from_the_change_of_phase_and_not_of_the_reason() -> None:
    """A worker that has not been ready for an hour, whatever the reason is now."""
    clock = StillClock(now_s=100.0)
    status = a_status(READY, clock=clock)
    clock.now_s = 110.0
    status(WorkerNotReady(why="one"))
    clock.now_s = 115.0
    status(WorkerNotReady(why="two"))
    clock.now_s = 120.0

    page = page_of(status)

    assert (page["since_s"], page["why"]) == (10.0, "two")


def test_logins_and_restarts_are_counted() -> None:
    """A restart that was given up is none."""
    refused = LoginRefused(user="root", peer="10.0.0.7", why="its key is not known here")
    accepted = LoginAccepted(user="mpiuser", peer="10.0.0.5", key_fingerprint="SHA256:a")
    ended = SshServerEnded(why="killed", restart_in_s=1.0)

    status = a_status(
        accepted, refused, accepted, ended, SshServerEnded(why="killed", restart_in_s=None)
    )

    assert page_of(status)["logins"] == {"accepted": 2, "refused": 1}
    assert page_of(status)["ssh"]["restarts"] == 1
    assert 'mpi_agent_logins_total{outcome="accepted"} 2.0' in metric_lines(status)
    assert "mpi_agent_ssh_server_restarts_total 1.0" in metric_lines(status)


def test_a_run_is_open_until_it_is_over() -> None:
    """Two launches at a time in one container are two."""
    status = a_status(
        RunBegan(run_id="r1", launcher="pi-launcher"),
        RunBegan(run_id="r2", launcher="pi-launcher"),
        RunOver(run_id="r1", exit_code=0),
    )

    assert status.runs == (OpenRun(run_id="r2", launcher="pi-launcher"),)
    assert "mpi_agent_runs_open 1.0" in metric_lines(status)


def test_a_run_whose_launcher_may_come_back_is_open_and_not_watched() -> None:
    """Until it came back, or until its time was over."""
    clock = StillClock(now_s=100.0)
    began = RunBegan(run_id="r1", launcher="pi-launcher")
    gone = LauncherGone(run_id="r1", launcher="pi-launcher", ends_in_s=60.0)
    status = a_status(began, gone, clock=clock)
    clock.now_s = 120.0

    assert page_of(status)["runs"] == [
        {"run_id": "r1", "launcher": "pi-launcher", "watched": False, "ends_in_s": 40.0}
    ]
    assert page_of(a_status(began, gone, began))["runs"][0]["watched"] is True
    clock.now_s = 160.0
    assert status.runs == ()


def test_a_run_whose_launcher_is_gone_for_good_is_over() -> None:
    """As when the same launcher came back in another container."""
    began = RunBegan(run_id="r1", launcher="pi-launcher")
    gone = LauncherGone(run_id="r1", launcher="pi-launcher", ends_in_s=0.0)

    assert a_status(began, gone).runs == ()


def test_each_rank_is_told_with_what_it_used() -> None:
    """By its number in the whole job, and with the memory of the container around it."""
    memory = MemoryAccount(limit_bytes=4 << 30, used_bytes=1 << 30, kills=1)
    usage = Usage(ranks=(a_rank(6, cpu_s=12.25), a_rank(7)), memory=memory)

    page = page_of(a_status(READY, usage=usage))
    lines = metric_lines(a_status(READY, usage=usage))

    assert page["ranks"][0] == {
        "rank": 6,
        "local_rank": 0,
        "pid": 106,
        "cpu_s": 12.25,
        "memory_bytes": 1 << 20,
    }
    assert page["memory"]["oom_kills"] == 1
    assert "mpi_agent_ranks 2.0" in lines
    assert 'mpi_agent_rank_cpu_seconds_total{rank="6"} 12.25' in lines
    assert 'mpi_agent_rank_memory_bytes{rank="7"} 1.048576e+06' in lines
    assert "mpi_agent_memory_limit_bytes 4.294967296e+09" in lines
    assert "mpi_agent_oom_kills_total 1.0" in lines


def test_ranks_of_one_number_in_two_runs_are_one_series() -> None:
    """Prometheus refuses a page on which a series stands twice."""
    usage = Usage(ranks=(a_rank(0), a_rank(1), a_rank(0, cpu_s=2.0)))

    lines = metric_lines(a_status(usage=usage))

    assert [line for line in lines if 'seconds_total{rank="0"}' in line] == [
        'mpi_agent_rank_cpu_seconds_total{rank="0"} 3.5'
    ]
    assert "mpi_agent_ranks 3.0" in lines


def test_what_is_not_seen_has_no_value() -> None:
    """Zero would be a lie; so would be the logins of an ssh server next door."""
    lines = metric_lines(a_status(READY, role=Role.SIDECAR))
    page = page_of(a_status(READY, role=Role.SIDECAR, usage=Usage(notes=("not shared",))))

    assert not [line for line in lines if "memory" in line or "oom" in line or "logins" in line]
    assert (page["logins"], page["runs"], page["memory"]["limit_bytes"]) == (None, None, None)
    assert page["notes"] == ["not shared"]


def test_the_status_is_one_line_for_the_one_who_logs_in() -> None:
    """The protocol knows lines."""
    text = a_status(READY).render()

    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_no_page_tells_what_a_secret_may_stand_in() -> None:
    """Neither who was refused, nor what a server said, nor a command line."""
    status = a_status(*ONE_OF_EACH)

    text = status.render() + "\n".join(metric_lines(status))

    assert not [word for word in ("10.0.0.7", "mpirun", "./pi", "maximum auth") if word in text]


def test_the_agent_lives_while_its_loop_turns() -> None:
    """A loop that hangs is found out by the thread that answers, and is not ready either."""
    clock = StillClock()
    heartbeat = Heartbeat(now_s=clock, limit_s=30.0)
    clock.now_s += 29.0
    assert answer(a_status(READY), "/healthz", heartbeat=heartbeat).body == b"ok\n"
    clock.now_s += 2.0

    health = answer(a_status(READY), "/healthz", heartbeat=heartbeat)
    ready = answer(a_status(READY), "/readyz", heartbeat=heartbeat)
    heartbeat.beat()

    assert (health.code, health.body) == (503, b"not ok: the agent has been stuck for 31 s\n")
    assert ready.code == 503
    assert answer(a_status(READY), "/healthz", heartbeat=heartbeat).code == 200


def test_who_asks_often_does_not_make_us_look_often() -> None:
    """The port asks nobody who he is, and the ranks need the CPU."""
    clock, looks = StillClock(), []

    def look() -> Usage:
        looks.append(clock.now_s)
        return Usage(ranks=(a_rank(len(looks)),))

    recently = Recently(look, now_s=clock)
    first, second = recently(), recently()
    clock.now_s += 1.0
    third = recently()

    assert first is second
    assert third.ranks[0].rank == 2
    assert looks == [100.0, 101.0]


def test_events_that_change_nothing_keep_the_value() -> None:
    """Other threads read it."""
    status = a_status(READY)
    before = status.snapshot

    for event in ONE_OF_EACH[:5]:
        status(event)

    assert status.snapshot is before
    assert before.phase is WorkerPhase.READY


def test_kills_that_events_told_are_remembered() -> None:
    """The status of a worker whose cgroup tells nothing has them too."""
    status = a_status(MemoryExceeded(kills=2, used_bytes=None, limit_bytes=None))

    assert page_of(status)["memory"]["oom_kills"] == 2
    assert "mpi_agent_oom_kills_total 2.0" in metric_lines(status)
