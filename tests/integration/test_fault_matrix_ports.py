"""Faults of ports: told as what they are at the deadline, and used as soon as they heal."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.wait.tcp import BANNER_LIMIT_S, knock
from tests.fault_matrix import (
    Cure,
    Fault,
    assert_healed,
    assert_told,
    probe_of,
    terms_of,
    wait_for,
)
from tests.liars import full_port, greets, hangs_up, lying, nobody, says, silent, slow_road
from tests.workers import JobKeys, running_worker

pytestmark = pytest.mark.integration

Server = Callable[[], AbstractContextManager[SshTarget]]

DEADLINE_S = 1.0
LIMIT_S = 0.5
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TURNS_AWAY = says(b"Exceeded MaxStartups\r\n")
FAULTS: dict[str, tuple[Server, Stage, Obstacle, str]] = {
    "refused": (nobody, Stage.RESOLVED, Obstacle.PORT_REFUSED, "refuses connections on port"),
    "dropped": (full_port, Stage.RESOLVED, Obstacle.PORT_FILTERED, "nothing answered on"),
    "silent": (
        lambda: lying(silent),
        Stage.REACHABLE,
        Obstacle.BANNER_LATE,
        "accepted and sent no SSH banner within 0.5 s",
    ),
    "closed at once": (
        lambda: lying(hangs_up),
        Stage.REACHABLE,
        Obstacle.CLOSED_EARLY,
        "closed the connection before an SSH banner came",
    ),
    "web server": (
        lambda: lying(says(HTTP)),
        Stage.REACHABLE,
        Obstacle.NOT_SSH,
        "answers 'HTTP/1.1 400 Bad Request\\r', which is not SSH",
    ),
    "a megabyte": (
        lambda: lying(says(b"x" * 1_000_000)),
        Stage.REACHABLE,
        Obstacle.NOT_SSH,
        f"answers '{'x' * 60}', which is not SSH",
    ),
    "turned away": (
        lambda: lying(TURNS_AWAY),
        Stage.REACHABLE,
        Obstacle.TURNED_AWAY,
        'says "Exceeded MaxStartups"',
    ),
    "broken off": (
        lambda: lying(says(b"SSH-2.0-liar\r\n")),
        Stage.ANSWERING,
        Obstacle.LOGIN_BROKEN,
        "broke off: ",
    ),
    "garbage": (
        lambda: lying(says(b"SSH-2.0-liar\r\n" + b"\x7f" * 4096)),
        Stage.ANSWERING,
        Obstacle.LOGIN_BROKEN,
        "broke off: Max packet size exceeded",
    ),
}


@pytest.mark.parametrize(
    ("server", "stage", "obstacle", "words"), FAULTS.values(), ids=FAULTS.keys()
)
def test_each_fault_of_a_port_is_told_apart_at_the_deadline(
    root: Path, keys: JobKeys, server: Server, stage: Stage, obstacle: Obstacle, words: str
) -> None:
    """All may heal, so the wait goes on, and a retry may help (200)."""
    ask = functools.partial(knock, connect_limit_s=LIMIT_S, banner_limit_s=LIMIT_S)
    with server() as target:
        probe = probe_of(terms_of(keys, root), target, knock=ask)
        waited = wait_for(probe, target.name, timeout_s=DEADLINE_S)

    fault = Fault(stage=stage, obstacle=obstacle, says=words, code=200)
    assert_told(waited, fault, after_s=DEADLINE_S)


@pytest.mark.parametrize(
    ("server", "stage"),
    [
        (full_port, Stage.RESOLVED),
        (lambda: lying(silent), Stage.REACHABLE),
        (lambda: lying(greets), Stage.REACHABLE),
    ],
    ids=["dropped", "silent", "banner only"],
)
def test_a_probe_that_is_under_way_at_the_deadline_is_broken_off(
    root: Path, keys: JobKeys, server: Server, stage: Stage
) -> None:
    """The deadline counts; what was opened is closed, and how far it had come is told."""
    with server() as target:
        probe = probe_of(terms_of(keys, root), target)
        waited = wait_for(probe, target.name, timeout_s=0.5)

    print(f"broken off {1000 * (waited.took_s - 0.5):.0f} ms after the deadline")
    assert waited.results == ()
    assert [host.stage for host in waited.report.hosts] == [stage]
    assert "no answer yet" in waited.error.summary
    assert 0.5 <= waited.took_s < BANNER_LIMIT_S / 4
    assert waited.error.exit_code == 200


def test_a_banner_that_takes_three_seconds_is_waited_for(root: Path, keys: JobKeys) -> None:
    """An sshd that looks its client up in DNS first: the first probe is enough."""
    with (
        running_worker(keys, root, name="w-0") as worker,
        lying(slow_road(worker.target, 3.0)) as target,
    ):
        there = SshTarget(name="w-0", address=target.address, port=target.port)
        waited = wait_for(probe_of(terms_of(keys, root), there), "w-0", timeout_s=60)

    (result,) = waited.results
    print(f"ready after {waited.took_s:.2f} s, of which the banner took 3 s")
    assert result.passed, result.detail
    assert 3.0 <= waited.took_s < BANNER_LIMIT_S


@pytest.mark.parametrize(
    ("server", "fault"),
    [
        (nobody, Obstacle.PORT_REFUSED),
        (lambda: lying(hangs_up), Obstacle.CLOSED_EARLY),
        (lambda: lying(TURNS_AWAY), Obstacle.TURNED_AWAY),
    ],
    ids=["refused", "closed at once", "turned away"],
)
def test_the_worker_that_comes_in_place_of_a_fault_is_used_at_once(
    root: Path, keys: JobKeys, server: Server, fault: Obstacle
) -> None:
    """On the same address and port; the figure holds from the moment at which it is ready."""
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as wrong:
        liar = wrong.enter_context(server())
        there = SshTarget(name="w-0", address=liar.address, port=liar.port)

        def replace() -> None:
            wrong.close()
            place = ("--listen-address", str(liar.address), "--ssh-port", str(liar.port))
            stack.enter_context(running_worker(keys, root, *place, name="w-0"))

        waited = wait_for(
            probe_of(terms_of(keys, root), there),
            "w-0",
            timeout_s=60,
            cure=Cure(of=fault, how=replace),
        )

    assert_healed(waited, fault)
