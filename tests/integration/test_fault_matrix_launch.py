"""What a whole `mpi-agent launch` makes of faults, before mpirun starts and just after."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from tests.integration.test_worker_mpirun import open_mpi_4, open_mpi_5
from tests.workers import LIMIT_S, JobKeys, RunningWorker, running_worker
from tests.worlds import in_own_etc

pytestmark = pytest.mark.integration

START_S = 10.0
"""for a Python, its imports and an mpirun, on a busy machine"""


def launch(root: Path, keys: JobKeys, worker: RunningWorker, mpirun: Path) -> subprocess.Popen[str]:
    """Start `mpi-agent launch` for a job of one worker, whose name /etc/hosts knows."""
    hosts = root / f"hosts-of-{worker.name}"
    hosts.write_text(f"127.0.0.1 localhost\n{worker.address} {worker.name}.pi\n")
    agent = (sys.executable, "-m", "mpi_agent", "launch", "--mpi", str(mpirun))
    job = ("--hosts", f"{worker.name}.pi", "--ssh-port", str(worker.port), "--timeout", "10m")
    own = ("--ssh-key", str(keys.private_path), "--state-dir", str(root / f"{worker.name}.state"))
    return subprocess.Popen(
        [*in_own_etc(hosts=hosts), *agent, *job, *own, "--", "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def make_mpirun(directory: Path, *, version: str, does: str) -> Path:
    """Write an mpirun that tells its version by one command and does another when it is used."""
    directory.mkdir(parents=True)
    mpirun = directory / "mpirun"
    mpirun.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {version}; exit; fi\n{does}\n')
    mpirun.chmod(0o755)
    return mpirun


@pytest.mark.parametrize("find_mpi", [open_mpi_4, open_mpi_5])
def test_a_worker_that_goes_just_before_mpirun_dials_is_a_failed_launch(
    root: Path, keys: JobKeys, find_mpi: object
) -> None:
    """The wait was right and is over: ssh says why, mpirun's code comes back, nothing hangs."""
    assert callable(find_mpi)
    real = Path(find_mpi()[0])
    with running_worker(keys, root, name="w-0") as worker:
        listens = f"bash -c '</dev/tcp/{worker.address}/{worker.port}'"
        mpirun = make_mpirun(
            root / "mpi" / "bin",
            version=f"exec '{real}' --version",
            does=f"kill {worker.popen.pid}; while {listens} 2>/dev/null; do sleep 0.02; done\n"
            f"exec '{real}' \"$@\"",
        )
        for daemon in ("orted", "prted"):
            (mpirun.parent / daemon).symlink_to(real.with_name(daemon))
        started_at_s = time.monotonic()
        agent = launch(root, keys, worker, mpirun)
        _, said = agent.communicate(timeout=LIMIT_S)

    print(f"told {time.monotonic() - started_at_s:.2f} s after the start of the agent: {said}")
    assert agent.returncode == 255
    assert "hosts became ready count=1" in said
    assert f"connect to host w-0.pi port {worker.port}: Connection refused" in said
    assert "probably never started: mpirun ended with exit code 255" in said
    assert "verdict=LAUNCH_FAILED" in said
    assert "went away after the wait: " in said
    assert "refuses connections on port" in said


def test_lasting_faults_end_a_launch_early_and_mpirun_is_never_started(
    root: Path, keys: JobKeys
) -> None:
    """A refused key (77) and a missing daemon (78), side by side and in real time."""
    started = root / "started"
    mpirun = make_mpirun(
        root / "bin", version='echo "mpirun (Open MPI) 5.0.7"', does=f"touch '{started}'"
    )
    with (
        running_worker(keys, root, "--sshd", "openssh", name="w-0") as closed,
        running_worker(keys, root, name="w-1") as empty,
    ):
        (closed.state / "authorized_keys").write_text("# nobody\n")
        started_at_s = time.monotonic()
        agents = [launch(root, keys, worker, mpirun) for worker in (closed, empty)]
        said = [agent.communicate(timeout=LIMIT_S)[1] for agent in agents]
        took_s = time.monotonic() - started_at_s

    print(f"told {took_s:.2f} s after the start, of which 10 s are the grace: {said}")
    assert [agent.returncode for agent in agents] == [77, 78]
    assert '"w-0.pi": the job\'s key is refused' in said[0]
    assert '"w-1.pi": the MPI daemon is missing' in said[1]
    assert f'there is no "{mpirun.parent}/prted", which Open MPI 5.0.7 calls there' in said[1]
    assert not started.exists()
    grace_s = LASTING_OBSTACLES[Obstacle.KEY_REFUSED]
    assert grace_s <= took_s < grace_s + START_S
