"""The sidecar beside a real sshd and real ranks that it has not started."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mpi_agent.neighbours import is_listened_on
from mpi_agent.variable_names import RUN_ID_VARIABLE
from tests.plain_sshd import running_sshd
from tests.stacks import require_stack
from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    environment_for,
    free_address,
    ordinary_uid,
    python_for,
    require_program,
)

pytestmark = pytest.mark.integration

_HELD_BYTES = 96 << 20
_BURNT_S = 0.5
_SEEN_S = 0.4
"""the kernel tells CPU time in hundredths, for the program and the kernel apart"""
_RANKS = f"""
import os, pathlib, signal, sys, time
rank = os.environ["OMPI_COMM_WORLD_RANK"]
pathlib.Path(sys.argv[1], rank).write_text(str(os.getpid()))
if rank == "1":
    held = bytearray({_HELD_BYTES})
    while time.process_time() < {_BURNT_S}: pass
signal.pause()
"""
"""the program of a job of two; rank 1 holds memory and burns CPU time, rank 0 does neither"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRanks:
    """A job of two ranks, each of which tells its pid."""

    told: Path
    mpirun: subprocess.Popen[bytes]

    @property
    def pids(self) -> frozenset[int]:
        """The pids of ranks that have begun."""
        texts = (path.read_text() for path in self.told.iterdir())
        return frozenset(int(text) for text in texts if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSidecar:
    """A sidecar that serves its pages."""

    port: int
    log: Path
    popen: subprocess.Popen[bytes]

    def ask(self, path: str) -> tuple[int, str]:
        """Return code and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    @property
    def status(self) -> dict[str, Any]:
        """What it says of the worker."""
        values: dict[str, Any] = json.loads(self.ask("/status")[1])
        return values

    def ranks_of(self, job: RunningRanks) -> dict[int, dict[str, Any]]:
        """Return the ranks that it sees of a job, by number; the machine may run others too."""
        return {rank["rank"]: rank for rank in self.status["ranks"] if rank["pid"] in job.pids}

    def tell_to_end(self) -> None:
        """Send TERM to the agent itself; `unshare` in front of it takes none."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text()
        os.kill(int(children) if children else self.popen.pid, signal.SIGTERM)

    def wait_until_it_says(self, text: str) -> None:
        """Wait for a text in its log."""
        wait_until(
            f"the sidecar says {text!r}: {self.log.read_text()}",
            lambda: text in self.log.read_text() or self.popen.poll() is not None,
        )
        assert text in self.log.read_text()


@contextlib.contextmanager
def running_sidecar(
    root: Path, *more: str, before: tuple[str, ...] = (), uid: int | None = None
) -> Iterator[RunningSidecar]:
    """Give a sidecar that serves.

    Args:
        before: what stands in front of its command.
        uid: under which it runs; None for our own.
    """
    _, port = free_address()
    log = root / "sidecar.log"
    agent = (python_for(uid), "-m", "mpi_agent", "sidecar", "--http-port", str(port))
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            (*before, *agent, *more),
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment_for(uid),
            cwd="/",
            user=uid,
            group=uid,
            extra_groups=() if uid is not None else None,
        )
    sidecar = RunningSidecar(port=port, log=log, popen=popen)
    try:
        sidecar.wait_until_it_says(f"are on port {port}")
        yield sidecar
    finally:
        if popen.poll() is None:
            sidecar.tell_to_end()
        popen.wait(LIMIT_S)


@contextlib.contextmanager
def running_ranks(root: Path) -> Iterator[RunningRanks]:
    """Give an mpirun that runs two ranks."""
    mpirun = require_stack("openmpi5").mpirun
    program = root / "ranks.py"
    program.write_text(_RANKS)
    told = root / "told"
    told.mkdir()
    popen = subprocess.Popen(
        [
            *(mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2"),
            *(sys.executable, program, told),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # apart from other jobs that this machine may run
        env={**os.environ, RUN_ID_VARIABLE: root.name},
    )
    try:
        job = RunningRanks(told=told, mpirun=popen)
        wait_until("both ranks run", lambda: len(job.pids) == 2 or popen.poll() is not None)
        yield job
    finally:
        popen.terminate()
        popen.wait(LIMIT_S)


def test_a_worker_of_somebody_elses_is_ready_while_its_sshd_answers(
    keys: JobKeys, root: Path
) -> None:
    """And not a moment before, nor after."""
    address, port = free_address()
    with running_sidecar(root, "--ssh-address", address, "--ssh-port", str(port)) as sidecar:
        sidecar.wait_until_it_says(f"not ready: nobody listens on {address} port {port}")
        assert sidecar.ask("/readyz") == (
            503,
            f"not ready: nobody listens on {address} port {port}\n",
        )
        assert sidecar.ask("/healthz") == (200, "ok\n")
    with running_sshd(keys, root) as sshd:
        where = ("--ssh-address", sshd.addresses[0], "--ssh-port", str(sshd.port))
        with running_sidecar(root, *where) as sidecar:
            wait_until("it is ready", lambda: sidecar.ask("/readyz") == (200, "ready\n"))
            assert sidecar.status["ssh"]["server"].startswith("OpenSSH_")

            sshd.popen.terminate()

            wait_until("it is not ready", lambda: sidecar.ask("/readyz")[0] == 503)
            assert "mpi_agent_worker_ready 0.0\n" in sidecar.ask("/metrics")[1]
        assert sshd.log.read_text().count("kex_exchange_identification") == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::"])
def test_a_listener_is_seen_without_asking_it(address: str) -> None:
    """An sshd writes two lines about everybody who goes away without a login."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip("no IPv6 on this machine")
        port = listener.getsockname()[1]
        assert not is_listened_on(port)

        listener.listen()

        assert is_listened_on(port)
    assert not is_listened_on(port)


def test_what_answers_and_is_no_ssh_server_is_named(root: Path) -> None:
    """A web server on that port would look like a worker that is up."""
    with running_sidecar(root) as other:
        where = ("--ssh-address", "127.0.0.1", "--ssh-port", str(other.port))
        with running_sidecar(root, *where) as sidecar:
            wait_until("it gave up", lambda: "starting" not in sidecar.status["phase"])

            code, text = sidecar.ask("/readyz")

    assert code == 503
    assert f"no ssh banner came from 127.0.0.1 port {other.port}" in text


def test_an_sshd_that_accepts_and_stays_silent_is_not_ready(root: Path) -> None:
    """A port that is open is not enough."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with running_sidecar(root, "--ssh-port", str(port)) as sidecar:
            sidecar.wait_until_it_says(
                f"not ready: no ssh banner came from 127.0.0.1 port {port} in 2 s"
            )


def test_each_rank_is_seen_by_its_number_with_what_it_used(root: Path) -> None:
    """Of a job that somebody else started."""
    with running_ranks(root) as job, running_sidecar(root) as sidecar:

        def has_burnt() -> bool:
            ranks = sidecar.ranks_of(job)
            return set(ranks) == {0, 1} and ranks[1]["cpu_s"] >= _SEEN_S

        wait_until("rank 1 has burnt its CPU time", has_burnt)
        ranks = sidecar.ranks_of(job)
        metrics = sidecar.ask("/metrics")[1]

    assert (ranks[1]["local_rank"], ranks[0]["local_rank"]) == (1, 0)
    assert ranks[1]["memory_bytes"] >= _HELD_BYTES > ranks[0]["memory_bytes"]
    assert ranks[1]["cpu_s"] > ranks[0]["cpu_s"]
    assert 'mpi_agent_rank_cpu_seconds_total{rank="1"} ' in metrics
    assert 'mpi_agent_rank_memory_bytes{rank="0"} ' in metrics


def test_the_argv_of_a_rank_is_not_told(root: Path) -> None:
    """Nor its environment; who asks is not known."""
    with running_ranks(root) as job, running_sidecar(root) as sidecar:
        wait_until("ranks are seen", lambda: len(sidecar.ranks_of(job)) == 2)
        told = sidecar.ask("/status")[1] + sidecar.ask("/metrics")[1]

    assert "ranks.py" not in told
    assert "OMPI_" not in told


def test_a_pid_namespace_that_is_not_shared_is_said_aloud(root: Path) -> None:
    """Once in the log, and in the status for as long as it is so."""
    unshare = require_program("unshare")
    if os.getuid() != 0:
        pytest.skip("a PID namespace needs root")
    apart = (unshare, "--pid", "--fork", "--kill-child", "--mount-proc")
    with running_ranks(root), running_sidecar(root, before=apart) as sidecar:
        sidecar.wait_until_it_says("the PID namespace is not shared, so ranks are not seen")

        status = sidecar.status

    assert status["ranks"] == []
    assert "set shareProcessNamespace: true" in status["notes"][0]
    assert sidecar.log.read_text().count("PID namespace") == 1


def test_as_pid_1_it_ends_with_0_when_told_to(root: Path) -> None:
    """The kernel keeps from PID 1 every signal that it has no handler for."""
    unshare = require_program("unshare")
    if os.getuid() != 0:
        pytest.skip("a PID namespace needs root")
    apart = (unshare, "--pid", "--fork", "--kill-child", "--mount-proc")
    with running_sidecar(root, before=apart) as sidecar:
        sidecar.wait_until_it_says("not ready")
        sidecar.tell_to_end()

        assert sidecar.popen.wait(LIMIT_S) == 0
        assert "received SIGTERM: the sidecar ends" in sidecar.log.read_text()


def test_another_uid_is_told_under_which_one_to_run(root: Path) -> None:
    """It sees the processes and not whose rank each is."""
    uid = ordinary_uid()
    with running_ranks(root) as job, running_sidecar(root, uid=uid) as sidecar:
        sidecar.wait_until_it_says(f"uid {uid} may not read the environment of processes of uid 0")

        status = sidecar.status
        assert sidecar.ranks_of(job) == {}

    assert "run the sidecar as uid 0, or as root with SYS_PTRACE" in status["notes"][0]


def test_root_without_the_capability_is_told_which_one_it_lacks(root: Path) -> None:
    """Beside ranks of root that have kept theirs."""
    setpriv = require_program("setpriv")
    if os.getuid() != 0:
        pytest.skip("only root has capabilities to drop")
    hardened = (setpriv, "--bounding-set=-all", "--inh-caps=-all")
    with running_ranks(root), running_sidecar(root, before=hardened) as sidecar:
        sidecar.wait_until_it_says("uid 0 may not read the environment of processes of uid 0")

        assert "SYS_PTRACE" in sidecar.status["notes"][0]


def test_a_port_that_is_taken_ends_the_sidecar_with_its_reason(root: Path) -> None:
    """It has nothing else to do."""
    with running_sidecar(root) as sidecar:
        second = subprocess.run(
            [*(sys.executable, "-m", "mpi_agent", "sidecar"), "--http-port", str(sidecar.port)],
            env=environment_for(None),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert second.returncode == 78
    assert f"cannot serve HTTP on port {sidecar.port}: Address already in use" in second.stderr


def test_the_guest_signals_nobody(root: Path) -> None:
    """The ranks outlive it."""
    with running_ranks(root) as job:
        with running_sidecar(root) as sidecar:
            wait_until("ranks are seen", lambda: len(sidecar.ranks_of(job)) == 2)

        assert job.mpirun.poll() is None
        assert all(Path(f"/proc/{pid}/stat").exists() for pid in job.pids)
