"""A worker's life with real ssh: credentials, readiness, its end, and what it refuses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import psutil
import pytest

from tests.waiting import wait_until
from tests.workers import (
    BUILTIN_CLIENT,
    LIMIT_S,
    OPENSSH_CLIENT,
    JobKeys,
    RunningWorker,
    dial,
    environment_for,
    free_address,
    make_job_keys,
    open_directory,
    ordinary_uid,
    python_for,
    require_program,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

NOBODYS_UID = 54321
STUBBORN = "trap '' TERM HUP; echo $$; while :; do sleep 0.1; done"


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a directory with a short path."""
    with open_directory() as path:
        yield path


@pytest.fixture
def keys(root: Path) -> JobKeys:
    """Give a job's keys in something like the operator's mount."""
    return make_job_keys(root / "mount")


@pytest.fixture(params=["openssh", "builtin"])
def backend(request: pytest.FixtureRequest) -> str:
    """Give each back end's name."""
    name: str = request.param
    if name == "openssh":
        require_program("sshd")
    return name


@pytest.fixture(params=[OPENSSH_CLIENT, BUILTIN_CLIENT], ids=["ssh", "mpi-agent-ssh"])
def client(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Give each client's command."""
    command: tuple[str, ...] = request.param
    if command == OPENSSH_CLIENT:
        require_program("ssh")
    return command


def ask_ready(worker: RunningWorker) -> subprocess.CompletedProcess[str]:
    """Run the exec probe."""
    return subprocess.run(
        [sys.executable, "-m", "mpi_agent", "ready", "--state-dir", str(worker.state)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def run_to_its_end(
    keys: JobKeys, root: Path, *more: str, port: int | None = None, uid: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a worker that is expected to end by itself."""
    address, free_port = free_address()
    state = root / "state-of-the-short-lived"
    if uid is not None:
        state.mkdir(mode=0o700)
        os.chown(state, uid, uid)
    return subprocess.run(
        [
            python_for(uid),
            *worker_arguments(keys, state, "pi-worker-0", address, port or free_port),
            *more,
        ],
        env=environment_for(uid),
        user=uid,
        group=uid,
        extra_groups=() if uid is not None else None,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("algorithm", ["ecdsa-sha2-nistp521", "ssh-rsa", "ssh-ed25519"])
def test_host_certificate_is_accepted_where_host_keys_are_checked(
    root: Path, backend: str, client: tuple[str, ...], algorithm: str
) -> None:
    """Whatever kind of key the job has, it vouches for the worker."""
    keys = make_job_keys(root / "mount", algorithm)
    with running_worker(keys, root, "--sshd", backend) as worker:
        config = write_ssh_config(keys, root, (worker,))

        ended = dial(client, config, worker.name, "exit 7")

    assert ended.returncode == 7, ended.stderr


def test_worker_of_another_job_is_refused(
    root: Path, keys: JobKeys, backend: str, client: tuple[str, ...]
) -> None:
    """A host that another job's key vouches for is not one of ours."""
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    with running_worker(keys, root, "--sshd", backend) as worker:
        config = write_ssh_config(keys, root, (worker,), authority=stranger)

        ended = dial(client, config, worker.name, "true")

    assert ended.returncode == 255
    assert b"Host key verification failed" in ended.stderr


def test_worker_with_only_the_public_key_serves_and_says_so(root: Path, keys: JobKeys) -> None:
    """Without the private key there is no certificate; the launcher must be told not to check."""
    mount = root / "public-only"
    mount.mkdir()
    (mount / "authorized_keys").write_text(keys.public)
    home = root / "home"
    home.mkdir()
    (home / ".ssh").symlink_to(mount)
    require_program("ssh")
    address, port = free_address()
    state = root / "state"
    with (root / "log").open("wb") as log:
        arguments = worker_arguments(keys, state, "pi-worker-0", address, port)
        key_at = arguments.index("--ssh-key")
        popen = subprocess.Popen(
            [sys.executable, *arguments[:key_at], *arguments[key_at + 2 :], "--sshd", "builtin"],
            env={**os.environ, "HOME": str(home)},
            stdout=log,
            stderr=log,
        )
    try:
        wait_until("it is ready", lambda: (state / "ready").exists())

        assert "has no certificate" in (root / "log").read_text()
        assert not (state / "host_key-cert.pub").exists()
    finally:
        popen.terminate()
        popen.wait(LIMIT_S)


def test_key_that_may_not_be_read_is_told_with_uid_owner_and_mode(
    root: Path, keys: JobKeys
) -> None:
    """The commonest mistake of non-root jobs; the hint is the line of the manifest."""
    uid = ordinary_uid()
    keys.private_path.chmod(0o600)

    ended = run_to_its_end(keys, root, uid=uid)

    assert ended.returncode == 77
    assert f"as uid {uid}: it belongs to uid 0 gid 0 with mode 0600" in ended.stderr
    assert "fsGroup" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_own_copies_are_private(root: Path, keys: JobKeys) -> None:
    """Whatever the mount's modes are, sshd and ssh accept ours."""
    with running_worker(keys, root) as worker:
        modes = {
            path.name: path.stat().st_mode & 0o777
            for path in worker.state.iterdir()
            if path.name in {"job_key", "host_key", "host_key-cert.pub", "authorized_keys"}
        }

        assert set(modes.values()) == {0o600}
        assert len(modes) == 4


def test_strict_modes_would_refuse_every_key_below_tmp(root: Path, keys: JobKeys) -> None:
    """Why the configuration says `StrictModes no` there: sshd does not consider the sticky bit."""
    sshd, _ = require_program("sshd"), require_program("ssh")
    with running_worker(keys, root, "--sshd", "openssh") as worker:
        ours = (worker.state / "sshd_config").read_text()
        address, port = free_address()
        theirs = root / "sshd_config"
        theirs.write_text(
            ours.replace(f"Port {worker.port}", f"Port {port}")
            .replace(f"ListenAddress {worker.address}", f"ListenAddress {address}")
            .replace("StrictModes no", "StrictModes yes")
        )
        config = write_ssh_config(keys, root, (worker,))
        strict = subprocess.Popen([sshd, "-D", "-e", "-f", theirs], stderr=subprocess.PIPE)
        try:
            wait_until("sshd listens", lambda: listens(address, port))
            ended = dial(
                OPENSSH_CLIENT,
                config,
                "-o",
                f"HostName={address}",
                "-p",
                str(port),
                worker.name,
                "true",
            )
        finally:
            strict.terminate()
            words = strict.communicate(timeout=LIMIT_S)[1]

    assert "StrictModes no" in ours
    assert ended.returncode == 255
    assert b"bad ownership or modes for directory /tmp" in words


def listens(address: str, port: int) -> bool:
    """Return whether somebody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


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
        assert words.index("received SIGTERM: not ready any more") < words.index("were killed")


def test_worker_ends_when_its_sshd_dies(root: Path, keys: JobKeys) -> None:
    """Kubernetes restarts the container; the log says how sshd ended."""
    require_program("sshd")
    with running_worker(keys, root, "--sshd", "openssh") as worker:
        (sshd,) = psutil.Process(worker.popen.pid).children()

        sshd.kill()

        assert worker.popen.wait(LIMIT_S) == 202
        assert "sshd ended by SIGKILL" in worker.log.read_text()
        assert not (worker.state / "ready").exists()


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


def test_client_without_any_input_runs_its_command(root: Path, keys: JobKeys) -> None:
    """Some launchers close descriptor 0 altogether."""
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,))
        line = [*BUILTIN_CLIENT, "-F", str(config), worker.name, "cat; echo done"]

        ended = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", *line],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert (ended.stdout, ended.returncode) == (b"done\n", 0)


def test_client_tells_a_failure_in_one_line(tmp_path: Path) -> None:
    """What mpirun shows of it must be short and name the host."""
    config = tmp_path / "config"
    config.write_text("Host *\n  Port 1\n  HostName 127.0.0.1\n  StrictHostKeyChecking no\n")

    ended = dial(BUILTIN_CLIENT, config, "pi-worker-7", "true")

    assert ended.returncode == 255
    assert ended.stderr.startswith(b'mpi-agent ssh: cannot run a command on "pi-worker-7": ')
    assert ended.stderr.count(b"\n") == 1


def test_client_does_not_check_host_keys_when_the_configuration_says_so(
    root: Path, keys: JobKeys
) -> None:
    """For workers that do not run the agent, and with --insecure-host-keys."""
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,), authority=stranger)
        option = ("-o", "StrictHostKeyChecking=no")

        ended = dial(BUILTIN_CLIENT, config, *option, worker.name, "exit 7")

    assert ended.returncode == 7, ended.stderr
