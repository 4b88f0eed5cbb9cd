"""What images and manifests bring along: locked accounts, no /run/sshd, no PAM, other ports."""

from __future__ import annotations

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.confinement import Cell, PodUser, job_of
from tests.e2e.conftest import JobFactory
from tests.e2e.images import Images, Mpi
from tests.e2e.placements import assert_ran_on

pytestmark = pytest.mark.e2e

PI = ("/opt/user/bin/python", "/opt/user/pi.py")
ROOT = Cell(user=PodUser.ROOT, ssh=Backend.OPENSSH, is_hardened=False)
FIXED = Cell(user=PodUser.FIXED, ssh=Backend.OPENSSH, is_hardened=False)
_UNCHOSEN_ROOT = Cell(user=PodUser.ROOT, ssh=Backend.AUTO, is_hardened=False)
_END_LIMIT_S = 30.0
_FIRST_FREE_PORT = "--sysctl=net.ipv4.ip_unprivileged_port_start"


@pytest.mark.parametrize(
    ("cell", "server"),
    [
        pytest.param(FIXED, Backend.OPENSSH, id="mpiuser-by-openssh"),
        pytest.param(_UNCHOSEN_ROOT, Backend.BUILTIN, id="root-by-builtin"),
    ],
)
def test_a_locked_account_is_served(
    cell: Cell, server: Backend, images: Images, new_job: JobFactory
) -> None:
    """OpenSSH without PAM refuses a locked account only when it runs as root."""
    job = job_of(cell, PI)

    with new_job(job, images.locked(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        for worker in running.workers:
            assert f"became ready server={server.value} " in worker.log()


def test_root_needs_neither_run_sshd_nor_pam(images: Images, new_job: JobFactory) -> None:
    """The image's /run and /etc/pam.d are empty; the worker makes what sshd wants."""
    job = job_of(ROOT, PI, options=("--tmpfs=/run:notmpcopyup", "--tmpfs=/etc/pam.d:notmpcopyup"))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)


def test_root_who_cannot_make_run_sshd_is_served_by_the_built_in_server(
    images: Images, new_job: JobFactory
) -> None:
    """It is missing, and its place is read-only: OpenSSH's server would not start."""
    job = job_of(_UNCHOSEN_ROOT, PI, options=("--tmpfs=/run:ro,notmpcopyup",))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        for worker in running.workers:
            assert "became ready server=builtin " in worker.log()


@pytest.mark.parametrize("port", [22, 2222])
def test_root_serves_on_either_usual_port(port: int, images: Images, new_job: JobFactory) -> None:
    """Volcano's port and mpi-operator's."""
    job = job_of(ROOT, PI, variables=(("MPI_AGENT_SSH_PORT", str(port)),))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)
        for worker in running.workers:
            assert f" port={port} " in worker.log()


def test_another_user_serves_on_port_22_where_the_pod_may(
    images: Images, new_job: JobFactory
) -> None:
    """Containerd 2 and Docker let anybody have the low ports, by a sysctl of the pod's network."""
    port_22 = (("MPI_AGENT_SSH_PORT", "22"),)
    job = job_of(FIXED, PI, variables=port_22, options=(f"{_FIRST_FREE_PORT}=0",))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        ended = running.run()

        assert_ran_on(ended, running.worker_names, job)


@pytest.mark.parametrize("ssh", [Backend.OPENSSH, Backend.BUILTIN], ids=lambda ssh: ssh.value)
def test_another_user_is_told_that_port_22_is_not_for_him(
    ssh: Backend, images: Images, new_job: JobFactory
) -> None:
    """Where low ports need a right that he has not, the worker ends and names a way out."""
    cell = Cell(user=PodUser.FIXED, ssh=ssh, is_hardened=False)
    port_22 = (("MPI_AGENT_SSH_PORT", "22"),)
    job = job_of(cell, PI, variables=port_22, options=(f"{_FIRST_FREE_PORT}=1024",))

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
        running.start_workers()

        for worker in running.workers:
            assert worker.wait(_END_LIMIT_S) in (78, 202), worker.log()
            assert "port 22" in worker.log()
            assert "--ssh-port" in worker.log()
