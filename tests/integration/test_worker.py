"""A worker's life with real ssh: credentials, readiness, its end, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    RunningWorker,
    dial,
    python_for,
    require_program,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

NOBODYS_UID = 54321
STUBBORN = "trap '' TERM HUP; echo $$; while :; do sleep 0.1; done"


def ask_ready(worker: RunningWorker) -> subprocess.CompletedProcess[str]:
    """Run the exec probe."""
    return subprocess.run(
        [sys.executable, "-m", "mpi_agent", "ready", "--state-dir", str(worker.state)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_probe_says_ready_and_is_quick(root: Path, keys: JobKeys, backend: str) -> None:
    """Kubernetes runs it every few seconds in every worker."""
    with running_worker(keys, root, "--sshd", backend) as worker:
        started_s = time.monotonic()
        told = ask_ready(worker)
        took_s = time.monotonic() - started_s

        print(f"mpi-agent ready took {took_s * 1000:.0f} ms")
        assert told.returncode == 0, told.stderr
        assert took_s < 1.0


def test_probe_loads_neither_asyncio_nor_asyncssh() -> None:
    """Those two would cost more than the whole probe may."""
    script = (
        "import sys, json, mpi_agent.cli.ready as r;"
        "print(json.dumps([m for m in ('asyncio', 'asyncssh', 'psutil') if m in sys.modules]))"
    )

    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert json.loads(child.stdout) == []


def test_probe_says_not_ready_when_the_worker_was_killed(root: Path, keys: JobKeys) -> None:
    """A ready file that nobody removed does not count."""
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        worker.popen.kill()
        worker.popen.wait(LIMIT_S)

        told = ask_ready(worker)

    assert told.returncode == 1
    assert "is gone" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_term_ends_everything_and_the_worker_exits_0(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """Not ready at once, sessions ended, and who ignores TERM is killed after the grace period."""
    require_program("ssh")
    with running_worker(keys, root, "--sshd", backend) as worker:
        config = write_ssh_config(keys, root, (worker,))
        session = subprocess.Popen(
            ["ssh", "-F", str(config), worker.name, STUBBORN],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert session.stdout is not None
        stubborn = psutil.Process(int(session.stdout.readline()))

        code = worker.stop()
        session.communicate(timeout=LIMIT_S)

        assert code == 0
        assert not stubborn.is_running()
        assert not (worker.state / "ready").exists()
        words = worker.log.read_text()
        assert words.index("received SIGTERM: not ready any more") < words.index(
            "mpi-agent: killed "
        )


def test_sshd_that_dies_is_started_again_and_told(root: Path, keys: JobKeys) -> None:
    """A worker that let people in before does so again, and its log says what happened."""
    require_program("sshd")
    with running_worker(keys, root, "--sshd", "openssh") as worker:
        (sshd,) = psutil.Process(worker.popen.pid).children()

        sshd.kill()

        wait_until("sshd is another one", lambda: has_another_sshd(worker, sshd.pid))
        wait_until("the worker is ready again", lambda: ask_ready(worker).returncode == 0)
        config = write_ssh_config(keys, root, (worker,))
        assert dial(("ssh",), config, worker.name, "echo in").stdout == b"in\n"
        assert "sshd ended by SIGKILL" in worker.log.read_text()


def has_another_sshd(worker: RunningWorker, former: int) -> bool:
    """Return whether the worker has an sshd that is not the former one."""
    children = psutil.Process(worker.popen.pid).children()
    return any(child.pid != former and child.name() == "sshd" for child in children)


def test_sshd_does_not_outlive_a_killed_worker(root: Path, keys: JobKeys) -> None:
    """On one machine an sshd without its worker would hold the port for ever."""
    require_program("sshd")
    with running_worker(keys, root, "--sshd", "openssh") as worker:
        (sshd,) = psutil.Process(worker.popen.pid).children()

        worker.popen.kill()

        wait_until("sshd is gone", lambda: not sshd.is_running())


def test_port_that_is_taken_is_told(root: Path, keys: JobKeys, backend: str) -> None:
    """With hostNetwork two workers of one node meet on one port."""
    with running_worker(keys, root, "--sshd", backend) as worker:
        (root / "second").mkdir()
        ended = subprocess.run(
            [
                sys.executable,
                *worker_arguments(
                    keys, root / "second" / "state", "pi-worker-1", worker.address, worker.port
                ),
                *("--sshd", backend),
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert ended.returncode == 202
    assert "ddress already in use" in ended.stderr or "Cannot bind any address" in ended.stderr
    assert "--ssh-port" in ended.stderr


def test_uid_without_a_passwd_entry_is_served_by_the_builtin_server(
    root: Path, keys: JobKeys, client: tuple[str, ...]
) -> None:
    """OpenShift gives such uids, and OpenSSH's sshd refuses them."""
    if os.getuid() != 0:
        pytest.skip("only root can start a worker under another uid")
    python_for(NOBODYS_UID)
    with running_worker(keys, root, uid=NOBODYS_UID) as worker:
        config = write_ssh_config(keys, root, (worker,))

        ended = dial(client, config, worker.name, "id -u; echo $LOGNAME")

    assert ended.stdout.split() == [str(NOBODYS_UID).encode(), worker.user.encode()], ended.stderr
    assert ended.returncode == 0


def test_builtin_server_ends_a_command_whose_client_is_gone(root: Path, keys: JobKeys) -> None:
    """Nobody would end it: the launcher that started it was killed."""
    require_program("ssh")
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,))
        session = subprocess.Popen(
            ["ssh", "-F", str(config), worker.name, "echo $$; exec sleep 600"],
            stdout=subprocess.PIPE,
        )
        assert session.stdout is not None
        command = psutil.Process(int(session.stdout.readline()))

        session.kill()

        wait_until("the command is gone", lambda: not command.is_running())
        session.communicate(timeout=LIMIT_S)


def test_a_worker_logs_as_json(root: Path, keys: JobKeys) -> None:
    """For whoever collects logs."""
    with running_worker(keys, root, "--log-format", "json") as worker:
        wait_until("it is told", lambda: "worker_ready" in worker.log.read_text())
    lines = [line for line in worker.log.read_text().splitlines() if line.startswith("{")]

    assert "worker_ready" in [json.loads(line)["event"] for line in lines]
