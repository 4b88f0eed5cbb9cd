"""The job of examples/restart survives the loss of a worker that comes back somewhere else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.e2e.conftest import JobFactory
from tests.e2e.images import REPOSITORY, Images, Mpi
from tests.e2e.manifests import read_manifest
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

_DEMO = read_manifest(REPOSITORY / "examples/restart/restart.yaml")
_LIMIT = 3_000_000
_RESULT = _LIMIT * (_LIMIT + 1) * (2 * _LIMIT + 1) // 6
_MIDDLE = "saved at 500000\n"
_BEGIN = re.compile(r"restarts=(\d+): (\d+) ranks go on at (\d+)")
_LIMIT_S = 150.0


@pytest.mark.parametrize("mpi", [Mpi.OPEN_MPI_5, Mpi.MPICH], ids=lambda mpi: mpi.value)
def test_a_program_that_saves_its_work_survives_a_worker_that_comes_back_elsewhere(
    mpi: Mpi, images: Images, new_job: JobFactory
) -> None:
    """One restart, on all ranks, from where it was; the result is as if nothing had happened."""
    job = replace(_DEMO, implementation=mpi.implementation)

    with new_job(job, images.restart(mpi)) as running:
        running.start_workers()
        launcher = running.start_launcher()
        wait_until(
            "half of the sum is there",
            lambda: _MIDDLE in launcher.log() or not launcher.is_running(),
            limit_s=60,
        )
        lost = running.workers[1]
        address = lost.address()
        lost.kill()
        running.remove(lost)
        back = running.start_worker(lost.hostname)
        ended = running.ended(launcher, limit_s=_LIMIT_S)
        print(ended.output)

        assert ended.code == 0, ended.output
        assert back.address() != address
        assert f"sum of squares = {_RESULT}" in ended.output
        first, again = (tuple(map(int, found)) for found in _BEGIN.findall(ended.output))
        assert first == (0, 6, 0)
        assert again[:2] == (1, 6)
        assert again[2] >= 500_000
