"""Real `mpi-agent worker` processes on loopback, and what a launcher needs to dial them."""

from __future__ import annotations

import contextlib
import getpass
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.ssh.keys import JobKey, make_job_key
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts
from mpi_agent.state import StateDirectory

__all__ = ["RealJob", "a_loopback_address", "a_real_job", "wait_until"]


def wait_until(claim: Callable[[], bool], *, what: str, limit_s: float = 30.0) -> None:
    """Return once the claim holds.

    Raises:
        AssertionError: it did not within the limit.
    """
    deadline_s = time.monotonic() + limit_s
    while not claim():
        assert time.monotonic() < deadline_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


def a_loopback_address() -> str:
    """Return an address of this machine that no other test uses."""
    return f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"


def a_free_port(address: str) -> int:
    """Return a port on which nothing listens at this moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class RealJob:
    """A job's key and directory, and the workers started so far."""

    directory: Path
    key: JobKey
    running: list[subprocess.Popen[bytes]]

    def target(self, name: str) -> SshTarget:
        """Return where a worker that is still to be started will listen."""
        address = a_loopback_address()
        return SshTarget(name=name, address=address, port=a_free_port(address))

    def start(self, target: SshTarget, *, sshd: str = "auto", key: Path | None = None) -> None:
        """Start a worker; it is ready when its file is there."""
        state = self.directory / target.name
        words = ["--state-dir", str(state), "--worker-name", target.name]
        words += ["--listen-address", str(target.address), "--ssh-port", str(target.port)]
        words += ["--ssh-key", str(key or self.key.path), "--sshd", sshd]
        log = (self.directory / f"{target.name}.log").open("wb")
        with log:
            self.running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "mpi_agent", "worker", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def wait_until_ready(self, target: SshTarget) -> None:
        """Return once a worker says that it is ready."""
        wait_until((self.directory / target.name / "ready").exists, what=f"{target.name} ready")

    def terms(self) -> SshTerms:
        """Return the terms on which this job's launcher dials."""
        known_hosts = self.directory / "known_hosts"
        known_hosts.write_text(render_known_hosts(self.key.public))
        return SshTerms(
            key_path=str(self.key.path),
            known_hosts_path=str(known_hosts),
            user=getpass.getuser(),
            checks_host_keys=True,
        )


@contextlib.contextmanager
def a_real_job(directory: Path) -> Iterator[RealJob]:
    """Provide a job with a key of its own; its workers are ended at the end."""
    directory.mkdir(mode=0o700, exist_ok=True)
    job = RealJob(directory=directory, key=make_job_key(StateDirectory(directory)), running=[])
    try:
        yield job
    finally:
        for worker in job.running:
            worker.terminate()
        for worker in job.running:
            worker.wait(timeout=30)
