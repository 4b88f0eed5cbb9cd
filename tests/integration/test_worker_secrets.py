"""What a worker keeps to itself: modes of its files, its log, its arguments, links that lure it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import psutil
import pytest

from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    RunningWorker,
    dial,
    free_address,
    require_program,
    run_to_its_end,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

SHOWN = frozenset({"ready"})
"""Files that everybody may read: a probe may run under another uid."""


@pytest.fixture
def worker(root: Path, keys: JobKeys, backend: str) -> Iterator[RunningWorker]:
    """Give a worker of each kind that somebody has logged into."""
    require_program("ssh")
    with running_worker(keys, root, "--sshd", backend, "--log-format", "json") as running:
        config = write_ssh_config(keys, root, (running,))
        assert dial(("ssh",), config, running.name, "true").returncode == 0
        yield running


def events_of(worker: RunningWorker, name: str) -> list[dict[str, object]]:
    """Return what the worker's log tells of one kind."""
    lines = [line for line in worker.log.read_text().splitlines() if line.startswith("{")]
    return [event for line in lines if (event := json.loads(line))["event"] == name]


def test_files_of_a_worker_are_for_its_account_alone(worker: RunningWorker) -> None:
    """Keys, configuration, sockets, and the directories they lie in."""
    found = [worker.state, *worker.state.rglob("*")]
    open_to_others = [
        f"{path.name} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in found
        if path.lstat().st_mode & 0o077 and path.name not in SHOWN
    ]

    assert open_to_others == []
    assert not [path for path in found if path.is_symlink()]


def test_no_key_is_in_the_log_or_in_arguments(worker: RunningWorker, keys: JobKeys) -> None:
    """Whoever may list processes or read logs learns none."""
    secrets = private_lines(keys.private_path, *worker.state.glob("*key*"))
    process = psutil.Process(worker.popen.pid)
    shown = [worker.log.read_text()]
    for one in (process, *process.children(recursive=True)):
        shown.append("\0".join(one.cmdline()))

    assert len(secrets) > 3
    assert not [secret for secret in secrets if any(secret in text for text in shown)]
    assert "PRIVATE KEY" not in "".join(shown)


def test_no_key_is_in_the_environment_of_a_session(
    worker: RunningWorker, root: Path, keys: JobKeys
) -> None:
    """Nor is it a file that a session finds open."""
    config = write_ssh_config(keys, root, (worker,))

    told = dial(("ssh",), config, worker.name, "env; ls -l /proc/self/fd").stdout.decode()

    assert "PRIVATE KEY" not in told
    assert str(worker.state / "job_key") not in told.split("/proc/self/fd")[-1]


def private_lines(*paths: Path) -> set[str]:
    """Return the lines of private keys, which are what may not be shown."""
    lines: set[str] = set()
    for path in paths:
        text = path.read_text(errors="replace")
        if "PRIVATE KEY" in text:
            lines |= {line for line in text.splitlines() if len(line) > 20 and "---" not in line}
    return lines


def test_logins_and_refusals_stand_in_the_log(
    worker: RunningWorker, root: Path, keys: JobKeys
) -> None:
    """With user, address and reason; nothing of sshd's own is printed besides."""
    config = write_ssh_config(keys, root, (worker,))
    ended = dial(("ssh",), config, "-o", "User=daemon", worker.name, "true")
    assert ended.returncode == 255

    wait_until("the refusal is told", lambda: bool(events_of(worker, "login_refused")))
    (refused,) = events_of(worker, "login_refused")
    accepted = events_of(worker, "login_accepted")

    assert (refused["user"], "only the user" in str(refused["why"])) == ("daemon", True)
    assert accepted[-1]["key_fingerprint"] == fingerprint_of(keys)
    assert [line for line in worker.log.read_text().splitlines() if not line.startswith("{")] == []


def fingerprint_of(keys: JobKeys) -> str:
    """Return the fingerprint of the job's key."""
    return asyncssh.import_public_key(keys.public).get_fingerprint()


def test_a_link_at_the_state_directorys_place_ends_the_worker(root: Path, keys: JobKeys) -> None:
    """In a shared /tmp anybody can plant one; nothing of ours goes where it leads."""
    (root / "elsewhere").mkdir(mode=0o700)
    (root / "state-of-the-short-lived").symlink_to(root / "elsewhere")

    ended = run_to_its_end(keys, root)

    assert ended.returncode == 73
    assert "symbolic link" in ended.stderr
    assert list((root / "elsewhere").iterdir()) == []


def test_a_link_at_the_ready_files_place_is_replaced(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """The place may be in a directory that a sidecar shares."""
    shared, bait = root / "shared", root / "bait"
    shared.mkdir()
    shared.chmod(0o1777)
    bait.write_text("untouched")
    (shared / "ready").symlink_to(bait)
    arguments = worker_arguments(keys, root / "state", "pi-worker-0", *free_address())
    more = ("--sshd", backend, "--ready-file", str(shared / "ready"))

    with (root / "log").open("wb") as log:
        popen = subprocess.Popen(
            (sys.executable, *arguments, *more), stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        wait_until(
            "it is ready",
            lambda: (
                popen.poll() is not None
                or ((shared / "ready").exists() and not (shared / "ready").is_symlink())
            ),
        )
        assert popen.poll() is None, (root / "log").read_text()
        assert "pi-worker-0" in (shared / "ready").read_text()
    finally:
        popen.terminate()
        popen.wait(LIMIT_S)

    assert bait.read_text() == "untouched"
    assert list(shared.iterdir()) == []
