"""A worker under attack: its sshd is killed again and again, its disk is full."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

import psutil
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
    require_program,
    run_to_its_end,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

DISK_BYTES = 256 * 1024


@dataclass(slots=True, kw_only=True)
class Logins:
    """Logins one after the other, until they are ended; what became of each is kept.

    Attributes:
        wrong: those that were let in and did not end with their own code.
    """

    config: Path
    host: str
    good: int = 0
    without_a_listener: int = 0
    wrong: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Log in until `over`."""
        while not self.over.is_set():
            ended = dial(OPENSSH_CLIENT, self.config, self.host, "exit 7")
            if ended.returncode == 7:
                self.good += 1
            elif ended.returncode == 255:
                self.without_a_listener += 1
            else:
                self.wrong.append(f"{ended.returncode}: {ended.stderr!r}")

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Log in from another thread meanwhile."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join()


def listener_of(worker: RunningWorker) -> psutil.Process | None:
    """Return the sshd that listens for a worker; None while there is none."""
    for child in psutil.Process(worker.popen.pid).children():
        with contextlib.suppress(psutil.Error):
            if child.name() == "sshd" and "-D" in " ".join(child.cmdline()).split():
                return child
    return None


def kill_sshd(worker: RunningWorker) -> None:
    """Kill the listener that is there, or that will be there."""
    wait_until("there is an sshd", lambda: listener_of(worker) is not None)
    if (sshd := listener_of(worker)) is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            sshd.kill()


def wait_for_the_time(at_s: float) -> None:
    """Return at a time of the monotonic clock."""
    wait_until("it is time", lambda: time.monotonic() >= at_s)


def is_ready(worker: RunningWorker) -> bool:
    """Return whether the worker says it is ready."""
    return (worker.state / "ready").exists()


@pytest.mark.parametrize(
    ("rounds", "every_s"), [(6, 0.2), (60, 1.0)], ids=["five-a-second", "a-minute"]
)
def test_a_worker_whose_sshd_is_killed_again_and_again_goes_on(
    root: Path, keys: JobKeys, rounds: int, every_s: float
) -> None:
    """A session outlives all of its listeners, and new logins come through between the kills."""
    require_program("sshd")
    with running_worker(keys, root, "--sshd", "openssh") as worker:
        config = write_ssh_config(keys, root, (worker,))
        with subprocess.Popen(
            ("ssh", "-F", str(config), worker.name, "echo up; read word; exit 5"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as job:
            assert job.stdout is not None
            assert job.stdout.readline() == b"up\n"
            logins = Logins(config=config, host=worker.name)
            with logins.going_on():
                next_s = time.monotonic()
                for _ in range(rounds):
                    kill_sshd(worker)
                    next_s = max(next_s + every_s, time.monotonic())
                    wait_for_the_time(next_s)
                wait_until("it is ready again", lambda: is_ready(worker))
                good_before = logins.good
                wait_until("it lets others in again", lambda: logins.good > good_before)
            job.communicate(b"on\n", timeout=LIMIT_S)

        print(f"logins: {logins.good} good, {logins.without_a_listener} met no listener")
        assert worker.popen.poll() is None, worker.log.read_text()
        assert logins.wrong == []
        assert logins.good >= rounds // 10
        assert job.returncode == 5
        assert worker.log.read_text().count("sshd ended by SIGKILL") >= rounds // 2
        assert worker.stop() == 0


@pytest.fixture
def small_disk(root: Path) -> Iterator[Path]:
    """Give a disk that is full after a few files; skip where none can be mounted."""
    if os.getuid() != 0:
        pytest.skip("only root may mount a disk")
    path = root / "disk"
    path.mkdir()
    size = f"size={DISK_BYTES},mode=0700"
    mounted = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)), capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mount is not permitted: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(("umount", "-l", str(path)), check=True)


@contextlib.contextmanager
def kept_full(disk: Path) -> Iterator[None]:
    """Fill a disk to the last byte, and whatever room appears on it meanwhile."""
    filler, over = disk / "filler", threading.Event()

    def fill(stream: FileIO) -> None:
        while not over.wait(0.001):
            with contextlib.suppress(OSError):
                while True:
                    stream.write(b"x" * 4096)

    with filler.open("wb", buffering=0) as stream:
        thread = threading.Thread(target=fill, args=(stream,))
        thread.start()
        try:
            wait_until("it is full", lambda: os.statvfs(disk).f_bavail == 0)
            yield
        finally:
            over.set()
            thread.join()
    filler.unlink()


def test_a_worker_that_starts_on_a_full_disk_says_so_in_one_sentence(
    small_disk: Path, keys: JobKeys, backend: str
) -> None:
    """And ends with the code that says that its directory is of no use; it was never ready."""
    with kept_full(small_disk):
        ended = run_to_its_end(keys, small_disk, "--sshd", backend)

    assert ended.returncode == 73
    told = [line for line in ended.stderr.splitlines() if "No space left on device" in line]
    assert len(told) == 1
    assert "cannot write" in told[0]
    assert "Traceback" not in ended.stderr
    assert "became ready" not in ended.stderr


def test_a_worker_whose_disk_gets_full_does_not_stay_falsely_ready(
    small_disk: Path, root: Path, keys: JobKeys
) -> None:
    """Without a place for its files no sshd can be started again, until there is room."""
    require_program("sshd")
    with worker_on(small_disk, root, keys) as worker:
        with kept_full(small_disk):
            wait_until("it says so", lambda: says_why_once_killed(worker))
            was_ready = is_ready(worker)
        wait_until("it is ready again", lambda: is_ready(worker))

        config = write_ssh_config(keys, root, (worker,))
        assert not was_ready
        assert dial(OPENSSH_CLIENT, config, worker.name, "exit 7").returncode == 7
        assert worker.stop() == 0


def says_why_once_killed(worker: RunningWorker) -> bool:
    """Kill the listener, unless the worker has told that its disk is full."""
    if "No space left on device" in worker.log.read_text():
        return True
    if (sshd := listener_of(worker)) is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            sshd.kill()
    return False


@contextlib.contextmanager
def worker_on(disk: Path, root: Path, keys: JobKeys) -> Iterator[RunningWorker]:
    """Give a worker that keeps its files on a disk, and its log elsewhere."""
    address, port = free_address()
    state, log = disk / "state", root / "log"
    arguments = worker_arguments(keys, state, "pi-worker-0", address, port)
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            [sys.executable, *arguments, "--sshd", "openssh"],
            stdout=stream,
            stderr=stream,
            env=environment_for(None),
        )
    worker = RunningWorker(
        name="pi-worker-0",
        address=address,
        port=port,
        user=pwd.getpwuid(os.getuid()).pw_name,
        state=state,
        log=log,
        popen=popen,
    )
    try:
        wait_until("it is ready", lambda: is_ready(worker))
        yield worker
    finally:
        popen.terminate()
        popen.wait(LIMIT_S)
