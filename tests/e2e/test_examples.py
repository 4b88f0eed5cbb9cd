"""The manifests of examples/mpi-operator, read strictly and run as the operator lays them out.

The page that leads to them is docs/how-to/from-the-operators-images.md; `test_wrapper.py` and
`test_restart_demo.py` run two more, and `tests/docs` reads those that no machine of ours can run.
"""

from __future__ import annotations

import urllib.request
from datetime import datetime
from functools import partial

import pytest

from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images, Mpi
from tests.e2e.manifests import MpiJob, read_manifest
from tests.e2e.placements import assert_ran_on
from tests.e2e.pods import Pod
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

RUN = {
    "pi": (Mpi.OPEN_MPI_4, Mpi.OPEN_MPI_5),
    "pi-intel": (Mpi.INTEL,),
    "pi-mpich": (Mpi.MPICH,),
    "hardened": (Mpi.OPEN_MPI_4, Mpi.OPEN_MPI_5),
    "wait-for-workers": (Mpi.OPEN_MPI_5,),
}
"""Which example runs with which MPI, in an image of its user's that starts from ours."""

ELSEWHERE = {"sidecar", "wrapper"}
READ_ALONE = {
    "gang-scheduler-plugins",
    "gang-volcano",
    "horovod",
    "nccl-tests",
    "pytorch-ddp",
}
CASES = [pytest.param(name, mpi, id=f"{name}-{mpi.value}") for name in RUN for mpi in RUN[name]]
_HARDENED = read_manifest(EXAMPLE / "hardened.yaml")
_WAITING = read_manifest(EXAMPLE / "wait-for-workers.yaml")
_SIDECAR = read_manifest(EXAMPLE / "sidecar.yaml")
_BOUNDS = """
while read -r name value; do case "$name" in
    Uid: | NoNewPrivs: | CapPrm: | CapEff: | CapBnd: | CapAmb:) echo "$name ${value%%[!0-9a-f]*}" ;;
esac; done < /proc/1/status
for place in / /opt /home/mpiuser /var /etc /run; do
    (: > "$place/written") 2>/dev/null && echo "$place can be written"
done
: > /tmp/written && echo "/tmp can be written"
"""


def test_every_example_is_run_or_is_known_to_need_what_is_not_here() -> None:
    """GPUs, or a gang scheduler."""
    assert {path.stem for path in EXAMPLE.glob("*.yaml")} == {*RUN, *ELSEWHERE, *READ_ALONE}


@pytest.mark.parametrize(("name", "mpi"), CASES)
def test_an_example_runs_a_rank_on_every_slot_of_its_workers(
    name: str, mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """As it stands there; the ranks say where they ran."""
    job = read_manifest(EXAMPLE / f"{name}.yaml")
    assert job.implementation is mpi.implementation

    with new_job(job, images.pi(mpi)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)


def test_the_hardened_pods_can_do_nothing_but_run_the_job(
    images: Images, new_job: JobFactory
) -> None:
    """Seen from inside: the uid, no capability, no way to one, and /tmp as the place to write."""
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
        ]


def test_the_launcher_that_waits_begins_after_the_last_worker_was_ready(
    images: Images, new_job: JobFactory
) -> None:
    """Its first line is younger than every worker's word that it is ready."""
    with new_job(_WAITING, images.pi(Mpi.OPEN_MPI_5)) as running:
        running.run()
        *workers, launcher = running.pods

        began = _said_at(launcher, "discovered hosts=3")
        assert all(_said_at(worker, "became ready") < began for worker in workers)


def _said_at(pod: Pod, words: str) -> datetime:
    line = next(line for line in pod.log(timestamps=True).splitlines() if words in line)
    return datetime.fromisoformat(line.split()[0])


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
            assert _page(worker, "/readyz") == "ready\n"
            assert "mpi_agent_worker_ready 1.0" in _page(worker, "/metrics")


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
            )


def _with_images(job: MpiJob, images: Images) -> MpiJob:
    """Return the job with images that are here: the worker's is by the operator's own recipe."""
    stock = images.stock(Mpi.OPEN_MPI_5.debian)
    there = job.with_image("example/worker-of-somebody-else:latest", stock)
    return there.with_image("mpi-agent/sidecar:latest", images.sidecar())


def _lists_ranks(worker: Pod, ranks: tuple[int, ...]) -> bool:
    try:
        lines = _page(worker, "/metrics")
    except OSError:
        return False
    return all(f'mpi_agent_rank_memory_bytes{{rank="{rank}"}}' in lines for rank in ranks)


def _page(worker: Pod, path: str) -> str:
    """Return a page of the sidecar, which shares the worker's address."""
    with urllib.request.urlopen(f"http://{worker.address()}:9390{path}", timeout=5) as answer:
        text: bytes = answer.read()
    return text.decode()
