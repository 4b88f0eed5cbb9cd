"""The user's own mpirun line, read without losing a byte."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.arguments import (
    LAUNCHERS,
    LAUNCHERS_WITHOUT_DIALECT,
    MpirunLine,
    read_mpirun_line,
)
from mpi_agent.command.program_kind import (
    ProgramKind,
    is_question,
    kind_of_program,
    moves_before_it_runs,
    program_word,
)
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.vocabulary import options_known_to

_OPTIONS = sorted(options_known_to(Family.OPEN_MPI) | options_known_to(Family.HYDRA))
_WORD = st.one_of(
    st.text(max_size=6),
    st.sampled_from([":", "--", "-", "-np", "2", "./pi", "A=1", "-genv", "--foo", "lib.so"]),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["-", "--", "---"]),
        st.sampled_from(_OPTIONS),
        st.sampled_from(["", "=", "=1", "=a=b"]),
    ),
)


def read(text: str, family: Family | None = None) -> MpirunLine:
    """Return a line that starts with its launcher."""
    return read_mpirun_line(tuple(shlex.split(text)), family)


@given(st.lists(_WORD, max_size=10), st.sampled_from([None, *Family]))
def test_no_token_is_lost_and_no_option_reaches_past_its_program(
    tokens: list[str], family: Family | None
) -> None:
    """Whatever stands there, what will run is what was written."""
    line = read_mpirun_line(("mpirun", *tokens), family)

    assert line.tokens == tuple(tokens)
    assert len(line.np_counts) == len(line.program_words)
    end = 0
    for option in line.options:
        assert end <= option.at < option.end <= line.program_words[option.application]
        assert line.tokens[option.at].startswith(option.spelling)
        end = option.end
    for option in line.options:
        if not option.is_implied:
            written = line.tokens[option.at + 1 : option.end]
            assert option.values[int(option.is_joined) :] == written


@pytest.mark.parametrize(
    ("text", "np", "topics", "program"),
    [
        ("mpirun -n 2 ./pi", "2", [Topic.NP], "./pi"),
        ("mpirun -np 4 --hostfile hf ./pi -np 9", "4", [Topic.NP, Topic.HOSTFILE], "./pi"),
        ("mpirun ./pi -n 3", None, [], "./pi"),
        ("mpirun -x A -x B=1 -c 3 ./pi", "3", [Topic.VARIABLE, Topic.VARIABLE, Topic.NP], "./pi"),
        ("mpirun --map-by=ppr:2:node ./pi", None, [Topic.MAP_BY], "./pi"),
        ("mpirun -bind-to none python t.py -x", None, [Topic.BIND_TO], "python"),
        ("mpirun --allow-run-as-root -np 2 -- -n 5", "2", [Topic.ROOT, Topic.NP], "-n"),
        ("mpirun -H a:2,b:2 -N 2 ./pi", None, [Topic.HOSTS, Topic.PER_HOST], "./pi"),
        ("mpirun --mca btl tcp,self ./pi", None, [Topic.PARAMETER], "./pi"),
        ("mpirun --mca=btl tcp,self ./pi", None, [Topic.PARAMETER], "./pi"),
        ("mpirun --append-env A[:] 1 ./pi", None, [None], "./pi"),
        ("mpirun -np", None, [Topic.NP], None),
        ("mpirun --", None, [], None),
    ],
)
def test_options_end_where_the_program_begins(
    text: str, np: str | None, topics: list[Topic | None], program: str | None
) -> None:
    """A program's own -np is none of our business."""
    line = read(text)

    assert line.np_counts == (np,)
    assert [option.topic for option in line.options] == topics
    assert line.program == program


@pytest.mark.parametrize(
    ("text", "topic", "values"),
    [
        ("mpiexec -genv A 1 -n 2 ./pi", Topic.VARIABLE, ("A", "1")),
        ("mpiexec -genv A=1 -n 2 ./pi", Topic.VARIABLE, ("A=1",)),
        ("mpiexec -genv=A 1 -n 2 ./pi", Topic.VARIABLE, ("A", "1")),
        ("mpiexec --env=A=1 -n 2 ./pi", Topic.VARIABLE, ("A=1",)),
        ("mpiexec -NP 2 ./pi", Topic.NP, ("2",)),
        ("mpiexec -s all -n 2 ./pi", Topic.STDIN, ("all",)),
        ("mpiexec -rr -n 2 ./pi", Topic.MAP_BY, ("node",)),
        ("mpiexec -trace libVT.so -n 2 ./pi", None, ("libVT.so",)),
        ("mpiexec -trace -n 2 ./pi", None, ()),
        ("mpiexec -l -n 2 ./pi", Topic.TAG_OUTPUT, ()),
        ("mpiexec -N 2 ./pi", Topic.PER_HOST, ("2",)),
    ],
)
def test_hydra_is_read_in_its_own_language(
    text: str, topic: Topic | None, values: tuple[str, ...]
) -> None:
    """A pair may be one word, a joined value may be half a pair, a library is a value."""
    line = read(text, Family.HYDRA)

    assert (line.options[0].topic, line.options[0].values) == (topic, values)
    assert line.program == "./pi"


def test_an_option_of_the_other_family_is_recognised_as_such() -> None:
    """It is translated or refused with its name, and never taken for the program."""
    line = read("mpirun -genv A 1 -np 2 ./pi", Family.OPEN_MPI)
    other = read("mpiexec -s -x A ./pi", Family.HYDRA)

    assert [option.family for option in line.options] == [Family.HYDRA, Family.OPEN_MPI]
    assert line.program == "./pi"
    assert other.options[0].values == ("-x",)


def test_the_launchers_name_tells_the_family_where_nobody_else_does() -> None:
    """`-s` has a value in Hydra and none in Open MPI."""
    assert read("mpiexec.hydra -s 1 ./pi").program == "./pi"
    assert read("mpirun.openmpi -s ./pi").program == "./pi"


def test_each_application_of_a_line_has_its_count() -> None:
    """`:` starts another application with options of its own, `a:2` does not."""
    line = read("mpirun -H a:2 -n 1 ./a : -n 3 -x A ./b : ./c")

    assert line.np_counts == ("1", "3", None)
    assert [option.application for option in line.options] == [0, 0, 1, 1]
    assert [line.tokens[at] for at in line.program_words] == ["./a", "./b", "./c"]
    assert [option.is_local for option in line.options_of(Topic.NP)] == [True, True]


def test_a_global_variable_is_told_from_one_of_an_application() -> None:
    """`-genv` counts behind the `:` as well, `-env` does not."""
    line = read("mpiexec -genv A 1 -env B 2 ./a : ./b", Family.HYDRA)

    assert [option.is_local for option in line.options] == [False, True]


@pytest.mark.parametrize("text", ["mpirun", "mpirun -n 2", "mpirun -n 2 --", "mpirun -n 2 : ./b"])
def test_a_line_without_a_program_is_seen(text: str) -> None:
    """`mpirun -n 2` alone cannot run."""
    assert read(text).program is None


def test_a_value_that_the_option_implies_is_no_token() -> None:
    """Who replaces the value of --bynode must not overwrite the word behind it."""
    option = read("mpirun --bynode ./pi").options[0]

    assert (option.values, option.is_implied, option.end) == (("node",), True, 1)


def test_a_parameter_is_found_whatever_sets_it() -> None:
    """--mca, -gmca and --prtemca all set one; a variable of the same name does not."""
    line = read("mpirun -x plm -gmca plm rsh --prtemca ras x ./pi")

    assert line.parameter("ras") is line.options[2]
    assert line.parameter("plm") is line.options[1]
    assert line.parameter("btl") is None
    assert line.values_of(Topic.VARIABLE) == ("plm",)
    assert line.has(Topic.NP, Topic.VARIABLE)


def test_an_unknown_option_in_front_of_the_program_leaves_a_doubt() -> None:
    """The word behind it may be its value."""
    assert read("mpirun --foo bar ./pi").doubts == (
        'option --foo is not known; "bar" behind it is taken for the program '
        "(write --foo=bar if it is its value)",
    )


@pytest.mark.parametrize(
    "text", ["mpirun --foo=bar ./pi", "mpirun --foo -n 1 ./pi", "mpirun --foo -- ./pi"]
)
def test_an_unknown_option_that_can_be_read_in_one_way_leaves_none(text: str) -> None:
    """Joined, in front of another option or of `--`, its values are clear."""
    assert read(text).doubts == ()
    assert read(text).program == "./pi"


def test_an_option_that_versions_understand_differently_leaves_a_doubt() -> None:
    """--display-topo takes a value in Open MPI 5 alone."""
    (doubt,) = read("mpirun --display-topo ./pi").doubts

    assert doubt.startswith("option --display-topo takes a value in Open MPI 5")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mpirun x", ProgramKind.MPIRUN_LINE),
        ("/usr/bin/mpiexec x", ProgramKind.MPIRUN_LINE),
        ("mpiexec.mpich x", ProgramKind.MPIRUN_LINE),
        ("mpirun_rsh -np 2 a b x", ProgramKind.MPIRUN_LINE),
        ("horovodrun x", ProgramKind.OTHER_LAUNCHER),
        ("python3 -u -m torch.distributed.run t.py", ProgramKind.OTHER_LAUNCHER),
        ("python -W error -mtorch.distributed.launch t.py", ProgramKind.OTHER_LAUNCHER),
        ("/opt/bin/python3.11 -m horovod.runner.launch", ProgramKind.OTHER_LAUNCHER),
        ("python t.py -m torch.distributed.run", ProgramKind.BARE),
        ("python -c 1 -m torch.distributed.run", ProgramKind.BARE),
        ("python -m pytest", ProgramKind.BARE),
        ("/bin/bash -c 'mpirun x'", ProgramKind.OTHER_LAUNCHER),
        ("bash -ec 'cd /x; /usr/bin/mpiexec.hydra x'", ProgramKind.OTHER_LAUNCHER),
        ("sh -c 'python -m torch.distributed.run t.py'", ProgramKind.OTHER_LAUNCHER),
        ("bash -o pipefail -c 'python train.py'", ProgramKind.BARE),
        ("bash -euo pipefail -c 'python train.py'", ProgramKind.BARE),
        ("bash +O extglob --rcfile /rc -c ./train", ProgramKind.BARE),
        ("bash --init-file /rc -c -e ./train", ProgramKind.BARE),
        ("bash -o pipefail -c 'mpirun x'", ProgramKind.OTHER_LAUNCHER),
        ("bash -o pipefail run.sh -c ./train", ProgramKind.OTHER_LAUNCHER),
        ("bash --norc run.sh", ProgramKind.OTHER_LAUNCHER),
        ("env A=1 mpirun x", ProgramKind.OTHER_LAUNCHER),
        ("bash run.sh", ProgramKind.OTHER_LAUNCHER),
        ("bash run.sh -c conf.yaml", ProgramKind.OTHER_LAUNCHER),
        ("sh -c 'echo $OMPI_COMM_WORLD_RANK'", ProgramKind.BARE),
        ("env A=1 ./train", ProgramKind.BARE),
        ("./train x", ProgramKind.BARE),
        ("python3 train.py", ProgramKind.BARE),
    ],
)
def test_the_program_is_judged_by_its_first_word(text: str, kind: ProgramKind) -> None:
    """A bare program gets an mpirun, a launcher of its own gets variables."""
    assert kind_of_program(tuple(shlex.split(text))) is kind


def test_a_launcher_without_a_dialect_is_a_launcher_all_the_same() -> None:
    """Its name can be told to the user, instead of starting it under another mpirun."""
    assert LAUNCHERS_WITHOUT_DIALECT <= LAUNCHERS


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("mpirun -n 2 ./pi -x", "./pi"),
        ("./pi -n", "./pi"),
        ("mpirun -n 2 ./a : ./b", "./a"),
        ("mpirun -n 2", "mpirun"),
    ],
)
def test_the_program_is_what_the_ranks_run(text: str, word: str) -> None:
    """Its name stands in the ending's sentence."""
    assert program_word(tuple(shlex.split(text))) == word


@pytest.mark.parametrize(
    "text",
    [
        "mpirun --version",
        "mpirun -V",
        "mpirun --help bind-to",
        "mpirun -np 2 --version",
        "mpiexec -info",
        "mpiexec -help",
        "mpiexec.hydra -bootstrap -help",
    ],
)
def test_a_question_to_mpirun_is_told_from_a_launch(text: str) -> None:
    """`mpirun --version` needs no hosts."""
    assert is_question(tuple(shlex.split(text)))


@pytest.mark.parametrize("text", ["mpirun ./pi --version", "./pi --version", "mpirun -n 2 ./pi -h"])
def test_a_question_to_the_program_is_a_launch(text: str) -> None:
    """What stands behind the program belongs to it."""
    assert not is_question(tuple(shlex.split(text)))


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("mpirun -wdir /x ./pi", True),
        ("mpirun --path /x pi", True),
        ("mpiexec -gwdir /x ./pi", True),
        ("mpirun --set-cwd-to-session-dir ./pi", True),
        ("mpirun -n 1 ./pi -wdir /x", False),
        ("./pi -wdir /x", False),
    ],
)
def test_a_line_that_changes_the_directory_is_seen(text: str, moves: bool) -> None:
    """The program can then not be looked for from here."""
    assert moves_before_it_runs(tuple(shlex.split(text))) is moves


def test_a_line_is_judged_in_the_language_of_the_installed_launcher() -> None:
    """`-s` has a value for Hydra, and none for Open MPI."""
    program = tuple(shlex.split("mpiexec -s all -wdir /x ./pi"))

    assert program_word(program, Family.HYDRA) == "./pi"
    assert moves_before_it_runs(program, Family.HYDRA)
    assert program_word(program, Family.OPEN_MPI) == "all"
    assert is_question(("mpiexec", "-s", "all", "-version"), Family.HYDRA)


def test_a_doubt_has_no_value_of_a_secret() -> None:
    """The word behind an unknown option is shown."""
    (doubt,) = read("mpirun -unknown API_TOKEN=s3cret ./pi").doubts

    assert "API_TOKEN=..." in doubt
    assert "s3cret" not in doubt
