"""Hosts that have IPv6 alone: probed, told and run on like any other, or refused before the start.

Nothing has to be added to the command: Open MPI 4.1.4 (Debian) and 5.0.11 (the wheel), both built
with --enable-ipv6, find their way as long as loopback has 127.0.0.1; measured 2026-11.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.command.stack import detect_stack, speaks_ipv6
from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.job.stacks import MpiStack
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.wait.dns import NameResolver
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from tests.fault_matrix import SLACK_S, Fault, assert_told, hurried, probe_of, terms_of, wait_for
from tests.integration.test_worker_mpirun import open_mpi_4, open_mpi_5
from tests.waiting import wait_until
from tests.workers import LIMIT_S, JobKeys, worker_arguments
from tests.worlds import Machine, ipv6_network

pytestmark = pytest.mark.integration

PORT = 2222
START_S = 10.0
"""for a Python and its imports, on a busy machine"""

HURRY = 20.0
"""the graces are counted by a clock that runs so many times as fast"""

SUM_OVER_RANKS = """
import ctypes
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
there = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
world, rank, total = there("ompi_mpi_comm_world"), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
own = ctypes.c_int(rank.value + 1)
add = there("ompi_mpi_op_sum")
mpi.MPI_Allreduce(ctypes.byref(own), ctypes.byref(total), 1, there("ompi_mpi_int"), add, world)
import os, socket, time
os.write(1, f"{socket.gethostname()} {total.value}\\n".encode())
time.sleep(0.5)
mpi.MPI_Finalize()
"""


@contextlib.contextmanager
def worker_on(machine: Machine, keys: JobKeys, root: Path) -> Iterator[None]:
    """Run a worker there until the block ends."""
    state = root / f"{machine.name}.state"
    words = worker_arguments(keys, state, machine.name, machine.address, PORT)
    log = root / f"{machine.name}.log"
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            [*machine.enter, sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        wait_until("ready", lambda: (state / "ready").exists() or popen.poll() is not None)
        assert popen.poll() is None, log.read_text()
        yield
    finally:
        popen.send_signal(signal.SIGTERM)
        popen.wait(LIMIT_S)


def run_agent(
    machine: Machine, root: Path, keys: JobKeys, command: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run an agent on a machine to its end."""
    own = ("--ssh-port", str(PORT), "--ssh-key", str(keys.private_path))
    state = ("--state-dir", str(root / "launcher.state"))
    return subprocess.run(
        [*machine.enter, sys.executable, "-m", "mpi_agent", command, *own, *state, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("find_mpi", [open_mpi_4, open_mpi_5])
def test_a_job_runs_over_ipv6_alone(root: Path, keys: JobKeys, find_mpi: object) -> None:
    """Names, probes, the way back, ssh, daemons and ranks."""
    assert callable(find_mpi)
    mpirun = find_mpi()[0]
    with (
        ipv6_network(root, "launcher", "w-0", "w-1") as (launcher, *workers),
        contextlib.ExitStack() as stack,
    ):
        for worker in workers:
            stack.enter_context(worker_on(worker, keys, root))
        hosts = ("--hosts", "w-0.pi,w-1.pi", "--timeout", "30s")
        program = (sys.executable, "-c", SUM_OVER_RANKS)
        ended = run_agent(launcher, root, keys, "launch", "--mpi", mpirun, *hosts, "--", *program)

    print(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["w-0 3", "w-1 3"]


def test_an_ipv6_address_without_a_route_is_told_at_the_deadline(root: Path, keys: JobKeys) -> None:
    """Another host on the same network is ready."""
    with ipv6_network(root, "launcher", "w-0") as (launcher, worker), worker_on(worker, keys, root):
        hosts = ("--hosts", "w-0.pi,fd88::1", "--timeout", "6s")
        started_at_s = time.monotonic()
        ended = run_agent(launcher, root, keys, "wait", *hosts)

    print(f"told {time.monotonic() - started_at_s:.2f} s after the start: {ended.stderr}")
    assert ended.returncode == 200
    assert "cannot reach 1 of 2 hosts within" in ended.stderr
    assert '"fd88::1": network unreachable' in ended.stderr
    assert f"fd88::1 port {PORT}: Network is unreachable" in ended.stderr
    assert 6.0 <= time.monotonic() - started_at_s < 6.0 + START_S


def test_an_mpi_without_ipv6_is_named_before_the_start(root: Path, keys: JobKeys) -> None:
    """Nobody is dialled: mpirun would start, and its daemons would not find it."""
    stack = an_mpi_without_ipv6(root / "bin")
    hosts, now_s = root / "hosts", hurried(HURRY)
    hosts.write_text("fd77::2 w-0.pi\n")

    async def asks_the_mpi() -> bool:
        return await asyncio.to_thread(speaks_ipv6, stack)

    probe = probe_of(
        terms_of(keys, root),
        SshTarget(name="w-0.pi", port=PORT),
        names=NameResolver(hosts_file=hosts, resolv_conf=root / "none"),
        speaks_ipv6=asks_the_mpi,
        now_s=now_s,
    )
    waited = wait_for(probe, "w-0.pi", timeout_s=6000, now_s=now_s)

    fault = Fault(
        stage=Stage.RESOLVED,
        obstacle=Obstacle.ADDRESS_FAMILY,
        says="w-0.pi has only IPv6 (fd77::2), and the installed MPI has none",
        code=78,
    )
    grace_s = LASTING_OBSTACLES[Obstacle.ADDRESS_FAMILY] / HURRY
    assert_told(waited, fault, after_s=grace_s, within_s=1.0 + SLACK_S)


def an_mpi_without_ipv6(directory: Path) -> MpiStack:
    """Write an mpirun and an ompi_info that says so."""
    directory.mkdir()
    says = {"mpirun": "mpirun (Open MPI) 4.1.6", "ompi_info": "            IPv6 support: no"}
    for name, text in says.items():
        (directory / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (directory / name).chmod(0o755)
    return detect_stack(str(directory / "mpirun"), called_as=None, search_path=())
