"""Shared memory that killed ranks leave: what is removed when their run ends, and what never is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from mpi_agent.job.run_reports import HostSwept
from mpi_agent.job_processes import JobProcess, find_job_processes
from mpi_agent.run.own_ranks import OwnRanks
from mpi_agent.run_id import RunId
from mpi_agent.segments import Segments
from mpi_agent.shm_names import is_of_mpi
from mpi_agent.ssh.worker_words import Line, Over, Sweep, Swept
from mpi_agent.variable_names import RUN_ID_VARIABLE
from tests.served_control import Served, serve_and, until
from tests.stacks import STACK_NAMES, require_stack
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

LEFT_BY = {"openmpi4": "vader_segment.", "openmpi5": "sm_segment.", "mpich5": "mpich_shm_"}
MAPS = """
import mmap, os, signal, sys
for path in sys.argv[2:]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, 4096)
    if sys.argv[1] == "maps":
        globals()[path] = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
print("ready", flush=True)
signal.pause()
"""
MEETS = """
import signal
from mpi4py import MPI
other = MPI.COMM_WORLD.rank ^ 1
MPI.COMM_WORLD.Sendrecv(bytearray(300000), dest=other, recvbuf=bytearray(300000), source=other)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    """Return a directory of our own in shared memory."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm that we may write to")
    directory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


@contextlib.contextmanager
def user_of(*paths: Path, how: str = "maps", run_id: str = "a") -> Iterator[JobProcess]:
    """Start a rank that makes files and uses them."""
    environ = {"PATH": os.environ["PATH"], RUN_ID_VARIABLE: run_id, "PMI_RANK": "0"}
    with subprocess.Popen(
        (sys.executable, "-c", MAPS, how, *map(str, paths)), env=environ, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            (rank,) = (one for one in processes_of(run_id) if one.pid == child.pid)
            yield rank
        finally:
            child.kill()


def processes_of(run_id: str) -> tuple[JobProcess, ...]:
    """Return the processes of a run below the tests'."""
    found = find_job_processes(below=os.getpid()).processes
    return tuple(process for process in found if process.run_id == run_id)


def test_what_a_killed_rank_was_seen_to_use_is_removed(shared_memory: Path) -> None:
    """Once, and nothing beside it."""
    segments, own = Segments(shared_memory), shared_memory / "vader_segment.pi-worker-0.0.1.0"
    other = shared_memory / "sm_segment.elsewhere.0.1.0"
    with user_of(own) as rank:
        segments.looked("a", (rank,), is_last=False)
    other.touch()

    assert segments.remove("a") == 1
    assert not own.exists()
    assert other.exists()
    own.touch()
    assert segments.remove("a") == 0
    assert own.exists()


def test_ranks_in_the_launchers_own_container_leave_no_shared_memory_either(
    shared_memory: Path,
) -> None:
    """Also those that were killed before the end; with `local` all ranks are there."""
    run_id = RunId.of_launcher(name="pi-launcher", container="c", launch=os.urandom(4).hex())
    own = OwnRanks("pi-launcher", run_id, Segments(shared_memory))
    killed, left = (shared_memory / f"vader_segment.pi.0.1.{rank}" for rank in range(2))
    other = shared_memory / "vader_segment.pi.0.2.0"
    other.touch()

    async def run() -> HostSwept:
        watching = asyncio.create_task(own.watch())
        with user_of(left, run_id=str(run_id)):
            with user_of(killed, run_id=str(run_id)) as rank:
                await until("it was seen", lambda: rank.key in own_looks(own, run_id))
            watching.cancel()
            return await own.end()

    swept = asyncio.run(run())

    assert (swept.ended, swept.left, swept.segments) == (1, 0, 2)
    assert list(shared_memory.iterdir()) == [other]


def own_looks(own: OwnRanks, run_id: RunId) -> Collection[object]:
    """Return the processes that were looked at."""
    run = own._segments._runs.get(str(run_id))
    return () if run is None else run.looked


@pytest.mark.parametrize("end", [Over(exit_code=0), Sweep()])
def test_the_memory_of_processes_that_will_not_go_is_theirs_until_they_go(
    shared_memory: Path, tmp_path: Path, end: Line
) -> None:
    """What a run used is not forgotten while something of it is left, and is removed then."""
    own = shared_memory / "vader_segment.pi.0.1.0"

    async def watch(served: Served) -> None:
        caller = await served.watch("a")
        with user_of(own) as rank:
            served.segments.looked("a", (rank,), is_last=False)
        served.ending.left = 1
        caller.send(end)

        assert await caller.hear() == Swept(ended=1, killed=0, left=1, segments=0)
        assert own.exists()
        served.ending.left = 0
        await until("it is removed", lambda: not own.exists())

    serve_and(watch, tmp_path / "state", shared_memory=shared_memory)


@pytest.mark.parametrize("how", ["maps", "opens"])
def test_what_somebody_still_uses_stays(shared_memory: Path, how: str) -> None:
    """Another run on this worker, or a rank that would not end."""
    segments, own = Segments(shared_memory), shared_memory / "nccl-a1B2c3"
    with user_of(own, how=how, run_id="b"):
        with user_of(own) as rank:
            segments.looked("a", (rank,), is_last=False)

        assert segments.remove("a") == 0
        assert own.exists()


def test_what_no_library_of_mpi_names_so_stays(shared_memory: Path) -> None:
    """A data set that the program keeps in memory for its next run."""
    segments, own = Segments(shared_memory), shared_memory / "imagenet"
    with user_of(own) as rank:
        segments.looked("a", (rank,), is_last=False)

    assert segments.remove("a") == 0
    assert own.exists()


def test_what_was_there_before_the_run_stays(shared_memory: Path) -> None:
    """Whoever made it may want it."""
    segments, own = Segments(shared_memory), shared_memory / "mpich_shm_c939d912_0"
    with user_of(own) as rank:
        later = JobProcess(
            pid=rank.pid,
            started_at_s=time.clock_gettime(time.CLOCK_BOOTTIME) + 3600,
            run_id="a",
            rank=0,
            local_rank=None,
            leads_rank=True,
        )
        segments.looked("a", (rank,), is_last=False)
        run = segments._runs["a"]
        run.began_at_s = later.started_at_s

    assert segments.remove("a") == 0
    assert own.exists()


def test_a_link_of_that_name_is_neither_followed_nor_removed(shared_memory: Path) -> None:
    """Somebody put it in the place of what the rank used."""
    segments, own = Segments(shared_memory), shared_memory / "nccl-a1B2c3"
    target = shared_memory / "target"
    with user_of(own) as rank:
        segments.looked("a", (rank,), is_last=False)
        own.rename(target)
        own.symlink_to(target)

    assert segments.remove("a") == 0
    assert own.is_symlink()
    assert target.exists()


def test_a_run_of_which_nothing_was_seen_leaves_nothing_to_remove(shared_memory: Path) -> None:
    """A name and an owner are not enough: other containers may use the same memory."""
    segments = Segments(shared_memory)
    (shared_memory / "nccl-a1B2c3").touch()

    segments.looked("a", (), is_last=True)

    assert segments.remove("a") == 0
    assert segments.remove("never begun") == 0
    assert (shared_memory / "nccl-a1B2c3").exists()


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    """Some containers have no /dev/shm."""
    segments = Segments(tmp_path / "none")
    with user_of(tmp_path / "nccl-a1B2c3") as rank:
        segments.looked("a", (rank,), is_last=True)

    assert segments.remove("a") == 0


@pytest.mark.parametrize("name", STACK_NAMES)
def test_nothing_is_left_of_ranks_of_any_mpi_that_were_killed_with_their_mpirun(
    name: str,
) -> None:
    """As the kernel does it where a node is out of memory."""
    stack, segments = require_stack(name), Segments()
    options = () if stack.is_hydra else ("--oversubscribe", "--allow-run-as-root")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/tmp"),
        RUN_ID_VARIABLE: "a",
    }
    before = frozenset(os.listdir("/dev/shm"))
    with subprocess.Popen(
        (str(stack.mpirun), *options, "-np", "2", str(stack.python), "-c", MEETS),
        env=environ,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as mpirun:
        try:
            assert mpirun.stdout is not None
            assert [mpirun.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
            processes = processes_of("a")
            segments.looked("a", processes, is_last=False)
            made = {one for one in os.listdir("/dev/shm") if is_of_mpi(one)} - before
        finally:
            os.killpg(mpirun.pid, signal.SIGSTOP)  # else it cleans up, or its ranks do
            for process in reversed(processes_of("a")):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        wait_until("all are gone", lambda: not processes_of("a"))

    left = {one for one in made if is_of(one, name)} & frozenset(os.listdir("/dev/shm"))
    assert bool(left) == (name in LEFT_BY)
    assert segments.remove("a") == len(left)
    assert not left & frozenset(os.listdir("/dev/shm"))


def is_of(segment: str, stack_name: str) -> bool:
    """Return whether a file in /dev/shm is one that this MPI leaves; others may be at work too."""
    return stack_name in LEFT_BY and segment.startswith(LEFT_BY[stack_name])
