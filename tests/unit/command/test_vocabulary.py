"""Every option of the launchers: what it is about, and how many words behind it are its values."""

from __future__ import annotations

import pytest

from mpi_agent.command.refusals import (
    OPEN_MPI_4_INSTEAD,
    OPEN_MPI_4_REFUSES,
    OPEN_MPI_5_INSTEAD,
    OPEN_MPI_5_NEEDS_ONE_DASH,
    OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE,
    OPEN_MPI_5_REFUSES,
    OPEN_MPI_5_TAKES_ONE_DASH,
)
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.vocabulary import (
    DIFFERS_WITHIN_FAMILY,
    Meaning,
    meaning_of,
    options_known_to,
)


@pytest.mark.parametrize(
    ("bare", "open_mpi", "hydra"),
    [
        ("s", Meaning(None, 0, is_local=True), Meaning(Topic.STDIN, 1)),
        ("tune", Meaning(Topic.PARAMETER_FILE, 1), Meaning(None, 1)),
        ("N", Meaning(Topic.PER_HOST, 1), None),
        ("c", Meaning(Topic.NP, 1, is_local=True), None),
        ("q", Meaning(Topic.QUIET, 0), None),
        ("l", None, Meaning(Topic.TAG_OUTPUT, 0)),
        ("pernode", Meaning(Topic.PER_HOST, 0, ("1",)), None),
        ("bynode", Meaning(Topic.MAP_BY, 0, ("node",)), None),
        ("rr", None, Meaning(Topic.MAP_BY, 0, ("node",))),
    ],
)
def test_each_family_has_its_own_meaning_of_a_word(
    bare: str, open_mpi: Meaning | None, hydra: Meaning | None
) -> None:
    """The same letter is another thing in another launcher."""
    assert meaning_of(bare, Family.OPEN_MPI) == open_mpi
    assert meaning_of(bare, Family.HYDRA) == hydra


def test_hydra_options_are_found_in_any_case() -> None:
    """MPICH compares them so."""
    assert meaning_of("Bind-To", Family.HYDRA) == meaning_of("bind-to", Family.HYDRA)
    assert meaning_of("Bind-To", Family.OPEN_MPI) is None


def test_what_is_implied_needs_no_value() -> None:
    """Implied values and values of the line never stand in one option."""
    for family in Family:
        for bare in options_known_to(family):
            meaning = meaning_of(bare, family)
            assert meaning is not None
            assert not (meaning.implied and meaning.value_count), bare


def test_every_exception_is_an_option() -> None:
    """A misspelled name in one of the sets would never be found."""
    known = options_known_to(Family.OPEN_MPI)

    assert known >= OPEN_MPI_4_REFUSES
    assert known >= OPEN_MPI_5_REFUSES
    assert known >= OPEN_MPI_5_NEEDS_ONE_DASH | OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE
    assert set(OPEN_MPI_5_INSTEAD) <= OPEN_MPI_5_REFUSES
    assert {option for option, _ in OPEN_MPI_4_INSTEAD} <= OPEN_MPI_4_REFUSES
    assert all(bare in options_known_to(family) for bare, family in DIFFERS_WITHIN_FAMILY)


def test_what_stands_in_an_options_place_is_taken_by_that_version() -> None:
    """A replacement that is refused as well would help nobody."""
    for words in OPEN_MPI_5_INSTEAD.values():
        assert not words or words[0].lstrip("-") not in OPEN_MPI_5_REFUSES
    for words in OPEN_MPI_4_INSTEAD.values():
        assert words[0].lstrip("-") not in OPEN_MPI_4_REFUSES


def test_one_dash_is_taken_where_nothing_else_was_measured() -> None:
    """`-hostfile hf` works in Open MPI 5, `-bind-to none` does not."""
    assert {"hostfile", "np", "oversubscribe", "mca"} <= OPEN_MPI_5_TAKES_ONE_DASH
    assert not OPEN_MPI_5_TAKES_ONE_DASH & {"bind-to", "map-by", "quiet", "set-env"}
