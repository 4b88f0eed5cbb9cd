"""images/README.md holds the table of the drop-in jobs, as `tests.e2e.drop_in_table` prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.drop_in_cases import DROP_INS, DropIn
from tests.e2e.drop_in_table import Outcome, Versions, table_of, versions_in
from tests.e2e.images import Mpi

_PAGE = Path(__file__).parents[2] / "images/README.md"
_SSH = "OpenSSH_10.0p2 Debian-7+deb13u4, OpenSSL 3.5.9 29 Sep 2026\nmpi-agent, version 0.1.0\n"
_SAID = {
    Mpi.OPEN_MPI_4: ("mpirun (Open MPI) 4.1.4\n", "Open MPI 4.1.4"),
    Mpi.OPEN_MPI_5: ("mpirun (Open MPI) 5.0.7\n", "Open MPI 5.0.7"),
    Mpi.MPICH: ("HYDRA build details:\n    Version:    4.2.1\n", "MPICH 4.2.1"),
    Mpi.INTEL: (
        "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 2\n",
        "Intel MPI 2021.18.1",
    ),
}
_HEADS = (
    r"Open MPI 4\.\d+\.\d+, OpenSSH \S+",
    r"Open MPI 5\.\d+\.\d+, OpenSSH \S+",
    r"MPICH \d+\.\d+\.\d+, OpenSSH \S+",
    r"Intel MPI 20\d\d\.\d+\.\d+, OpenSSH \S+",
)
"""The columns, in the order of `Mpi`."""
_MEASURED = re.compile(
    r"^Measured on 20\d\d-\d\d-\d\d with podman \d\S*, Linux \d\S* and \d+ cores,"
    r" mpi-agent \d\S*\.$",
    re.MULTILINE,
)


def _table() -> str:
    """Return what stands between the page's markers."""
    _, _, rest = _PAGE.read_text().partition("<!-- drop-in: begin -->\n")
    table, _, _ = rest.partition("<!-- drop-in: end -->")
    return table


def _rows() -> dict[str, list[str]]:
    """Return the cells of each row of the page's table, by its first cell."""
    lines = [line for line in _table().splitlines() if line.startswith("|")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {first: others for first, *others in cells}


@pytest.mark.parametrize("case", DROP_INS, ids=str)
def test_the_page_says_of_each_drop_in_job_that_it_runs_with_each_mpi(case: DropIn) -> None:
    """A case that is added or worded anew needs a new run of all of them."""
    row = _rows()[case.title]

    ran = [cell.startswith("runs, ") for cell in row]
    assert ran == [case.is_of(mpi) for mpi in Mpi]


def test_the_pages_columns_are_the_mpis_with_their_versions_in_order() -> None:
    """Each cell is read by its place in the row."""
    heads = _rows()["job"]

    assert len(heads) == len(_HEADS) == len(Mpi)
    for head, form in zip(heads, _HEADS, strict=True):
        assert re.fullmatch(form, head)


def test_the_page_says_when_and_with_what_it_was_measured() -> None:
    """Day, engine, kernel, cores, and the agent."""
    assert _MEASURED.search(_table())


@pytest.mark.parametrize("mpi", _SAID, ids=lambda mpi: mpi.value)
def test_versions_are_what_the_images_own_programs_say(mpi: Mpi) -> None:
    """The first lines of Debian's and Intel's launchers, of `ssh -V` and of the agent."""
    said, told = _SAID[mpi]

    versions = versions_in(said + _SSH, mpi)

    assert versions.mpi.startswith(told)
    assert (versions.openssh, versions.agent) == ("10.0p2", "0.1.0")


def test_a_job_that_fails_is_told_in_its_cell_and_one_that_nobody_writes_is_left_out() -> None:
    """The table never says `runs` of what was not seen running."""
    by_setvars = next(case for case in DROP_INS if case.only == (Mpi.INTEL,))
    sample = DROP_INS[0]
    versions = Versions(mpi="MPICH 4.2.1", openssh="10.0p2", agent="0.1.0")
    seen = [Outcome(mpi=Mpi.MPICH, case=sample, lasted_s=0.0, failure="ends with 7")]

    table = table_of(seen, {Mpi.MPICH: versions}, measured_with="Measured today")

    assert f"| {sample.title} | ends with 7 |" in table
    assert by_setvars.title not in table
