"""What the installed MPI says of itself beside its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpi_agent.command.stack import detect_stack, speaks_ipv6
from mpi_agent.job.stacks import Implementation, MpiStack
from tests.integration.test_worker_mpirun import open_mpi_4, open_mpi_5

pytestmark = pytest.mark.integration


def a_stack(directory: Path, implementation: Implementation = Implementation.OPEN_MPI) -> MpiStack:
    """Return a stack whose mpirun would stand in a directory."""
    mpirun = str(directory / "mpirun")
    return MpiStack(implementation=implementation, version=(5, 0, 7), mpirun=mpirun)


def write_info(directory: Path, answer: str, *, name: str = "ompi_info") -> None:
    """Write an ompi_info that gives one answer."""
    program = directory / name
    program.write_text(f'#!/bin/sh\n[ "$1" = --config ] || exit 1\n{answer}\n')
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("answer", "speaks"),
    [
        ('echo "            IPv6 support: no"', False),
        ('echo "            IPv6 support: yes"', True),
        ('echo "            Something else"', True),
        ("exit 3", True),
    ],
)
def test_an_open_mpi_is_asked_by_its_own_program(tmp_path: Path, answer: str, speaks: bool) -> None:
    """What cannot be told is no reason to refuse a host."""
    write_info(tmp_path, answer)

    assert speaks_ipv6(a_stack(tmp_path)) is speaks


def test_the_program_may_carry_the_name_of_an_alternative(tmp_path: Path) -> None:
    """As Debian names it where two MPIs are installed."""
    write_info(tmp_path, 'echo " IPv6 support: no"', name="ompi_info.openmpi")

    assert not speaks_ipv6(a_stack(tmp_path))


def test_without_the_program_it_is_assumed_and_hydras_are_known(tmp_path: Path) -> None:
    """Intel MPI is told; MPICH's launcher knows IPv4 alone."""
    assert speaks_ipv6(a_stack(tmp_path))
    write_info(tmp_path, 'echo " IPv6 support: no"')
    assert speaks_ipv6(a_stack(tmp_path, Implementation.INTEL_MPI))
    assert not speaks_ipv6(a_stack(tmp_path, Implementation.MPICH))


@pytest.mark.parametrize("find_mpi", [open_mpi_4, open_mpi_5])
def test_a_real_open_mpi_answers(find_mpi: object, capfd: pytest.CaptureFixture[str]) -> None:
    """Debian's and the wheel's are built with IPv6; nothing of the question is shown."""
    assert callable(find_mpi)
    stack = detect_stack(find_mpi()[0], called_as=None, search_path=())

    assert speaks_ipv6(stack)
    assert capfd.readouterr() == ("", "")
