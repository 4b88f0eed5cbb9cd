"""Faults of logins: a lasting one ends the wait before its deadline, the others heal."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from tests.fault_matrix import (
    SLACK_S,
    Cure,
    Fault,
    assert_healed,
    assert_told,
    hurried,
    probe_of,
    terms_of,
    wait_for,
)
from tests.plain_sshd import running_sshd
from tests.workers import JobKeys, free_address, make_job_keys, running_worker

pytestmark = pytest.mark.integration

HURRY = 20.0
"""the graces are counted by a clock that runs so many times as fast"""

_LOOK_S = 1.0
"""the gate looks once a second whether hope is lost"""

FOREIGN = Fault(
    stage=Stage.ANSWERING,
    obstacle=Obstacle.HOST_KEY_UNKNOWN,
    says="shows a host key that this job does not know",
    code=77,
)


def test_a_refused_key_ends_the_wait_after_its_grace(root: Path, keys: JobKeys) -> None:
    """Although another host is still to come: without this one the job cannot run."""
    address, port = free_address()
    now_s = hurried(HURRY)
    with running_worker(keys, root, "--sshd", "openssh", name="w-0") as worker:
        (worker.state / "authorized_keys").write_text("# nobody\n")
        to_come = SshTarget(name="w-1", address=address, port=port)
        probe = probe_of(terms_of(keys, root), worker.target, to_come, now_s=now_s)
        waited = wait_for(probe, "w-0", "w-1", timeout_s=6000, now_s=now_s)

    fault = Fault(
        stage=Stage.ANSWERING,
        obstacle=Obstacle.KEY_REFUSED,
        says="refuses the job's key SHA256:",
        code=77,
    )
    grace_s = LASTING_OBSTACLES[Obstacle.KEY_REFUSED] / HURRY
    assert_told(waited, fault, after_s=grace_s, within_s=_LOOK_S + SLACK_S, name="w-0")
    assert "cannot log in to 1 of 2 hosts after" in waited.error.summary


def test_a_key_that_is_refused_for_a_moment_heals(root: Path, keys: JobKeys) -> None:
    """A worker may listen before its keys are in place."""
    with running_worker(keys, root, "--sshd", "openssh", name="w-0") as worker:
        authorized = worker.state / "authorized_keys"
        ours = authorized.read_text()
        authorized.write_text("# nobody\n")
        waited = wait_for(
            probe_of(terms_of(keys, root), worker.target),
            "w-0",
            timeout_s=60,
            cure=Cure(of=Obstacle.KEY_REFUSED, how=lambda: authorized.write_text(ours), after=1),
        )

    assert_healed(waited, Obstacle.KEY_REFUSED, within_s=2.5 + SLACK_S)


def test_a_worker_of_another_job_ends_the_wait_after_its_grace(root: Path, keys: JobKeys) -> None:
    """Its certificate is signed by another key; our key is not even shown to it."""
    (root / "other").mkdir()
    others = make_job_keys(root / "other" / "mount")
    now_s = hurried(HURRY)
    with running_worker(others, root / "other", name="w-0") as worker:
        probe = probe_of(terms_of(keys, root), worker.target, now_s=now_s)
        waited = wait_for(probe, "w-0", timeout_s=6000, now_s=now_s)

    grace_s = LASTING_OBSTACLES[Obstacle.HOST_KEY_UNKNOWN] / HURRY
    assert_told(waited, FOREIGN, after_s=grace_s, within_s=_LOOK_S + SLACK_S)


def test_a_worker_under_another_name_ends_the_wait_after_its_grace(
    root: Path, keys: JobKeys
) -> None:
    """Its certificate names its host."""
    now_s = hurried(HURRY)
    with running_worker(keys, root, name="w-0") as worker:
        other = SshTarget(name="w-1", address=worker.address, port=worker.port)
        probe = probe_of(terms_of(keys, root), other, now_s=now_s)
        waited = wait_for(probe, "w-1", timeout_s=6000, now_s=now_s)

    grace_s = LASTING_OBSTACLES[Obstacle.HOST_KEY_UNKNOWN] / HURRY
    assert_told(waited, FOREIGN, after_s=grace_s, within_s=_LOOK_S + SLACK_S, name="w-1")


def test_an_sshd_that_turns_away_is_told_at_the_deadline(root: Path, keys: JobKeys) -> None:
    """In its own words; somebody who does not log in takes its only place."""
    with contextlib.ExitStack() as stack:
        sshd = stack.enter_context(running_sshd(keys, root, "MaxStartups 1"))
        (target,) = sshd.targets
        stack.enter_context(socket.create_connection((str(target.address), target.port)))
        waited = wait_for(probe_of(terms_of(keys, root), target), "w-0", timeout_s=1.0)

    fault = Fault(
        stage=Stage.REACHABLE,
        obstacle=Obstacle.TURNED_AWAY,
        says='says "Exceeded MaxStartups"',
        code=200,
    )
    assert_told(waited, fault, after_s=1.0)


@pytest.mark.parametrize(
    "line",
    ["Ciphers aes256-ctr", "KexAlgorithms ecdh-sha2-nistp384"],
    ids=["ciphers", "key exchange"],
)
def test_an_sshd_that_allows_little_lets_the_probe_in(root: Path, keys: JobKeys, line: str) -> None:
    """What mpirun's ssh would agree on, the probe agrees on too."""
    with running_sshd(keys, root, line) as sshd:
        waited = wait_for(probe_of(terms_of(keys, root), *sshd.targets), "w-0", timeout_s=20)

    assert waited.report.is_ready


def test_an_sshd_that_turned_away_is_used_when_it_has_room(root: Path, keys: JobKeys) -> None:
    """The place becomes free."""
    with running_sshd(keys, root, "MaxStartups 1") as sshd:
        (target,) = sshd.targets
        with socket.create_connection((str(target.address), target.port)) as guest:
            waited = wait_for(
                probe_of(terms_of(keys, root), target),
                "w-0",
                timeout_s=60,
                cure=Cure(of=Obstacle.TURNED_AWAY, how=guest.close),
            )

    assert_healed(waited, Obstacle.TURNED_AWAY)


def test_probes_that_crowd_out_each_other_get_through_by_themselves(
    root: Path, keys: JobKeys
) -> None:
    """Eight names of one sshd that has room for one login at a time."""
    with running_sshd(keys, root, "MaxStartups 1", addresses=8) as sshd:
        names = [target.name for target in sshd.targets]
        probe = probe_of(terms_of(keys, root), *sshd.targets)
        waited = wait_for(probe, *names, timeout_s=60)

    turned_away = sum(r.obstacle is Obstacle.TURNED_AWAY for r in waited.results)
    print(f"8 logins after {waited.took_s:.2f} s; {turned_away} were turned away on the way")
    assert waited.report.is_ready, waited.error.evidence
    assert set(waited.met) == {Obstacle.TURNED_AWAY}
    assert waited.took_s < 20
