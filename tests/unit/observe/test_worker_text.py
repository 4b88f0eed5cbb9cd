"""What happens on a worker, in words, and how loud it is told."""

from __future__ import annotations

import io
import json

import pytest

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import (
    LauncherGone,
    LoginAccepted,
    LoginRefused,
    MemoryExceeded,
    RanksEnded,
    SshServerEnded,
    WorkerDrained,
    WorkerDraining,
    WorkerEvicted,
    WorkerExceededMemory,
    WorkerNotReady,
    WorkerReady,
)
from mpi_agent.observe.log import JsonLog, render_event

_GIB = 1 << 30


def level_of(event: Event) -> str:
    """Return the level in the JSON log."""
    stream = io.StringIO()
    JsonLog(stream)(event)
    level: str = json.loads(stream.getvalue())["level"]
    return level


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            LoginRefused(user="root", peer="10.0.0.7", why="its key is not known here"),
            "refused a login user=root peer=10.0.0.7: its key is not known here",
        ),
        (
            LoginRefused(user="", peer="", why="the client sent no banner"),
            "refused a login user=- peer=-: the client sent no banner",
        ),
        (
            LoginAccepted(user="mpiuser", peer="10.0.0.5"),
            "accepted a login user=mpiuser peer=10.0.0.5",
        ),
        (
            SshServerEnded(why="sshd was killed by SIGKILL", restart_in_s=0.5),
            "the ssh server ended: sshd was killed by SIGKILL; restarting it in 0.5 s",
        ),
        (
            SshServerEnded(why="sshd was killed by SIGKILL", restart_in_s=None),
            "the ssh server ended: sshd was killed by SIGKILL; given up",
        ),
        (
            WorkerEvicted(host="pi-worker-3", signal_name="SIGTERM", grace_s=25.0),
            "pi-worker-3 is being evicted: received SIGTERM, its ranks have 25 s",
        ),
        (
            MemoryExceeded(kills=1, used_bytes=int(31.9 * _GIB), limit_bytes=32 * _GIB),
            "out of memory: the kernel killed 1 process, 31.9 of 32 GiB",
        ),
        (
            WorkerExceededMemory(host="pi-worker-3", kills=2, used_bytes=None, limit_bytes=None),
            "pi-worker-3 is out of memory: the kernel killed 2 processes",
        ),
        (
            LauncherGone(run_id="r1", launcher="pi-launcher", ends_in_s=60.0),
            "launcher=pi-launcher of run_id=r1 is gone: its processes end in 60 s"
            " unless it comes back",
        ),
        (
            LauncherGone(run_id="r1", launcher="pi-launcher", ends_in_s=0.0),
            "launcher=pi-launcher of run_id=r1 is gone: its processes end",
        ),
        (
            WorkerDrained(took_s=3.25, killed=0),
            "drained in 3.2 s: nothing of any job is left",
        ),
        (
            WorkerDrained(took_s=25.0, killed=1),
            "killed 1 process after 25.0 s: nothing of any job is left",
        ),
        (
            WorkerReady(server="OpenSSH_9.2p1", port=2222, user=""),
            "became ready server=OpenSSH_9.2p1 port=2222",
        ),
    ],
)
def test_what_happened_is_one_sentence(event: Event, line: str) -> None:
    """With a dash for what is not known, and without what does not matter."""
    assert render_event(event) == line


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (LoginAccepted(user="a", peer="b"), "info"),
        (LoginRefused(user="a", peer="b", why="c"), "warning"),
        (WorkerNotReady(why="a"), "warning"),
        (RanksEnded(why="a", count=1, killed=0), "warning"),
        (MemoryExceeded(kills=1, used_bytes=None, limit_bytes=None), "warning"),
        (WorkerEvicted(host="a", signal_name="SIGTERM", grace_s=1.0), "warning"),
        (WorkerDrained(took_s=1.0, killed=1), "warning"),
        (WorkerDrained(took_s=1.0, killed=0), "info"),
    ],
)
def test_what_somebody_should_look_at_is_a_warning(event: Event, level: str) -> None:
    """The rest is for who reads along."""
    assert level_of(event) == level


@pytest.mark.parametrize(("ranks", "level"), [(0, "info"), (2, "warning")])
def test_the_end_of_a_worker_is_a_warning_only_while_ranks_run(ranks: int, level: str) -> None:
    """Every worker is told to end when its job is over."""
    event = WorkerDraining(
        signal_name="SIGTERM", drain_signal_name="SIGTERM", ranks=ranks, grace_s=25.0
    )

    assert level_of(event) == level
