"""The tables of options against the launchers that are installed: nothing of their help is missing.

Which launchers are looked for stands here; one that is missing skips with its name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mpi_agent.command.topics import Family
from mpi_agent.command.vocabulary import options_known_to

_BESIDE_PYTHON = Path(sys.executable).parent
_STACKS = Path("/tmp/prep/stacks")
_OPTION = re.compile(r"(?<![\w./*|=<-])--?([A-Za-z][\w-]*)")
_NO_OPTIONS = frozenset({"x", "num"})
_LAUNCHERS = [
    ("mpirun.openmpi", ("--help", "all"), Family.OPEN_MPI),
    ("mpiexec.mpich", ("--help",), Family.HYDRA),
    (str(_STACKS / "mpich/bin/mpiexec"), ("--help",), Family.HYDRA),
    (str(_STACKS / "impi/bin/mpiexec.hydra"), ("--help",), Family.HYDRA),
]


def _ask(command: tuple[str, ...]) -> str:
    """Return what a launcher says, or skip with its name."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    asked = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=20,
        check=False,
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
    )
    return asked.stdout


@pytest.mark.parametrize(("launcher", "words", "family"), _LAUNCHERS)
def test_every_option_of_a_launchers_help_is_known(
    launcher: str, words: tuple[str, ...], family: Family
) -> None:
    """An option that nobody knows could hide the program."""
    said = _ask((launcher, *words))
    lines = [re.split(r"\s{2,}|\s[{<]", line.strip())[0] for line in said.splitlines()]
    parts = [part for line in lines if line.startswith("-") for part in re.split(r"[|/ ]", line)]
    found = {match[1] for part in parts if (match := re.fullmatch(r"--?([A-Za-z][\w-]*)", part))}

    assert len(found) > 20
    assert found <= options_known_to(family)


def test_every_option_of_open_mpi_5_help_pages_is_known() -> None:
    """Its mpirun --help names none, the pages of PRRTE name them all."""
    pages = _BESIDE_PYTHON.parent / "share/prte/help-prterun.txt"
    if not pages.is_file():
        pytest.skip("Open MPI 5 is not installed beside this Python")
    table = pages.read_text(encoding="utf-8").partition("[dvm]")[0].replace("\n", " ")
    joined = re.sub(r"-\s*\|[^|]*\|\s+\|\s*", "-", table)
    found = set(re.findall(r'"--?([A-Za-z][\w-]*[A-Za-z])\b', joined))

    assert len(found) > 50
    assert found - _NO_OPTIONS <= options_known_to(Family.OPEN_MPI)


def _values_taken(launcher: str, *option: str) -> bool:
    """Return whether the launcher takes all these words for options and runs what follows."""
    return "ran" in _ask((launcher, "-n", "1", *option, "echo", "ran")).splitlines()


def test_open_mpi_5_wants_two_dashes_and_a_space_for_its_mapping() -> None:
    """`-map-by slot` is refused, as is `--map-by=slot`, and `-hostfile` is not."""
    mpirun = str(_BESIDE_PYTHON / "mpirun")

    assert _values_taken(mpirun, "--map-by", "slot")
    assert not _values_taken(mpirun, "-map-by", "slot")
    assert not _values_taken(mpirun, "--map-by=slot")
    assert _values_taken(mpirun, "-host", "localhost")
    assert _values_taken(mpirun, "--host=localhost")
    assert not _values_taken(mpirun, "--H", "localhost")


def test_open_mpi_4_takes_no_equals_sign() -> None:
    """`--map-by=slot` must be written in two words."""
    assert _values_taken("mpirun.openmpi", "-map-by", "slot")
    assert not _values_taken("mpirun.openmpi", "--map-by=slot")


@pytest.mark.parametrize(
    "launcher", [launcher for launcher, _, f in _LAUNCHERS if f is Family.HYDRA]
)
def test_hydra_takes_two_dashes_and_equals_and_no_end_of_options(launcher: str) -> None:
    """`--genv=A=1` is fine, `--` is not."""
    assert _values_taken(launcher, "--genv", "A", "1")
    assert _values_taken(launcher, "--genv=A=1")
    assert _values_taken(launcher, "-genv=A", "1")
    assert not _values_taken(launcher, "--")
