"""The agent as a command in front of the program, in a user's own image."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images, Mpi
from tests.e2e.manifests import read_manifest
from tests.e2e.placements import assert_ran_on

pytestmark = pytest.mark.e2e

WRAPPER = read_manifest(EXAMPLE / "wrapper.yaml")


def test_an_image_without_shims_runs_the_job_through_the_wrapper(
    open_mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """`mpi-agent launch -- PROGRAM` and `mpi-agent worker`, installed by pip."""
    with new_job(WRAPPER, images.wrapper(open_mpi.debian)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, WRAPPER)


def test_the_readiness_probe_of_the_example_turns_true(images: Images, new_job: JobFactory) -> None:
    """`mpi-agent ready`, run in the pod as kubelet runs it, says yes once sshd answers."""
    with new_job(WRAPPER, images.wrapper(Mpi.OPEN_MPI_5.debian)) as running:
        running.start_workers()

        running.wait_until_ready()
