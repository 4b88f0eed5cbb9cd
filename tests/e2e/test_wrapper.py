"""The agent as a command in front of the program, in a user's own image."""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.base_images import Debian
from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images
from tests.e2e.manifests import read_manifest
from tests.e2e.placements import assert_ran_on
from tests.e2e.pods import Pod
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

WRAPPER = read_manifest(EXAMPLE / "wrapper.yaml")


def _is_ready(pod: Pod) -> bool:
    return pod.execute(*WRAPPER.worker.readiness).returncode == 0


def test_an_image_without_shims_runs_the_job_through_the_wrapper(
    debian: Debian, images: Images, new_job: JobFactory
) -> None:
    """`mpi-agent launch -- PROGRAM` and `mpi-agent worker`, installed by pip."""
    with new_job(WRAPPER, images.wrapper(debian)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, WRAPPER)


def test_the_readiness_probe_of_the_example_turns_true(images: Images, new_job: JobFactory) -> None:
    """`mpi-agent ready`, run in the pod as kubelet runs it, says yes once sshd answers."""
    with new_job(WRAPPER, images.wrapper(Debian.TRIXIE)) as running:
        running.start_workers()

        for worker in running.workers:
            wait_until(
                f"{worker.hostname} is ready",
                partial(_is_ready, worker),
                limit_s=15,
            )
