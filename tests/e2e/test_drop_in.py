"""Jobs written for mpi-operator's own images, run unchanged in the reference image."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest

from tests.e2e.base_images import Debian
from tests.e2e.conftest import JobFactory
from tests.e2e.images import EXAMPLE, Images
from tests.e2e.manifests import MpiJob, PodTemplate, read_manifest
from tests.e2e.operator_cluster import OperatorJob
from tests.e2e.placements import assert_ran_on, hosts_of_ranks
from tests.e2e.pods import Pod
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

PI = read_manifest(EXAMPLE / "pi.yaml")
_ROOT = MpiJob(
    launcher=PodTemplate(argv=PI.launcher.argv),
    worker=PodTemplate(argv=("/usr/sbin/sshd", "-De")),
)
_ARBITRARY_UID = 1000650000
_ENTRYPOINTS = "/opt/mpi-agent/entrypoints"
FORMS = {
    "sshd-as-mpiuser": PI,
    "no-worker-command-as-mpiuser": replace(
        PI, worker=PodTemplate(argv=("/usr/sbin/sshd", "-De"), uid=1000)
    ),
    "no-worker-command-as-root": _ROOT,
    "entrypoints": replace(
        PI,
        launcher=replace(PI.launcher, argv=(f"{_ENTRYPOINTS}/launcher.sh", *PI.launcher.argv)),
        worker=replace(PI.worker, argv=(f"{_ENTRYPOINTS}/worker.sh",)),
    ),
    "arbitrary-uid": replace(
        PI,
        launcher=replace(PI.launcher, uid=_ARBITRARY_UID),
        worker=replace(PI.worker, uid=_ARBITRARY_UID),
    ),
}
_OF_A_PROGRAM = re.compile(r"\b(mpirun|orted|prted|prterun|python)\b")


def _assert_nothing_is_left(running: OperatorJob) -> None:
    for worker in running.workers:
        assert worker.is_running()
        wait_until(
            f"nothing of the program runs on {worker.hostname}",
            partial(_is_idle, worker),
            limit_s=5,
        )


def _is_idle(pod: Pod) -> bool:
    others = (command for command in pod.commands() if "mpi-agent" not in command)
    return not any(_OF_A_PROGRAM.search(command) for command in others)


@pytest.mark.parametrize("form", FORMS)
def test_an_unchanged_job_runs_on_its_workers_and_leaves_nothing(
    debian: Debian, form: str, images: Images, new_job: JobFactory
) -> None:
    """Six ranks on three workers, whoever the pods run as; no process of the program stays."""
    job = FORMS[form]

    with new_job(job, images.pi(debian)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        _assert_nothing_is_left(running)


def test_the_programs_own_exit_code_comes_back(
    debian: Debian, images: Images, new_job: JobFactory
) -> None:
    """Exit code 7 of a rank is exit code 7 of the launcher's container."""
    failing = "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); sys.exit(7)"
    argv = ("mpirun", "-n", "6", "/opt/user/bin/python", "-c", failing)
    job = replace(PI, launcher=replace(PI.launcher, argv=argv))

    with new_job(job, images.pi(debian)) as running:
        ended = running.run()

        assert ended.code == 7, ended.output
        assert "7" in ended.message
        _assert_nothing_is_left(running)


def test_the_launcher_as_a_worker_holds_the_first_ranks(
    debian: Debian, images: Images, new_job: JobFactory
) -> None:
    """With runLauncherAsWorker the launcher stands first in the hostfile and runs ranks too."""
    argv = ("mpirun", "-n", "6", *PI.launcher.argv[3:])
    job = replace(PI, launcher=replace(PI.launcher, argv=argv), workers=2, launcher_is_worker=True)

    with new_job(job, images.pi(debian)) as running:
        ended = running.run()

        assert_ran_on(ended, running.hosts, job)


def test_a_job_that_open_mpi_5_keeps_on_the_launcher_spreads_with_the_agent(
    images: Images, new_job: JobFactory
) -> None:
    """Open MPI 5 reads none of the operator's variables, and nobody is told: exit code 0."""
    argv = ("mpirun", "-n", "2", *PI.launcher.argv[3:])
    job = replace(PI, launcher=replace(PI.launcher, argv=argv), workers=2, slots=1)

    with new_job(job, images.stock(Debian.TRIXIE)) as running:
        without_agent = running.run()
        launcher = f"{running.name}-launcher"
    assert without_agent.code == 0, without_agent.output
    assert hosts_of_ranks(without_agent.output) == (launcher, launcher)

    with new_job(job, images.pi(Debian.TRIXIE)) as running:
        assert_ran_on(running.run(), running.worker_names, job)


def test_apt_may_reinstall_what_stands_behind_the_shims(
    debian: Debian, images: Images, new_job: JobFactory
) -> None:
    """The new mpirun and sshd land behind the shims, and the job runs as before."""
    with new_job(PI, images.reinstalled(debian)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, PI)
        assert all("became ready" in worker.log() for worker in running.workers)
        assert "mpi-agent: started" in ended.output
