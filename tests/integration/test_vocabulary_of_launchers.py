"""The tables of options against the launchers that are installed: nothing of their help is missing.

The launchers are those of tests/stacks.py; one that is missing skips with its name.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from mpi_agent.command.topics import Family
from mpi_agent.command.vocabulary import options_known_to
from tests.stacks import require_stack

pytestmark = pytest.mark.integration

_OPTION = re.compile(r"(?<![\w./*|=<-])--?([A-Za-z][\w-]*)")
_NO_OPTIONS = frozenset({"x", "num"})
_SAYS_RAN = ("sh", "-c", "echo ran; sleep 0.7")
"""Long enough: Open MPI 5.0.11's mpirun now and then does not return after a shorter program."""
_HYDRAS = ("mpich4", "mpich5", "intelmpi")
_LAUNCHERS = [
    ("openmpi4", ("--help", "all"), Family.OPEN_MPI),
    *((name, ("--help",), Family.HYDRA) for name in _HYDRAS),
]


def _ask(name: str, *words: str) -> str:
    """Return what the launcher of an MPI says to these words."""
    asked = subprocess.run(
        (require_stack(name).mpirun, *words),
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


@pytest.mark.parametrize(("name", "words", "family"), _LAUNCHERS)
def test_every_option_of_a_launchers_help_is_known(
    name: str, words: tuple[str, ...], family: Family
) -> None:
    """An option that nobody knows could hide the program."""
    said = _ask(name, *words)
    lines = [re.split(r"\s{2,}|\s[{<]", line.strip())[0] for line in said.splitlines()]
    parts = [part for line in lines if line.startswith("-") for part in re.split(r"[|/ ]", line)]
    found = {match[1] for part in parts if (match := re.fullmatch(r"--?([A-Za-z][\w-]*)", part))}

    assert len(found) > 20
    assert found <= options_known_to(family)


def test_every_option_of_open_mpi_5_help_pages_is_known() -> None:
    """Its mpirun --help names none, the pages of PRRTE name them all."""
    pages = require_stack("openmpi5").mpirun.parents[1] / "share/prte/help-prterun.txt"
    table = pages.read_text(encoding="utf-8").partition("[dvm]")[0].replace("\n", " ")
    joined = re.sub(r"-\s*\|[^|]*\|\s+\|\s*", "-", table)
    found = set(re.findall(r'"--?([A-Za-z][\w-]*[A-Za-z])\b', joined))

    assert len(found) > 50
    assert found - _NO_OPTIONS <= options_known_to(Family.OPEN_MPI)


def _values_taken(name: str, *option: str) -> bool:
    """Return whether the launcher takes all these words for options and runs what follows."""
    return "ran" in _ask(name, "-n", "1", *option, *_SAYS_RAN).splitlines()


def test_open_mpi_5_wants_two_dashes_and_a_space_for_its_mapping() -> None:
    """`-map-by slot` is refused, as is `--map-by=slot`, and `-hostfile` is not."""
    assert _values_taken("openmpi5", "--map-by", "slot")
    assert not _values_taken("openmpi5", "-map-by", "slot")
    assert not _values_taken("openmpi5", "--map-by=slot")
    assert _values_taken("openmpi5", "-host", "localhost")
    assert _values_taken("openmpi5", "--host=localhost")
    assert not _values_taken("openmpi5", "--H", "localhost")


def test_open_mpi_4_takes_no_equals_sign() -> None:
    """`--map-by=slot` must be written in two words."""
    assert _values_taken("openmpi4", "-map-by", "slot")
    assert not _values_taken("openmpi4", "--map-by=slot")


@pytest.mark.parametrize("name", _HYDRAS)
def test_hydra_takes_two_dashes_and_equals_and_no_end_of_options(name: str) -> None:
    """`--genv=A=1` is fine, `--` is not."""
    assert _values_taken(name, "--genv", "A", "1")
    assert _values_taken(name, "--genv=A=1")
    assert _values_taken(name, "-genv=A", "1")
    assert not _values_taken(name, "--")
