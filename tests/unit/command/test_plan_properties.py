"""What holds for every line and every value."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.environment import rank_environment
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    STACKS,
    a_host_list,
    a_launch_request,
)

every_stack = pytest.mark.parametrize("stack", STACKS)
_VALUES = st.text(min_size=1, max_size=12)
_MARKED = st.binary(min_size=1, max_size=20).map(
    lambda value: f"§{os.fsdecode(value.replace(bytes(1), b'0'))}§"
)
"""Values of variables as `os.environ` has them: any bytes but NUL. No word has one by chance."""
_PROGRAM_WORDS = st.lists(st.text(max_size=12).filter(lambda word: word != ":"), max_size=5)
_OPEN_MPIS_OPTIONS = (
    ("-x", "HF_HOME"),
    ("--x", "NCCL_DEBUG"),
    ("--bind-to", "core"),
    ("--map-by", "node"),
    ("--rank-by", "slot"),
    ("--oversubscribe",),
    ("-tag-output",),
    ("--report-bindings",),
    ("--allow-run-as-root",),
    ("-gmca", "btl", "^tcp"),
    ("--stdin", "all"),
    ("--timeout", "30"),
    ("--nobody-knows=3",),
)
_HYDRAS_OPTIONS = (
    ("-bind-to", "core"),
    ("--bind-to", "hwthread"),
    ("-genv", "A=1"),
    ("-genv", "A", "1"),
    ("-env", "B", "-n"),
    ("-envlist", "HF_HOME,NCCL_DEBUG"),
    ("-wdir", "/work dir"),
    ("-l",),
    ("-print-all-exitcodes",),
    ("-iface", "eth0"),
    ("-ppn", "2"),
    ("-usize", "4"),
    ("--nobody-knows=3",),
)


def lines(options: Sequence[tuple[str, ...]]) -> st.SearchStrategy[list[str]]:
    """Return lines that need no change: some of the options, free values among them, a program."""
    free = st.one_of(
        st.builds(lambda value: ("-wdir", value), _VALUES),
        st.builds(
            lambda value: ("--path" if options is _OPEN_MPIS_OPTIONS else "-s", value), _VALUES
        ),
    )
    chosen = st.lists(
        st.one_of(st.sampled_from(options), free), max_size=6, unique_by=lambda o: o[0]
    )
    return st.builds(
        lambda some, words: ["-n", "4", *(w for option in some for w in option), "./pi", *words],
        chosen,
        _PROGRAM_WORDS,
    )


def plan_of(words: list[str], stack: MpiStack) -> LaunchPlan:
    """Return the plan for a line on two hosts of two slots."""
    environ = {"HF_HOME": "/hf", "NCCL_DEBUG": "INFO"}
    request = a_launch_request("mpirun", *words, environ=environ, runs_as_root=True)
    return build_plan(request, a_host_list(slots=2), stack)


@every_stack
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_line_that_needs_no_change_stands_unchanged_at_the_end(
    stack: str, data: st.DataObject
) -> None:
    """Parsing and rendering is the identity there: ours stands in front, and nothing within."""
    is_open_mpi = stack.startswith("openmpi")
    words = data.draw(lines(_OPEN_MPIS_OPTIONS if is_open_mpi else _HYDRAS_OPTIONS))

    argv = plan_of(words, STACKS[stack]).argv

    assert argv[-len(words) :] == tuple(words)


@every_stack
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_nothing_is_said_twice(stack: str, data: st.DataObject) -> None:
    """What the user says, under any of its names, the agent leaves alone."""
    is_open_mpi = stack.startswith("openmpi")
    words = data.draw(lines(_OPEN_MPIS_OPTIONS if is_open_mpi else _HYDRAS_OPTIONS))

    added = plan_of(words, STACKS[stack]).argv[1 : -len(words)]

    own = {word.lstrip("-") for word in words[: words.index("./pi")] if word.startswith("-")}
    ours = {word.lstrip("-") for word in added if word.startswith("-")}
    assert ours & own <= {"x", "mca", "gmca"}
    assert not {"n", "np", "c"} & ours


@every_stack
@settings(max_examples=20, deadline=None)
@given(value=_MARKED)
def test_no_value_of_any_variable_stands_in_argv(stack: str, value: str) -> None:
    """Every process of the machine can read an argv, and so can `kubectl describe`."""
    environ = {"NCCL_NET": value, "HF_HOME": value, "WANDB_API_KEY": value, "ASKED": value}
    environment = rank_environment(environ, wanted=("ASKED", f"GIVEN={value}"), prefixes=("W",))
    request = replace(
        a_launch_request("./pi", environ=environ, runs_as_root=True), environment=environment
    )

    plan = build_plan(request, a_host_list(), STACKS[stack])

    assert not [word for word in plan.argv if value in word]
    assert {"NCCL_NET", "ASKED", "GIVEN"} <= set(",".join(plan.argv).split(","))
    assert plan.environment(environ)["GIVEN"] == value


@every_stack
@pytest.mark.parametrize("option", ["-x {}={}", "-genv {} {}", "-genv {}={}", "-env {} {}"])
@settings(max_examples=8, deadline=None)
@given(value=_MARKED)
def test_no_secret_of_the_users_line_stands_in_argv(stack: str, option: str, value: str) -> None:
    """Whoever's option it is; it reaches the ranks by its name."""
    name, _, _ = option.partition(" ")
    pair = [f"HF_TOKEN={value}"] if "=" in option else ["HF_TOKEN", value]
    request = a_launch_request("mpirun", name, *pair, "./pi")

    plan = build_plan(request, a_host_list(), STACKS[stack])

    assert not [text for text in (*plan.argv, *plan.notes) if value in text]
    assert plan.environment({})["HF_TOKEN"] == value
    assert "HF_TOKEN" in ",".join(plan.argv)


@every_stack
@settings(max_examples=8, deadline=None)
@given(value=_MARKED)
def test_no_value_is_shown(stack: str, value: str) -> None:
    """A value on the user's own line stays there, and is left out of logs."""
    own = ["-x", f"A={value}"] if stack.startswith("openmpi") else ["-genv", "A", value]
    request = a_launch_request("mpirun", *own, "./pi")

    plan = build_plan(request, a_host_list(), STACKS[stack])

    assert value in shlex.join(plan.argv) or any(value in word for word in plan.argv)
    assert not [word for word in (*plan.shown_argv, *plan.notes) if value in word]
