"""Workers whose sshd is late: one attempt, and the first moment is used."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images, Mpi
from tests.e2e.manifests import read_manifest
from tests.e2e.placements import assert_ran_on
from tests.e2e.pods import Pod
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

PI = read_manifest(EXAMPLE / "pi.yaml")
LATE_S = 20.0
BOUND_S = 0.2
_GATE = 'until [ -e /gate/open ]; do sleep 0.01; done; exec "$0" "$@"'


def _time_of(pod: Pod, words: str) -> float:
    """Return when such a line was first in the pod's log, as the engine stamped it."""
    line = next(line for line in pod.log(timestamps=True).splitlines() if words in line)
    stamp = line.split()[0]
    return datetime.fromisoformat(stamp).timestamp()


def test_the_program_starts_as_soon_as_the_last_of_the_late_workers_lets_us_in(
    images: Images, new_job: JobFactory, tmp_path: Path
) -> None:
    """The servers start 20 s after the launcher; allowed is ten times the promised 200 ms."""
    gate = tmp_path / "gate"
    gate.mkdir()
    worker = replace(PI.worker, argv=("/bin/sh", "-c", _GATE, *PI.worker.argv))
    job = replace(PI, worker=worker)

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers(f"--volume={gate}:/gate:ro")
        launcher = running.start_launcher()
        began_s = time.monotonic()
        wait_until(
            "20 s have passed",
            lambda: time.monotonic() - began_s >= LATE_S,
            limit_s=LATE_S + 1,
        )
        assert "started np=" not in launcher.log()
        (gate / "open").touch()
        ended = running.ended(launcher)

        assert_ran_on(ended, running.worker_names, job)
        assert ended.output.count("mpi-agent: started np=") == 1
        last_login_s = max(_time_of(worker, "accepted a login") for worker in running.workers)
        delay_s = _time_of(launcher, "mpi-agent: started np=") - last_login_s
        print(f"program started {delay_s * 1000:.0f} ms after the last login became possible")
        assert 0 <= delay_s <= 10 * BOUND_S
