"""Agents as a user starts them, for jobs whose workers have names in an /etc/hosts of our own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_until
from tests.workers import LIMIT_S, JobKeys, free_address, running_worker
from tests.worlds import in_own_etc

__all__ = ["Agent", "Job", "running_agent", "running_hosts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Names of hosts and where they lead; some have a worker, others nobody.

    Attributes:
        port: of every worker's ssh server.
    """

    keys: JobKeys
    root: Path
    port: int
    addresses: dict[str, str]

    def words(self, command: str) -> tuple[str, ...]:
        """Return the start of an agent's command line, for which these names resolve."""
        hosts = self.root / "hosts"
        lines = (f"{address} {name}\n" for name, address in self.addresses.items())
        hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
        own = ("--ssh-key", str(self.keys.private_path), "--state-dir", str(self.root / "launcher"))
        agent = (sys.executable, "-m", "mpi_agent", command, "--ssh-port", str(self.port), *own)
        return (*in_own_etc(hosts=hosts), *agent)


@contextlib.contextmanager
def running_hosts(keys: JobKeys, root: Path, *up: str, down: tuple[str, ...] = ()) -> Iterator[Job]:
    """Provide a job of hosts with workers that are ready, and hosts on which nobody listens."""
    _, port = free_address()
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                running_worker(keys, root, "--ssh-port", str(port), name=name.partition(".")[0])
            )
            for name in up
        ]
        addresses = {name: worker.address for name, worker in zip(up, workers, strict=True)}
        addresses |= {name: free_address()[0] for name in down}
        yield Job(keys=keys, root=root, port=port, addresses=addresses)


@dataclass(slots=True)
class Agent:
    """An agent that was started; its stderr is read as it comes."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    def has_said(self, text: str) -> bool:
        """Return whether a text stands in what it wrote to stderr so far."""
        return any(text in line for line in self.lines)

    def wait_until_it_says(self, text: str) -> None:
        """Wait for a text on stderr."""
        wait_until(
            f"the agent says {text!r}: {self.lines}",
            lambda: self.has_said(text) or self.popen.poll() is not None,
        )
        assert self.has_said(text), self.lines

    def end(self, *, signal_number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Wait for the end, which a signal may bring about; return code, stdout and stderr."""
        if signal_number is not None:
            self.popen.send_signal(signal_number)
        assert self.popen.stdout is not None
        assert self.reader is not None
        code = self.popen.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        return code, self.popen.stdout.read(), "".join(self.lines)


@contextlib.contextmanager
def running_agent(*words: str, **environ: str) -> Iterator[Agent]:
    """Provide an agent; it is killed at the end, should it still run."""
    popen = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )
    with popen:
        agent = Agent(popen)
        agent.reader = threading.Thread(target=_read, args=(popen, agent.lines))
        agent.reader.start()
        try:
            yield agent
        finally:
            popen.kill()
            agent.reader.join()


def _read(popen: subprocess.Popen[str], lines: list[str]) -> None:
    assert popen.stderr is not None
    for line in popen.stderr:
        lines.append(line)
