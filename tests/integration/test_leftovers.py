"""What an earlier launch has left on a worker is ended by the login that asks about its equipment.

The worker's part is played by a script; its own part is tested where it lives.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.job.readiness import ProbeResult, Stage
from mpi_agent.ssh.worker_protocol import RUN_MARK
from mpi_agent.ssh.worker_words import Cleaned, LauncherId
from mpi_agent.wait.equipment import Equipment
from mpi_agent.wait.ssh import LoginProbe
from tests.builders import OPEN_MPI_4_STACK
from tests.fake_worker_call import FakeCall, Way
from tests.fault_matrix import probe_of, terms_of
from tests.plain_sshd import SKIPS_BASHRC, PlainSshd, running_sshd
from tests.workers import JobKeys, require_program

pytestmark = pytest.mark.integration

LAUNCHER = LauncherId(name="pi-launcher", container="c0ffee")


@pytest.fixture
def call(root: Path) -> FakeCall:
    """Provide the script that every session is told of."""
    directory = root / "fakes"
    directory.mkdir()
    return FakeCall(root=directory)


@pytest.fixture
def sshd(keys: JobKeys, root: Path, call: FakeCall) -> Iterator[PlainSshd]:
    """Provide an sshd at one address."""
    variables = {**SKIPS_BASHRC, "MPI_AGENT_WORKER_CALL": str(call.path)}
    with running_sshd(keys, root, environ=variables) as sshd:
        yield sshd


def asked(
    keys: JobKeys,
    root: Path,
    sshd: PlainSshd,
    *,
    launcher: LauncherId | None = LAUNCHER,
    limit_s: float = 20.0,
) -> ProbeResult:
    """Return what one probe of the host finds that has all that it needs."""
    daemon = Path(require_program("sh"))
    equipment = Equipment(
        stack=OPEN_MPI_4_STACK,
        daemon=str(daemon),
        daemon_sha256=hashlib.sha256(daemon.read_bytes()).hexdigest(),
        program=None,
        launcher=launcher,
    )

    async def probe() -> ProbeResult:
        login = LoginProbe(terms_of(keys, root), equipment=equipment, answer_limit_s=limit_s)
        return await probe_of(login, *sshd.targets).probe(sshd.targets[0].name)

    result = asyncio.run(probe())
    assert result.stage is Stage.EQUIPPED, result
    assert result.facts is not None
    return result


def test_what_is_left_is_ended_for_this_launcher_and_told(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """In the same login, before the host counts as ready."""
    call.has_left(sshd.addresses[0], Cleaned(ended=3, killed=1))

    result = asked(keys, root, sshd)

    assert result.notes == (
        "ended 3 processes that an earlier launch had left there, 1 of them with KILL",
    )
    assert call.calls(sshd.addresses[0]) == [
        {"verb": "clean", "launcher": {"name": "pi-launcher", "container": "c0ffee"}}
    ]


def test_a_worker_is_not_called_where_there_is_nothing_to_end(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """A thousand workers are asked, and nearly always all are new."""
    result = asked(keys, root, sshd)

    assert result.notes == ()
    assert call.heard(sshd.addresses[0]) == []


def test_whoever_only_waits_ends_nothing(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """`mpi-agent wait` is a question."""
    call.has_left(sshd.addresses[0], Cleaned(ended=3, killed=0))

    result = asked(keys, root, sshd, launcher=None)

    assert result.notes == ()
    assert call.heard(sshd.addresses[0]) == []


def test_ending_may_take_longer_than_any_answer(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Ranks have a grace period, and no shell is silent for that."""
    call.behaves(sshd.addresses[0], Way.SLOW)
    call.has_left(sshd.addresses[0], Cleaned(ended=1, killed=0))

    result = asked(keys, root, sshd, limit_s=0.9)

    assert result.notes == ("ended 1 process that an earlier launch had left there",)
    assert result.duration_s > 1.0


def test_a_worker_that_cannot_say_what_it_ended_is_no_obstacle(
    keys: JobKeys, root: Path, call: FakeCall, sshd: PlainSshd
) -> None:
    """Its agent may be gone."""
    (call.root / RUN_MARK).touch()

    result = asked(keys, root, sshd)

    assert result.notes == ("whether an earlier launch has left processes there is unknown",)
