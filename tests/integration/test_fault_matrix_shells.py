"""Faults of login shells: start-up files that print, sleep or exit, and a shell that is none.

Only under a plain sshd: in sessions of `mpi-agent worker` bash reads no ~/.bashrc.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.wait.equipment import Equipment
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from mpi_agent.wait.ssh import LoginProbe
from tests.builders import OPEN_MPI_4_STACK
from tests.fault_matrix import (
    SLACK_S,
    Fault,
    Waited,
    assert_told,
    hurried,
    probe_of,
    terms_of,
    wait_for,
)
from tests.plain_sshd import running_sshd
from tests.waiting import wait_until
from tests.workers import JobKeys, require_program

pytestmark = pytest.mark.integration

HURRY = 20.0
"""the graces are counted by a clock that runs so many times as fast"""

GRACE_S = LASTING_OBSTACLES[Obstacle.SHELL_BROKEN] / HURRY
SH = Path("/bin/sh")
ANY_EQUIPMENT = Equipment(
    stack=OPEN_MPI_4_STACK,
    daemon=str(SH),
    daemon_sha256=hashlib.sha256(SH.read_bytes()).hexdigest(),
    program=None,
)
"""a daemon that every host has, the same one"""

_NUMBERS = itertools.count()


@contextlib.contextmanager
def account(root: Path, *, bashrc: str = "", shell: str = "/bin/bash") -> Iterator[str]:
    """Give an account of the test's own with this start-up file; skip where none can be made."""
    if os.getuid() != 0:
        pytest.skip("only root can make an account")
    useradd, userdel = require_program("useradd"), require_program("userdel")
    name = f"mpi-agent-{os.getpid()}-{next(_NUMBERS)}"
    home = root / name
    home.mkdir()
    (home / ".bashrc").write_text(bashrc)
    # without a password the account would be locked, which sshd refuses
    options = ("--system", "--no-create-home", "--home-dir", str(home), "--shell", shell)
    subprocess.run([useradd, *options, "--password", "*", name], check=True)
    try:
        yield name
    finally:
        uid = pwd.getpwnam(name).pw_uid
        for process in processes_of(uid):
            process.kill()
        wait_until("no process of the account is left", lambda: not processes_of(uid))
        subprocess.run([userdel, name], check=True, capture_output=True)


def processes_of(uid: int) -> list[psutil.Process]:
    """Return what an account runs."""
    return [
        process
        for process in psutil.process_iter(["uids", "status"])
        if process.info["uids"]
        and process.info["uids"].real == uid
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def wait_for_account(root: Path, keys: JobKeys, user: str, *, timeout_s: float) -> Waited:
    """Wait for one host by that account, in a hurry; assert that nothing of it runs on there."""
    now_s = hurried(HURRY)
    with running_sshd(keys, root, environ={}) as sshd:
        login = LoginProbe(
            terms_of(keys, root, user=user), equipment=ANY_EQUIPMENT, answer_limit_s=0.5
        )
        probe = probe_of(login, *sshd.targets, now_s=now_s)
        waited = wait_for(probe, "w-0", timeout_s=timeout_s * HURRY, now_s=now_s)
        uid = pwd.getpwnam(user).pw_uid
        wait_until("nothing of the probes runs on", lambda: not processes_of(uid), limit_s=5)
        return waited


def test_a_start_up_file_that_prints_is_a_note(root: Path, keys: JobKeys) -> None:
    """The answer is found behind what it prints."""
    with account(root, bashrc="echo Welcome to this cluster; cat /etc/passwd\n") as user:
        waited = wait_for_account(root, keys, user, timeout_s=60)

    host = waited.host()
    assert (host.is_ready, host.stage) == (True, Stage.EQUIPPED), waited.detail()
    (note,) = host.notes
    assert note.startswith('start-up files print "Welcome to this cluster root:')
    assert note.endswith('..." at every login')


def test_a_start_up_file_that_sleeps_is_told_at_the_deadline(root: Path, keys: JobKeys) -> None:
    """It may be a slow file system, which heals."""
    with account(root, bashrc="echo mounting; sleep 600\n") as user:
        waited = wait_for_account(root, keys, user, timeout_s=1.5)

    fault = Fault(
        stage=Stage.AUTHENTICATED,
        obstacle=Obstacle.SHELL_SILENT,
        says='a command was not run within 0.5 s of the login after printing "mounting"',
        code=78,
    )
    assert_told(waited, fault, after_s=1.5)


@pytest.mark.parametrize(
    ("bashrc", "shell", "says"),
    [
        ("exit 3\n", "/bin/bash", "the login ended before it ran a command"),
        ("echo no; exec false\n", "/bin/bash", 'the login ended after printing "no" before'),
        ("", "/usr/sbin/nologin", '"This account is currently not available." before it ran'),
    ],
    ids=["exit", "exec", "nologin"],
)
def test_a_shell_that_runs_nothing_ends_the_wait_after_its_grace(
    root: Path, keys: JobKeys, bashrc: str, shell: str, says: str
) -> None:
    """Nobody repairs a home directory while a job waits."""
    with account(root, bashrc=bashrc, shell=require_program(shell)) as user:
        waited = wait_for_account(root, keys, user, timeout_s=600)

    fault = Fault(stage=Stage.AUTHENTICATED, obstacle=Obstacle.SHELL_BROKEN, says=says, code=78)
    assert_told(waited, fault, after_s=GRACE_S, within_s=1.0 + SLACK_S)
