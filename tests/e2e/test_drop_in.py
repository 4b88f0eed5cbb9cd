"""Jobs written for mpi-operator's own images, run unchanged in ours."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.e2e.base_images import Debian
from tests.e2e.conftest import JobFactory
from tests.e2e.drop_in_cases import (
    CELLS,
    PI,
    DropIn,
    assert_nothing_is_left,
    assert_the_sentence_is_last,
)
from tests.e2e.images import Images, Mpi
from tests.e2e.placements import assert_ran_on, hosts_of_ranks

pytestmark = pytest.mark.e2e

_PYTHON = "/opt/user/bin/python"
_PI_IN_PYTHON = (_PYTHON, "/opt/user/pi.py")
_FAILING = "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); sys.exit(7)"
_ENTRYPOINTS = "/opt/mpi-agent/entrypoints"


@pytest.mark.parametrize(("mpi", "case"), CELLS, ids=[f"{mpi.value}-{case}" for mpi, case in CELLS])
def test_an_unchanged_job_runs_where_its_hostfile_says_and_leaves_nothing(
    mpi: Mpi, case: DropIn, images: Images, new_job: JobFactory
) -> None:
    """Code 0, pi, each rank on its host, the sentence last, and workers that run on, idle."""
    with new_job(case.job_for(mpi), images.pi(mpi)) as running:
        case.assert_runs(running)


def test_the_programs_own_exit_code_comes_back(
    mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """Exit code 7 of a rank is exit code 7 of the launcher's container."""
    argv = ("mpirun", "-n", "4", _PYTHON, "-c", _FAILING)
    job = replace(PI, implementation=mpi.implementation, launcher=replace(PI.launcher, argv=argv))

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert ended.code == 7, ended.output
        assert json.loads(ended.message.splitlines()[-1])["exit_code"] == 7
        assert_the_sentence_is_last(running, ended)
        assert_nothing_is_left(running)


def test_a_job_through_the_entrypoints_runs_as_well(
    open_mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """launcher.sh before the line of the launcher, worker.sh as the command of the worker."""
    argv = (f"{_ENTRYPOINTS}/launcher.sh", *PI.launcher.argv)
    job = replace(
        PI,
        launcher=replace(PI.launcher, argv=argv),
        worker=replace(PI.worker, argv=(f"{_ENTRYPOINTS}/worker.sh",)),
    )

    with new_job(job, images.pi(open_mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        assert_nothing_is_left(running)


def test_a_job_that_open_mpi_5_keeps_on_the_launcher_spreads_with_the_agent(
    images: Images, new_job: JobFactory
) -> None:
    """Open MPI 5 reads none of the operator's variables, and nobody is told: exit code 0."""
    argv = ("mpirun", "-n", "2", *_PI_IN_PYTHON)
    job = replace(PI, launcher=replace(PI.launcher, argv=argv), slots=1)

    with new_job(job, images.stock(Debian.TRIXIE)) as running:
        without_agent = running.run()
        launcher = f"{running.name}-launcher"
    assert without_agent.code == 0, without_agent.output
    assert hosts_of_ranks(without_agent.output) == (launcher, launcher)

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        assert_ran_on(running.run(), running.worker_names, job)


def test_apt_may_reinstall_what_stands_behind_the_shims(
    open_mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """The new mpirun and sshd land behind the shims, and the job runs as before."""
    with new_job(PI, images.reinstalled(open_mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, PI)
        assert all("became ready" in worker.log() for worker in running.workers)
        assert "mpi-agent: started" in ended.output
