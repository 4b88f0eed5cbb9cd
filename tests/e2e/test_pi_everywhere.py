"""The matrix of MPIs and users: pi over three workers, the image's name alone changed."""

from __future__ import annotations

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.confinement import Cell, PodUser
from tests.e2e.conftest import JobFactory
from tests.e2e.drop_in_cases import assert_nothing_is_left
from tests.e2e.images import Images, Mpi
from tests.e2e.leftovers import PROGRAM
from tests.e2e.mpi_jobs import MpiJob, PodTemplate
from tests.e2e.placements import assert_ran_on

pytestmark = pytest.mark.e2e

_RANKS = 6
_IN_C = ("sh", "-c", f'echo "a rank of uid $(id -u)"; exec {PROGRAM}')
_IN_PYTHON = ("/opt/user/bin/python", "/opt/user/pi.py")


def _job(mpi: Mpi, user: PodUser, program: tuple[str, ...]) -> MpiJob:
    """Return a job whose worker has no command, so that the operator's own is run."""
    uid = user.value or None
    return MpiJob(
        implementation=mpi.implementation,
        launcher=PodTemplate(argv=("mpirun", "-n", str(_RANKS), *program), uid=uid),
        worker=PodTemplate(argv=("/usr/sbin/sshd", "-De"), uid=uid),
        workers=3,
        slots=2,
        ssh_mount=user.ssh_mount,
    )


@pytest.mark.parametrize("user", PodUser, ids=lambda user: user.name.lower())
def test_pi_in_c_runs_on_all_workers_as_the_pods_user(
    mpi: Mpi, user: PodUser, images: Images, new_job: JobFactory
) -> None:
    """Two ranks on each of three workers, in order, under the uid that the pods really have."""
    cell = Cell(user=user, ssh=Backend.AUTO, is_hardened=False)
    job = _job(mpi, user, _IN_C)

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        assert ended.output.count(f"a rank of uid {user.value}\n") == _RANKS, ended.output
        for worker in running.workers:
            cell.assert_holds_in(worker)
        assert_nothing_is_left(running)


def test_pi_in_python_runs_on_all_workers(mpi: Mpi, images: Images, new_job: JobFactory) -> None:
    """mpi4py, from one wheel, with each MPI."""
    job = _job(mpi, PodUser.FIXED, _IN_PYTHON)

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        assert_nothing_is_left(running)
