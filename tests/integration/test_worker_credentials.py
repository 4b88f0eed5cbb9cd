"""The keys of a worker: its own copies, and a certificate that the launcher insists on."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    OPENSSH_CLIENT,
    JobKeys,
    RunningWorker,
    dial,
    environment_for,
    free_address,
    listens,
    make_job_keys,
    ordinary_uid,
    python_for,
    require_program,
    run_to_its_end,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration


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


def test_worker_with_only_the_public_key_serves_and_says_so(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """Without the private key there is no certificate; the launcher must be told not to check."""
    require_program("ssh")
    mount, home = root / "public-only", root / "home"
    mount.mkdir()
    (mount / "authorized_keys").write_text(keys.public)
    home.mkdir()
    (home / ".ssh").symlink_to(mount)
    with worker_in_home(home, root, keys, "--sshd", backend) as worker:
        config = write_ssh_config(keys, root, (worker,))
        checked = dial(OPENSSH_CLIENT, config, worker.name, "exit 3")
        lax = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
        unchecked = dial(OPENSSH_CLIENT, config, *lax, worker.name, "exit 3")

        assert "has no certificate" in worker.log.read_text()
        assert "no login is tried" in worker.log.read_text()
        assert not (worker.state / "host_key-cert.pub").exists()
        assert checked.returncode == 255
        assert b"Host key verification failed" in checked.stderr
        assert unchecked.returncode == 3, unchecked.stderr


@contextlib.contextmanager
def worker_in_home(home: Path, root: Path, keys: JobKeys, *more: str) -> Iterator[RunningWorker]:
    """Give a ready worker that looks for keys where its HOME says, and is told no other place."""
    address, port = free_address()
    state, log = root / "state", root / "log"
    arguments = worker_arguments(keys, state, "pi-worker-0", address, port)
    key_at = arguments.index("--ssh-key")
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            [sys.executable, *arguments[:key_at], *arguments[key_at + 2 :], *more],
            env={**os.environ, "HOME": str(home)},
            stdout=stream,
            stderr=stream,
        )
    try:
        wait_until("it is ready", lambda: (state / "ready").exists())
        yield RunningWorker(
            name="pi-worker-0",
            address=address,
            port=port,
            user=pwd.getpwuid(os.getuid()).pw_name,
            state=state,
            log=log,
            popen=popen,
        )
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


def test_worker_says_which_directory_it_may_not_enter(root: Path, keys: JobKeys) -> None:
    """As with keys at /root/.ssh, which is closed to others: what lies there nobody can tell."""
    uid, home = ordinary_uid(), root / "home"
    (home / ".ssh").mkdir(parents=True)
    home.chmod(0o700)
    arguments = worker_arguments(keys, root / "state", "pi-worker-0", *free_address())
    key_at = arguments.index("--ssh-key")
    (root / "state").mkdir(mode=0o700)
    os.chown(root / "state", uid, uid)

    ended = subprocess.run(
        [python_for(uid), *arguments[:key_at], *arguments[key_at + 2 :]],
        env={**environment_for(uid), "HOME": str(home)},
        user=uid,
        group=uid,
        extra_groups=(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert ended.returncode == 77, ended.stderr
    assert "cannot let anybody in: no key of the job that this uid can read in " in ended.stderr
    assert f"; uid {uid} may not enter {home / '.ssh'}" in ended.stderr
    assert f"mount the job's ssh Secret where uid {uid} may read it, not in " in ended.stderr


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


def test_a_ready_worker_tells_which_key_it_lets_in(root: Path, keys: JobKeys) -> None:
    """As `ssh-keygen -lf` prints it, so that both sides of a refusal can be compared."""
    public = keys.directory / "id_rsa.pub"
    told = subprocess.run(
        (require_program("ssh-keygen"), "-lf", str(public)), capture_output=True, check=True
    )
    with running_worker(keys, root) as worker:
        log = worker.log.read_text()

    fingerprint = told.stdout.decode().split()[1]
    assert f"became ready server=openssh port={worker.port} user={worker.user}" in log
    assert f" key={fingerprint}\n" in log
