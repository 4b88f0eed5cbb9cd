"""Ends that only containers show: evictions, lost launchers, memory, workers that end as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.conftest import JobFactory
from tests.e2e.engine import Engine
from tests.e2e.images import Images, Mpi
from tests.e2e.leftovers import has_a_program, wait_until_idle
from tests.e2e.long_jobs import argv_of, job_running, start

pytestmark = pytest.mark.e2e

_LEASE_S = 3.0
_SOON_S = 20.0
_END_LIMIT_S = 60.0
_BOTH = pytest.mark.parametrize(
    "ssh", [Backend.OPENSSH, Backend.BUILTIN], ids=lambda ssh: ssh.value
)
_FAILING = "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); sys.exit(7)"


@_BOTH
def test_an_evicted_worker_says_so_and_its_rank_saves_its_work(
    ssh: Backend, images: Images, new_job: JobFactory, tmp_path: Path
) -> None:
    """TERM to one worker: its rank alone gets the chosen signal, and the launcher names it."""
    saved = tmp_path / "saved"
    saved.mkdir()
    saved.chmod(0o777)
    job = job_running("staying", ssh, MPI_AGENT_DRAIN_SIGNAL="USR1")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        launcher = start(running, f"--volume={saved}:/saved")
        other, evicted = running.workers
        evicted.terminate()
        # Well before the end of the grace period of 25 s: nothing is left that needs it.
        assert evicted.wait(_SOON_S) == 0
        ended = running.ended(launcher)

        assert {path.name: path.read_text() for path in saved.iterdir()} == {"rank-1": "SIGUSR1"}
        assert "drained in" in evicted.log()
        assert re.search(rf"{evicted.hostname}\S* is being evicted", ended.output)
        assert ended.code == 201, ended.output
        assert re.search(rf"{evicted.hostname}\S* was evicted", ended.message)
        wait_until_idle(other)
        assert other.is_ready()


@_BOTH
def test_a_job_whose_ranks_finish_together_when_one_worker_is_evicted_is_a_success(
    ssh: Backend, images: Images, new_job: JobFactory, tmp_path: Path
) -> None:
    """Its work is done, within the grace period; the eviction is a remark."""
    saved = tmp_path / "saved"
    saved.mkdir()
    saved.chmod(0o777)
    job = job_running("staying agreeing", ssh, MPI_AGENT_DRAIN_SIGNAL="USR1")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        launcher = start(running, f"--volume={saved}:/saved")
        evicted = running.workers[1]
        evicted.terminate()
        assert evicted.wait(_SOON_S) == 0
        ended = running.ended(launcher)

        assert [path.name for path in saved.iterdir()] == ["rank-1"]
        assert "drained in" in evicted.log()
        assert ended.code == 0, ended.output
        assert "succeeded after" in ended.message
        assert re.search(rf"; {evicted.hostname}\S* was evicted", ended.message)


def test_a_job_whose_evicted_ranks_had_to_be_killed_is_not_a_success(
    images: Images, new_job: JobFactory
) -> None:
    """They use up the grace period; mpirun of Open MPI 5 says 0 when it loses their daemon."""
    job = job_running("staying deaf", MPI_AGENT_DRAIN_SIGNAL="USR1", MPI_AGENT_GRACE="2s")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        launcher = start(running)
        evicted = running.workers[1]
        evicted.terminate()
        evicted.wait(_END_LIMIT_S)
        ended = running.ended(launcher)

        assert re.search(r"killed \d+ process(es)? after", evicted.log())
        assert re.search(rf"{evicted.hostname}\S* ends what is left of the program", ended.output)
        assert ended.code == 201, ended.output
        assert re.search(rf"{evicted.hostname}\S* was evicted", ended.message)


@_BOTH
def test_ranks_of_a_launcher_that_was_killed_are_ended_and_the_workers_stay_ready(
    ssh: Backend, images: Images, new_job: JobFactory
) -> None:
    """Nobody says a word; what a rank left in a session of its own is ended too."""
    job = job_running("staying leaving", ssh, MPI_AGENT_LAUNCHER_GONE=f"{_LEASE_S:g}s")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        launcher = start(running)
        launcher.kill()

        wait_until_idle(*running.workers)
        for worker in running.workers:
            assert "is gone: its processes end" in worker.log()
            assert worker.is_ready()


def test_ranks_on_workers_that_were_cut_off_are_ended_though_the_launcher_lives(
    images: Images, new_job: JobFactory
) -> None:
    """The launcher's container is taken off the network: its connections fall silent, not shut."""
    job = job_running("staying leaving", MPI_AGENT_LAUNCHER_GONE=f"{_LEASE_S:g}s")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        launcher = start(running)
        launcher.cut_off(running.network)

        wait_until_idle(*running.workers)
        for worker in running.workers:
            assert "is gone: its processes end" in worker.log()


def test_a_launcher_that_comes_again_finds_nothing_of_its_former_life(
    images: Images, new_job: JobFactory
) -> None:
    """The same name in a new container, well within the lease: it cleans before it starts."""
    job = job_running("staying leaving", MPI_AGENT_LAUNCHER_GONE="10m")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        start(running).kill()
        assert all(has_a_program(worker) for worker in running.workers)
        argv = (*job.launcher.argv[:3], *argv_of("witness"))
        ended = running.ended(running.start_launcher(argv))

        assert ended.code == 0, ended.output
        for worker in running.workers:
            assert f"{worker.hostname} left=0" in ended.output
            log = worker.log()
            assert log.index("mpi-agent: ended ") < log.rindex("mpi-agent: a run began ")
        wait_until_idle(*running.workers)


def test_a_rank_that_takes_too_much_memory_is_told_from_one_that_was_killed(
    engine: Engine, images: Images, new_job: JobFactory
) -> None:
    """Signal 9 becomes: out of memory, on which worker, of how much."""
    if not engine.keeps_limits:
        pytest.skip(f"containers run {engine.title}, so nothing limits their memory")
    job = job_running("greedy", options=("--memory=200m", "--memory-swap=200m"))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        greedy = running.workers[1]
        assert ended.code != 0, ended.output
        assert greedy.is_running()
        assert re.search(rf"out of memory on {greedy.hostname}\S*", ended.message), ended.message
        assert "of 200 MiB" in ended.message
        assert "out of memory: the kernel killed 1 process" in greedy.log()
        assert "the kernel killed" not in running.workers[0].log()


@pytest.mark.parametrize(("told", "code"), [("zero", 0), ("code", 7)])
def test_workers_end_with_the_job_when_they_are_told_to(
    told: str, code: int, images: Images, new_job: JobFactory
) -> None:
    """For engines that leave workers running: every worker ends by itself, with the asked code."""
    job = job_running("staying", MPI_AGENT_EXIT_WITH_LAUNCHER=told)

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers()
        argv = (*job.launcher.argv[:3], argv_of("staying")[0], "-c", _FAILING)
        ended = running.ended(running.start_launcher(argv))

        assert ended.code == 7, ended.output
        for worker in running.workers:
            assert worker.wait(_END_LIMIT_S) == code, worker.log()
