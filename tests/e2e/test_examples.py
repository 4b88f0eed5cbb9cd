"""The manifests of examples/mpi-operator, read strictly and run as the operator lays them out.

The page that leads to them is docs/how-to/from-the-operators-images.md; `test_wrapper.py` and
`test_restart_demo.py` run two more, and `tests/docs` reads those that no machine of ours can run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images, Mpi
from tests.e2e.manifests import read_manifest
from tests.e2e.mpi_jobs import MpiJob
from tests.e2e.placements import assert_ran_on
from tests.e2e.pods import Pod
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

CASES = (
    ("pi.yaml", Mpi.OPEN_MPI_4),
    ("pi.yaml", Mpi.OPEN_MPI_5),
    ("pi-intel.yaml", Mpi.INTEL),
    ("pi-mpich.yaml", Mpi.MPICH),
    ("wait-for-workers.yaml", Mpi.OPEN_MPI_5),
)
"""Which example runs with which MPI, in an image of its user's that starts from ours."""
RANKS_LIMIT_S = 60.0
_PORT = 9390
_HARDENED = read_manifest(EXAMPLE / "hardened.yaml")
_SIDECAR = read_manifest(EXAMPLE / "sidecar.yaml")
_BOUNDS = """
while read -r name value; do case "$name" in
    Uid: | NoNewPrivs: | CapPrm: | CapEff: | CapBnd: | CapAmb:) echo "$name ${value%%[!0-9a-f]*}" ;;
esac; done < /proc/1/status
for place in / /opt /home/mpiuser /var /etc /run /tmp /dev/shm; do
    (: > "$place/written") 2>/dev/null && echo "$place can be written"
done
"""


@pytest.mark.parametrize(("name", "mpi"), CASES, ids=lambda one: getattr(one, "value", one))
def test_an_example_runs_a_rank_on_every_slot_of_its_workers(
    name: str, mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """As it stands there; the ranks say where they ran."""
    job = read_manifest(EXAMPLE / name)
    assert job.implementation is mpi.implementation

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)


def test_the_hardened_pods_run_the_job_with_whatever_mpi_they_hold(
    mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """The manifest is Open MPI's; of another one it names the implementation as well."""
    job = replace(_HARDENED, implementation=mpi.implementation)

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)


def test_the_hardened_pods_can_do_nothing_but_run_the_job(
    images: Images, new_job: JobFactory
) -> None:
    """Seen from inside: the uid, no capability, no way to one, and where it may write.

    /dev/shm is there in every container, whatever the manifest says.
    """
    with new_job(_HARDENED, images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers()
        running.wait_until_ready()
        seen = running.workers[0].execute("sh", "-c", _BOUNDS).stdout.splitlines()

        nothing = f"{0:016x}"
        assert seen == [
            f"Uid: {_HARDENED.worker.uid}",
            f"CapPrm: {nothing}",
            f"CapEff: {nothing}",
            f"CapBnd: {nothing}",
            f"CapAmb: {nothing}",
            "NoNewPrivs: 1",
            "/tmp can be written",
            "/dev/shm can be written",
        ]


def test_workers_of_somebody_else_run_the_job_with_the_agent_beside_them(
    images: Images, new_job: JobFactory
) -> None:
    """The launcher's image alone is on ours; each sidecar says that its worker is ready."""
    job = _with_images(_SIDECAR, images)

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        running.wait_until_ready()
        for worker in running.workers:
            assert worker.page(_PORT, "/readyz") == "ready\n"
            assert "mpi_agent_worker_ready 1.0" in worker.page(_PORT, "/metrics")


def test_the_sidecar_lists_the_ranks_next_door_while_they_run(
    images: Images, new_job: JobFactory
) -> None:
    """By their numbers in the job, though it is another container with no capability."""
    with new_job(_with_images(_SIDECAR, images), images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers()
        running.start_launcher(("mpirun", "sleep", "600"))

        for index, worker in enumerate(running.workers):
            first = index * _SIDECAR.slots
            wait_until(
                f"the sidecar of {worker.hostname} lists ranks {first} and {first + 1}",
                partial(_lists_ranks, worker, (first, first + 1)),
                limit_s=RANKS_LIMIT_S,
            )


def _with_images(job: MpiJob, images: Images) -> MpiJob:
    """Return the job with images that are here: the worker's is by the operator's own recipe."""
    stock = images.stock(Mpi.OPEN_MPI_5.debian)
    there = job.with_image("example/worker-of-somebody-else:latest", stock)
    return there.with_image("mpi-agent/sidecar:latest", images.sidecar())


def _lists_ranks(worker: Pod, ranks: tuple[int, ...]) -> bool:
    try:
        lines = worker.page(_PORT, "/metrics")
    except OSError:
        return False
    return all(f'mpi_agent_rank_memory_bytes{{rank="{rank}"}}' in lines for rank in ranks)
