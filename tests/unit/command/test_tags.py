"""Tags in front of ranks' output, and what the user said of them himself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.dialects import TagForm
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.tags import HYDRA_PATTERN
from tests.builders import STACKS, a_host_list, a_launch_request

ALL = pytest.mark.parametrize("name", STACKS)
WORDS = {
    "openmpi4": ("--tag-output",),
    "openmpi5": ("--tag-output",),
    "mpich": ("-prepend-rank",),
    "intel": ("-prepend-rank",),
}
FORMS = {
    "openmpi4": TagForm.OPEN_MPI_4,
    "openmpi5": TagForm.OPEN_MPI_5,
    "mpich": TagForm.HYDRA,
    "intel": TagForm.HYDRA,
}


def planned(
    name: str,
    *program: str,
    tags: bool = False,
    splits: bool = False,
    environ: Mapping[str, str] | None = None,
) -> LaunchPlan:
    """Return the plan for a program with one of the stacks."""
    request = replace(
        a_launch_request(*program, environ=environ), tags_output=tags, splits_output=splits
    )
    return build_plan(request, a_host_list(), STACKS[name])


def asked_for(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the words for tags that the agent added."""
    return tuple(w for c in plan.choices if "in front" in c.reason for w in c.words)


def notes_of(plan: LaunchPlan) -> list[str]:
    """Return what is noted of tags."""
    return [note for note in plan.notes if note.startswith(("--log-dir", "--tag"))]


@ALL
def test_nothing_is_tagged_unless_that_is_asked_for(name: str) -> None:
    """Byte for byte means what it says."""
    plan = planned(name)

    assert (asked_for(plan), plan.tag_form, notes_of(plan)) == ((), None, [])


@ALL
def test_tags_are_asked_for_in_the_launchers_words(name: str) -> None:
    """Each has its own."""
    plan = planned(name, tags=True)

    assert asked_for(plan) == WORDS[name]
    assert (plan.tag_form, notes_of(plan)) == (None, [])


@ALL
@pytest.mark.parametrize("tags", [False, True])
def test_output_is_told_apart_by_tags_that_no_program_writes(name: str, tags: bool) -> None:
    """Hydra's own may stand in any line."""
    plan = planned(name, tags=tags, splits=True)

    is_hydra = name in ("mpich", "intel")
    assert asked_for(plan) == (("-prepend-pattern", HYDRA_PATTERN) if is_hydra else WORDS[name])
    assert (plan.tag_form, notes_of(plan)) == (FORMS[name], [])


@ALL
def test_tags_on_the_line_are_kept_and_not_said_twice(name: str) -> None:
    """Hydra ends at a second one."""
    plan = planned(name, "mpirun", *WORDS[name], "./pi", tags=True)

    assert asked_for(plan) == ()
    assert plan.argv.count(WORDS[name][0]) == 1


def test_the_lines_own_tags_are_those_by_which_output_is_told_apart() -> None:
    """Open MPI has one form."""
    plan = planned("openmpi4", "mpirun", "--tag-output", "./pi", splits=True)

    assert (plan.tag_form, notes_of(plan)) == (TagForm.OPEN_MPI_4, [])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mpich", ("-l",)),
        ("mpich", ("-prepend-pattern", "%h:")),
        ("intel", ("-prepend-rank",)),
        ("intel", ("-prepend-timestamp",)),
        ("openmpi4", ("--timestamp-output",)),
        ("openmpi5", ("--output", "tag-detailed")),
        ("openmpi5", ("--output", "timestamp")),
    ],
)
def test_own_words_that_change_the_tags_are_kept_and_noted(
    name: str, words: tuple[str, ...]
) -> None:
    """The user wins; the file has all of the output then."""
    plan = planned(name, "mpirun", *words, "./pi", splits=True)

    assert set(words) <= set(plan.argv)
    assert plan.tag_form is None
    assert notes_of(plan) == [
        f"--log-dir: {' '.join(words)} is kept, so that output cannot be told apart by rank:"
        " all is in one file"
    ]


def test_open_mpi_5s_own_word_for_tags_is_as_good_as_ours() -> None:
    """It says the same."""
    plan = planned("openmpi5", "mpirun", "--output", "tag", "./pi", tags=True, splits=True)

    assert asked_for(plan) == ()
    assert (plan.tag_form, notes_of(plan)) == (TagForm.OPEN_MPI_5, [])


@pytest.mark.parametrize(
    ("value", "form"), [("1", TagForm.OPEN_MPI_4), ("true", TagForm.OPEN_MPI_4), ("0", None)]
)
def test_a_variable_of_open_mpi_4_is_kept(value: str, form: TagForm | None) -> None:
    """Also where it says that there shall be none."""
    environ = {"OMPI_MCA_orte_tag_output": value}

    plan = planned("openmpi4", splits=True, environ=environ)

    assert (asked_for(plan), plan.tag_form) == ((), form)


def test_a_variable_that_open_mpi_5_ignores_is_not_said_twice() -> None:
    """It is said on the line already."""
    environ = {"OMPI_MCA_orte_tag_output": "1"}

    plan = planned("openmpi5", tags=True, splits=True, environ=environ)

    assert plan.argv.count("--tag-output") == 1
    assert plan.tag_form is TagForm.OPEN_MPI_5


def test_output_that_the_line_takes_away_is_noted() -> None:
    """Hydra writes it nowhere else then."""
    plan = planned("mpich", "mpiexec", "-outfile-pattern", "o.%r", "./pi", splits=True)

    assert notes_of(plan) == ["--log-dir: has nothing of what -outfile-pattern takes away"]
    assert plan.tag_form is TagForm.HYDRA


@pytest.mark.parametrize(("splits", "flag"), [(False, "--tag"), (True, "--log-dir")])
def test_a_launcher_of_another_kind_is_told_to_be_without_tags(splits: bool, flag: str) -> None:
    """It starts its ranks itself."""
    plan = planned("openmpi5", "horovodrun", "./pi", tags=True, splits=splits)

    (note,) = notes_of(plan)
    assert note.startswith(f"{flag}: ")
    assert "horovodrun" in note
    assert plan.tag_form is None


def test_tags_of_another_family_are_written_in_this_ones_words() -> None:
    """And count as the user's own."""
    plan = planned("mpich", "mpirun", "--tag-output", "./pi", tags=True)

    assert (plan.argv.count("-prepend-rank"), asked_for(plan)) == (1, ())
