"""Jobs that stay until something ends them."""

from __future__ import annotations

from pathlib import Path

from mpi_agent.setting_words import Backend
from tests.e2e.confinement import Cell, PodUser, job_of
from tests.e2e.leftovers import has_a_program
from tests.e2e.mpi_jobs import MpiJob
from tests.e2e.operator_cluster import OperatorJob
from tests.e2e.pods import Pod
from tests.waiting import wait_until

__all__ = ["argv_of", "job_running", "start"]

_PROGRAMS = Path(__file__).parent / "programs"
_START_LIMIT_S = 60.0


def argv_of(program: str) -> tuple[str, ...]:
    """Return how a program of `programs/` is called inside a pod; arguments follow its name."""
    name, *arguments = program.split()
    return ("/opt/user/bin/python", f"/programs/{name}.py", *arguments)


def job_running(
    program: str,
    ssh: Backend = Backend.OPENSSH,
    *,
    options: tuple[str, ...] = (),
    **variables: str,
) -> MpiJob:
    """Return a job of mpiuser's with a program of `programs/`."""
    return job_of(
        Cell(user=PodUser.FIXED, ssh=ssh, is_hardened=False),
        argv_of(program),
        variables=tuple(variables.items()),
        options=(f"--volume={_PROGRAMS}:/programs:ro", *options),
    )


def start(running: OperatorJob, *worker_options: str) -> Pod:
    """Start a job of `staying.py`; return its launcher once all ranks compute and it watches them.

    Until then the workers know nothing of the launcher, and would not miss it.
    """
    running.start_workers(*worker_options)
    launcher = running.start_launcher()

    def is_under_way() -> bool:
        return launcher.log().count(" computes") == 2 and all(
            "mpi-agent: a run began " in worker.log() for worker in running.workers
        )

    wait_until(
        "both ranks compute and both workers are watched",
        lambda: is_under_way() or not launcher.is_running(),
        limit_s=_START_LIMIT_S,
    )
    assert launcher.is_running()
    assert all(has_a_program(worker) for worker in running.workers)
    return launcher
