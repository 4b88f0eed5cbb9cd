"""The user's own mpirun line, read without losing a byte."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.arguments import (
    ProgramKind,
    is_question,
    kind_of_program,
    program_word,
    read_mpirun_line,
)
from mpi_agent.command.dialects import dialect_of
from mpi_agent.command.respell import keep_spelling_or_correct
from tests.builders import OPEN_MPI_4_STACK, OPEN_MPI_5_STACK


def read(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the process count and the names of all options in a line."""
    line = read_mpirun_line(tuple(shlex.split(text)))
    return line.np_counts[0], tuple(option.name for option in line.options)


@pytest.mark.parametrize(
    ("text", "np", "names"),
    [
        ("mpirun -n 2 ./pi", "2", ("np",)),
        ("mpirun -np 4 --hostfile hf ./pi -np 9", "4", ("np", "hostfile")),
        ("mpirun ./pi -n 3", None, ()),
        ("mpirun -x A -x B=1 --mca btl tcp,self -c 3 ./pi", "3", ("x", "x", "mca", "np")),
        ("mpirun --map-by=ppr:2:node ./pi", None, ("map-by",)),
        ("mpirun -bind-to none -map-by slot python t.py -x", None, ("bind-to", "map-by")),
        ("mpirun --allow-run-as-root -np 2 -- ./pi -n 5", "2", ("allow-run-as-root", "np")),
        ("mpirun -H a:2,b:2 -N 2 ./pi", None, ("host", "N")),
    ],
)
def test_options_end_where_the_program_begins(
    text: str, np: str | None, names: tuple[str, ...]
) -> None:
    """A program's own -np is none of our business."""
    assert read(text) == (np, names)


def test_each_application_of_a_line_has_its_count() -> None:
    """`:` starts another application with options of its own."""
    line = read_mpirun_line(tuple(shlex.split("mpirun -n 1 ./a : -n 3 -x A ./b")))

    assert line.np_counts == ("1", "3")
    assert line.has("x")


def test_a_line_without_a_program_is_seen() -> None:
    """`mpirun -n 2` alone cannot run."""
    assert read_mpirun_line(("mpirun", "-n", "2")).program is None


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (("mpirun", "x"), ProgramKind.MPIRUN_LINE),
        (("/usr/bin/mpiexec", "x"), ProgramKind.MPIRUN_LINE),
        (("horovodrun", "x"), ProgramKind.OTHER_LAUNCHER),
        (("/bin/bash", "-c", "mpirun x"), ProgramKind.OTHER_LAUNCHER),
        (("bash", "-ec", "cd /x; /usr/bin/mpirun x"), ProgramKind.OTHER_LAUNCHER),
        (("bash", "run.sh"), ProgramKind.OTHER_LAUNCHER),
        (("bash", "run.sh", "-c", "conf.yaml"), ProgramKind.OTHER_LAUNCHER),
        (("sh", "-c", "echo $OMPI_COMM_WORLD_RANK"), ProgramKind.BARE),
        (("env", "A=1", "./train"), ProgramKind.BARE),
        (("./train", "x"), ProgramKind.BARE),
        (("python3", "train.py"), ProgramKind.BARE),
    ],
)
def test_the_program_is_judged_by_its_first_word(
    program: tuple[str, ...], kind: ProgramKind
) -> None:
    """A bare program gets an mpirun, a launcher of its own gets variables."""
    assert kind_of_program(program) is kind


@given(st.lists(st.text(min_size=1, max_size=6), max_size=8))
def test_tokens_that_need_no_correction_stay_byte_for_byte(tokens: list[str]) -> None:
    """Open MPI 4 accepts every spelling, so nothing may change."""
    if any(
        token.lstrip("-").partition("=")[0] in {"hostfile", "machinefile", "default-hostfile"}
        for token in tokens
    ):
        return
    line = read_mpirun_line(("mpirun", *tokens))

    kept, notes = keep_spelling_or_correct(line, dialect_of(OPEN_MPI_4_STACK), "/hf", None)

    assert kept == tuple(tokens)
    assert notes == ()


def test_one_dash_is_corrected_for_open_mpi_5_alone() -> None:
    """Most published manifests carry `-bind-to none`, which ends Open MPI 5 with code 213."""
    line = read_mpirun_line(tuple(shlex.split("mpirun -bind-to none -np 2 -mca a b ./pi -bind-to")))

    kept_5, notes_5 = keep_spelling_or_correct(line, dialect_of(OPEN_MPI_5_STACK), "/hf", None)
    kept_4, notes_4 = keep_spelling_or_correct(line, dialect_of(OPEN_MPI_4_STACK), "/hf", None)

    assert shlex.join(kept_5) == "--bind-to none -np 2 -mca a b ./pi -bind-to"
    assert len(notes_5) == 1
    assert (kept_4, notes_4) == (line.tokens, ())


def test_ssh_arguments_on_the_line_are_kept_behind_ours() -> None:
    """The user's port or verbosity still counts; the key is ours."""
    line = read_mpirun_line(("mpirun", "--mca", "plm_rsh_args", "-v -p 22", "./pi"))

    kept, _ = keep_spelling_or_correct(line, dialect_of(OPEN_MPI_5_STACK), "/hf", "-F /c")

    assert kept == ("--mca", "plm_rsh_args", "-F /c -v -p 22", "./pi")


@pytest.mark.parametrize(
    ("program", "word"),
    [
        (("mpirun", "-n", "2", "./pi", "-x"), "./pi"),
        (("./pi", "-n"), "./pi"),
        (("mpirun", "-n", "2", "./a", ":", "./b"), "./a"),
    ],
)
def test_the_program_is_what_the_ranks_run(program: tuple[str, ...], word: str) -> None:
    """Its name stands in the ending's sentence."""
    assert program_word(program) == word


def test_a_question_to_mpirun_is_told_from_a_launch() -> None:
    """`mpirun --version` needs no hosts."""
    assert is_question(("mpirun", "--version"))
    assert not is_question(("mpirun", "./pi", "--version"))
    assert not is_question(("./pi", "--version"))
