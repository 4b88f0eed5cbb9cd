"""Which MPI and which hosts: what is read of the mpirun line."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from mpi_agent.command_settings import JobSettings
from mpi_agent.job.stacks import Implementation, MpiStack
from mpi_agent.job_finder import Job, JobFinder
from tests.builders import MPICH_STACK, OPEN_MPI_5_STACK


class _FinderWith(JobFinder):
    """Finds the MPI that it is told."""

    stack: MpiStack | None = None

    def _detect_stack(self) -> MpiStack | None:
        return self.stack


def found(line: str, stack: MpiStack | None) -> Job:
    """Return the job of a line where this MPI is installed."""
    settings = JobSettings(mpi="auto", timeout_s=None, slots=1)
    program = tuple(shlex.split(line))
    finder = _FinderWith(settings, program, environ={}, emit=lambda _: None, search_path=())
    finder.stack = stack
    return asyncio.run(finder.find())


def test_the_hosts_are_read_in_the_language_of_the_installed_launcher(tmp_path: Path) -> None:
    """`-s` has a value for Hydra; in Open MPI's language `all` would be the program."""
    hostfile = tmp_path / "hosts"
    hostfile.write_text("a.example:2\nb.example:2\n")

    job = found(f"mpiexec -s all -n 2 -f {shlex.quote(str(hostfile))} ./pi", MPICH_STACK)

    assert [host.name for host in job.hosts.hosts] == ["a.example", "b.example"]


@pytest.mark.parametrize("stack", [None, OPEN_MPI_5_STACK], ids=["none", "5"])
def test_without_another_language_the_line_is_open_mpis(stack: MpiStack | None) -> None:
    """Also where no MPI was found, as for a question about the hosts alone."""
    assert [h.name for h in found("mpirun -H a,b ./pi", stack).hosts.hosts] == ["a", "b"]


def test_an_mpi_without_a_dialect_does_not_stop_the_search_for_hosts() -> None:
    """Whether it can be used is told when the command is built."""
    stack = MpiStack(
        implementation=Implementation.MVAPICH, version=(2, 3, 7), mpirun="/usr/bin/mpirun"
    )

    assert [h.name for h in found("mpirun -hosts a,b ./pi", stack).hosts.hosts] == ["a", "b"]
