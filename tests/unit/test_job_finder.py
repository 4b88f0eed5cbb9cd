"""Which MPI and which hosts: what is read of the mpirun line."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.command.variables import HOSTFILE_VARIABLES
from mpi_agent.command_settings import JobSettings
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.stacks import Implementation, MpiStack
from mpi_agent.job_finder import Job, JobFinder
from tests.builders import MPICH_STACK, OPEN_MPI_5_STACK
from tests.fakes import EventRecorder

SETTINGS = JobSettings(mpi="auto", timeout_s=None, slots=1)
OPERATORS_HOSTFILE = "/etc/mpi/hostfile"


class _FinderWith(JobFinder):
    """Finds the MPI that it is told."""

    stack: MpiStack | None = None

    def _detect_stack(self) -> MpiStack | None:
        return self.stack


def found(
    line: str,
    stack: MpiStack | None,
    *,
    settings: JobSettings = SETTINGS,
    environ: Mapping[str, str] | None = None,
    emit: EventSink = lambda _: None,
) -> Job:
    """Return the job of a line where this MPI is installed."""
    program = tuple(shlex.split(line))
    finder = _FinderWith(settings, program, environ=environ or {}, emit=emit, search_path=())
    finder.stack = stack
    return asyncio.run(finder.find())


def names_of(job: Job) -> list[str]:
    """Return the names of the job's hosts."""
    return [host.name for host in job.hosts.hosts]


def a_hostfile(directory: Path, name: str = "own") -> str:
    """Write a hostfile of one host with two slots, and return its path."""
    path = directory / name
    path.write_text(f"{name}.example slots=2\n")
    return str(path)


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


@pytest.mark.parametrize("variable", HOSTFILE_VARIABLES)
def test_a_hostfile_that_the_user_gives_by_a_variable_is_the_source(
    variable: str, tmp_path: Path
) -> None:
    """Mpirun would have read it; whose it is is said."""
    recorder = EventRecorder()

    job = found("./pi", None, environ={variable: a_hostfile(tmp_path)}, emit=recorder)

    assert names_of(job) == ["own.example"]
    assert Noted(text=f"hosts are those of {variable}") in recorder.events


@pytest.mark.parametrize("variable", ["OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE"])
def test_the_operators_hostfile_in_a_variable_is_no_word_of_the_user(
    variable: str, tmp_path: Path
) -> None:
    """An operator sets the variables of every launcher, so the user's own is another one."""
    environ = {
        variable: OPERATORS_HOSTFILE,
        "I_MPI_HYDRA_HOST_FILE": a_hostfile(tmp_path),
    }

    assert names_of(found("./pi", None, environ=environ)) == ["own.example"]


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("mpirun -H a ./pi", SETTINGS),
        ("./pi", replace(SETTINGS, hosts="a")),
    ],
    ids=["line", "setting"],
)
def test_hosts_that_are_named_win_over_a_hostfile_in_a_variable(
    line: str, settings: JobSettings, tmp_path: Path
) -> None:
    """And nothing is said of the variable."""
    recorder = EventRecorder()
    environ = {"OMPI_MCA_orte_default_hostfile": a_hostfile(tmp_path)}

    job = found(line, OPEN_MPI_5_STACK, settings=settings, environ=environ, emit=recorder)

    assert names_of(job) == ["a"]
    assert "hosts are those of" not in repr(recorder.events)


def test_a_hostfile_on_the_line_wins_over_one_in_a_variable(tmp_path: Path) -> None:
    """As it does for mpirun."""
    line = f"mpirun --hostfile {shlex.quote(a_hostfile(tmp_path, 'line'))} ./pi"
    environ = {"OMPI_MCA_orte_default_hostfile": a_hostfile(tmp_path)}

    assert names_of(found(line, OPEN_MPI_5_STACK, environ=environ)) == ["line.example"]
