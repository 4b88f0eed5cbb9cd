"""The matrix: whoever the pods run as, with either ssh, and whatever is taken from them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.base_images import Debian
from tests.e2e.confinement import Cell, PodUser, job_of
from tests.e2e.conftest import JobFactory
from tests.e2e.images import Images, Mpi
from tests.e2e.operator_cluster import OperatorJob
from tests.e2e.placements import assert_ran_on

pytestmark = pytest.mark.e2e

PI = ("/opt/user/bin/python", "/opt/user/pi.py")
_END_LIMIT_S = 20.0
_REFUSED = Cell(user=PodUser.ROOT, ssh=Backend.OPENSSH, is_hardened=True)
_CELLS = tuple(
    cell
    for user, ssh, is_hardened in product(
        PodUser, (Backend.OPENSSH, Backend.BUILTIN), (False, True)
    )
    if (cell := Cell(user=user, ssh=ssh, is_hardened=is_hardened)) != _REFUSED
)


def _assert_served_by(server: Backend, running: OperatorJob) -> None:
    for worker in running.workers:
        assert f"became ready server={server.value} " in worker.log(), worker.log()


@pytest.mark.parametrize("cell", _CELLS, ids=str)
def test_a_job_runs_over_its_workers_whoever_they_are(
    open_mpi: Mpi, cell: Cell, images: Images, new_job: JobFactory
) -> None:
    """Launcher and workers have the same user, restrictions and ssh; a rank runs on each worker."""
    job = job_of(cell, PI)

    with new_job(job, images.pi(open_mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        _assert_served_by(cell.ssh, running)
        for worker in running.workers:
            cell.assert_holds_in(worker)


def test_root_without_capabilities_is_told_what_openssh_lacks(
    images: Images, new_job: JobFactory
) -> None:
    """The worker that was told to run OpenSSH ends with 78 and names the capabilities."""
    with new_job(job_of(_REFUSED, PI), images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers()

        for worker in running.workers:
            assert worker.wait(_END_LIMIT_S) == 78, worker.log()
            assert "SYS_CHROOT" in worker.log()
            assert "hint: " in worker.log()


def test_root_without_capabilities_is_served_by_the_built_in_server_by_itself(
    images: Images, new_job: JobFactory
) -> None:
    """Nobody chose: the worker sees that OpenSSH's server would refuse everybody."""
    cell = replace(_REFUSED, ssh=Backend.AUTO)
    job = job_of(cell, PI)

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        _assert_served_by(Backend.BUILTIN, running)
        cell.assert_holds_in(running.workers[0])


@pytest.mark.parametrize("user", PodUser, ids=lambda user: user.name.lower())
def test_an_image_without_openssh_runs_the_job_by_itself(
    user: PodUser, images: Images, new_job: JobFactory
) -> None:
    """No server, no client, nothing chosen, hardened: the built-in ones stand in on both sides."""
    cell = Cell(user=user, ssh=Backend.AUTO, is_hardened=True)
    job = job_of(cell, PI)

    with new_job(job, images.without_openssh(Debian.TRIXIE)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        _assert_served_by(Backend.BUILTIN, running)
