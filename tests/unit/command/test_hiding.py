"""Which values of a command line are shown to nobody."""

from __future__ import annotations

import shlex

import pytest

from mpi_agent.command.hiding import held_values, shown_words


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("mpirun -x LR=v ./a", "mpirun -x LR=... ./a"),
        ("mpirun --x LR=v=w ./a", "mpirun --x LR=... ./a"),
        ("mpirun -x=LR=v ./a", "mpirun -x=LR=... ./a"),
        ("mpirun --set-env LR=v ./a", "mpirun --set-env LR=... ./a"),
        ("mpirun --append-env LR v ./a", "mpirun --append-env LR ... ./a"),
        ("mpirun --prepend-env LR v ./a", "mpirun --prepend-env LR ... ./a"),
        ("mpiexec -genv LR v ./a", "mpiexec -genv LR ... ./a"),
        ("mpiexec -GENV LR v ./a", "mpiexec -GENV LR ... ./a"),
        ("mpiexec -genv LR=v ./a", "mpiexec -genv LR=... ./a"),
        ("mpiexec -genv=LR v ./a", "mpiexec -genv=LR ... ./a"),
        ("mpiexec -env LR=v ./a : --env LR v ./b", "mpiexec -env LR=... ./a : --env LR ... ./b"),
        ("mpirun env A=v B=w ./a C=d", "mpirun env A=... B=... ./a C=d"),
        ("/usr/bin/env -i -u X A=v ./a", "/usr/bin/env -i -u X A=... ./a"),
        ("./a API_TOKEN=v", "./a API_TOKEN=..."),
        ("bash -c 'export API_TOKEN=v; ./a'", "bash -c 'export API_TOKEN=...; ./a'"),
        ("""sh -c "API_TOKEN='v w' ./a" """, """sh -c "API_TOKEN='...' ./a" """),
        (
            "--mca plm_rsh_args '-o SetEnv=API_TOKEN=v'",
            "--mca plm_rsh_args '-o SetEnv=API_TOKEN=...'",
        ),
        (
            "--mca mca_base_env_list 'API_TOKEN=v;B=1'",
            "--mca mca_base_env_list 'API_TOKEN=...;B=1'",
        ),
    ],
)
def test_the_value_of_a_variable_is_not_shown(line: str, shown: str) -> None:
    """Behind an option that sets one, behind env, and where the name tells of a secret."""
    assert shlex.join(shown_words(tuple(shlex.split(line)))) == shlex.join(shlex.split(shown))


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -x LR -x",
        "mpirun -n 2 ./a lr=0.1 --lr=0.1 -genv",
        "mpiexec -genv LR",
        "mpirun --mca btl self env",
        "bash -c 'export API_TOKEN=$OTHER; ./a'",
        "",
    ],
)
def test_everything_else_is_shown(line: str) -> None:
    """Names, values of the program, and what only refers to a variable."""
    words = tuple(shlex.split(line))

    assert shown_words(words) == words


def test_a_value_is_told_by_its_name_and_place() -> None:
    """So that a script can refer to it."""
    (held,) = held_values(("-x=A=b",))[0]

    assert (held.name, held.start, held.end) == ("A", 5, 6)
