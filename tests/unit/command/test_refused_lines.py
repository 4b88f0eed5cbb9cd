"""Lines that mpirun would misunderstand are refused in one sentence, without anybody's secret."""

from __future__ import annotations

import shlex

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.errors import SettingsError
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    OPEN_MPI_5_STACK,
    STACKS,
    a_host_list,
    a_launch_request,
)

every_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def plan_of(line: str, stack: MpiStack = OPEN_MPI_5_STACK) -> LaunchPlan:
    """Return the plan on two hosts of two slots."""
    return build_plan(a_launch_request(*shlex.split(line)), a_host_list(slots=2), stack)


@every_stack
@pytest.mark.parametrize("line", ["./pi : 3", "./pi :", "python train.py a : b"])
def test_a_lone_colon_is_no_argument_of_a_bare_program(line: str, stack: MpiStack) -> None:
    """Mpirun would start what stands behind it as a second application."""
    with pytest.raises(SettingsError, match='cannot give ":" to a program') as caught:
        plan_of(line, stack)

    assert "script" in str(caught.value.hint)


def test_a_colon_amid_a_word_is_an_argument_like_any_other() -> None:
    """Only the word that is nothing else separates applications."""
    assert plan_of("./pi a:b :c").argv[-2:] == ("a:b", ":c")


def test_a_colon_on_an_mpirun_line_starts_another_application() -> None:
    """There the user means it."""
    assert ":" in plan_of("mpirun -n 2 ./a : -n 2 ./b").argv


def test_a_colon_of_a_launcher_that_is_not_mpirun_is_its_own() -> None:
    """Nothing is put in front of it."""
    assert plan_of("bash run.sh :").argv == ("bash", "run.sh", ":")


@pytest.mark.parametrize(
    ("line", "option", "taken"),
    [
        ("mpirun --tune ./pi", "--tune", "./pi"),
        ("mpirun -np 2 --map-by ./pi", "--map-by", "./pi"),
        ("mpirun --mca pml ./pi", "--mca", "./pi"),
        ("mpiexec -wdir ./pi", "-wdir", "./pi"),
    ],
)
def test_an_option_that_takes_the_program_as_its_value_is_named(
    line: str, option: str, taken: str
) -> None:
    """People forget the value, and the program is gone."""
    with pytest.raises(SettingsError, match="without a program") as caught:
        plan_of(line)

    assert f'{option} takes "{taken}" as its value' in caught.value.summary
    assert option in str(caught.value.hint)


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -x API_TOKEN=s3cret",
        "mpiexec -genv API_TOKEN s3cret",
        "mpiexec -genv API_TOKEN=s3cret",
        "mpirun --mca mca_base_env_list API_TOKEN=s3cret",
    ],
)
def test_no_secret_stands_in_the_error_of_a_line_without_a_program(line: str) -> None:
    """It is the value that is taken for the program, and goes to the log."""
    with pytest.raises(SettingsError, match="without a program") as caught:
        plan_of(line)

    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_the_end_of_a_line_without_a_program_is_not_blamed_on_a_switch() -> None:
    """It takes no value, so nothing was lost to it."""
    with pytest.raises(SettingsError, match="without a program: mpirun -np 2 --tag-output"):
        plan_of("mpirun -np 2 --tag-output")
