"""What is shown of a plan, and what never is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from mpi_agent.command.plan import Choice, LaunchPlan, PlannedVariable, RemovedVariable
from mpi_agent.command.script import render_script
from mpi_agent.command.show import plan_values, render_environment, render_plan
from mpi_agent.environment import Passage
from mpi_agent.observe.json_text import render_json

SECRET = "s3cret"
PLAN = LaunchPlan(
    executable="/opt/ompi/bin/mpirun",
    argv=(
        *("mpirun", "--hostfile", "/run/mpi-agent/hostfile", "-x", f"LR={SECRET}"),
        *("-genv", "MODE", SECRET, "env", f"MY_TOKEN={SECRET}", f"A={SECRET}", "./train", "it's"),
    ),
    variables=(
        PlannedVariable(name="MASTER_PORT", value="29500", reason="where ranks meet"),
        PlannedVariable(name="LAB", value=SECRET, reason="given", said_by="--env", is_secret=True),
        PlannedVariable(name="APP_KEY", value=SECRET, reason="ours"),
        PlannedVariable(name="MODE", value=SECRET, reason="moved", said_by="the command line"),
    ),
    removed_variables=(RemovedVariable(name="SLURM_JOBID", reason="a resource manager's"),),
    hostfile_path="/run/mpi-agent/hostfile",
    hostfile_text="a slots=2\nb slots=2\n",
    np=4,
    choices=(
        Choice(words=("--hostfile", "/run/mpi-agent/hostfile"), reason="from --hosts"),
        Choice(words=("-x", "NCCL_DEBUG"), reason="prefix NCCL_"),
    ),
    kept=(
        Choice(words=("-x", f"LR={SECRET}"), reason="a variable", said_by="the command line"),
        Choice(words=(f"MY_TOKEN={SECRET}",), reason="odd", said_by="the command line"),
    ),
    notes=("read me",),
    passages=(
        Passage(name="NCCL_DEBUG", travels=True, reason="prefix NCCL_"),
        Passage(name="SLURM_JOBID", travels=False, reason="of a resource manager"),
        Passage(name="WANDB_API_KEY", travels=True, reason="asked for with --env"),
    ),
    daemon="/opt/ompi/bin/prted",
)


def as_json(plan: LaunchPlan) -> str:
    """Return a plan as `plan --output json` prints it."""
    return render_json(plan_values(plan))


def test_text_gives_a_reason_and_a_speaker_for_every_choice() -> None:
    """In sections, in the order of the question: what, why, what else."""
    text = render_plan(PLAN)

    assert [line.rstrip(":") for line in text.splitlines() if not line.startswith(" ")] == [
        "hostfile /run/mpi-agent/hostfile",
        "executable",
        "argv",
        "added to argv",
        "kept as the user said",
        "variables",
        "removed variables",
        "notes",
    ]
    assert "  -x NCCL_DEBUG  # prefix NCCL_\n" in text
    assert "  -x LR=...  # a variable; said by the command line\n" in text
    assert "  MASTER_PORT=29500  # where ranks meet\n" in text
    assert "  LAB=...  # given; said by --env\n" in text
    assert "  SLURM_JOBID  # a resource manager's\n" in text


@pytest.mark.parametrize("render", [render_plan, render_environment, as_json])
def test_no_value_that_the_user_gave_is_shown(render: Callable[[LaunchPlan], str]) -> None:
    """In argv, in what was kept, in variables; by name, by origin or because the plan says so."""
    assert SECRET not in render(PLAN)


def test_json_tells_everything() -> None:
    """Also what travels, with stable keys."""
    values = json.loads(as_json(PLAN))

    assert set(values) == set(
        "executable argv np daemon hostfile added kept variables removed_variables environment"
        " notes".split()
    )
    assert values["argv"][3:8] == ["-x", "LR=...", "-genv", "MODE", "..."]
    assert values["hostfile"]["text"] == PLAN.hostfile_text
    assert values["kept"][0]["said_by"] == "the command line"
    assert values["variables"][1] == {
        "name": "LAB",
        "value": None,
        "secret": True,
        "reason": "given",
        "said_by": "--env",
    }
    assert values["variables"][0]["value"] == "29500"
    assert values["environment"][2] == {
        "name": "WANDB_API_KEY",
        "travels": True,
        "secret": True,
        "reason": "asked for with --env",
    }


def test_the_table_has_every_variable_once_with_its_fate() -> None:
    """What is removed is told as that, and what the agent sets stands there too."""
    rows = [re.split(r"  +", line) for line in render_environment(PLAN).splitlines()]
    fates = {name: (fate, reason) for name, fate, reason in rows}

    assert [name for name, _, _ in rows] == sorted(fates)
    assert fates["NCCL_DEBUG"] == ("to the ranks", "prefix NCCL_")
    assert fates["SLURM_JOBID"] == ("removed", "a resource manager's")
    assert fates["MASTER_PORT"] == ("set for mpirun", "where ranks meet")


def test_what_would_control_a_terminal_is_escaped() -> None:
    """Line breaks and colours in a value, and bytes that are no UTF-8."""
    variable = PlannedVariable(name="A", value="a\n\x1b[31m\udcff", reason="x")
    plan = LaunchPlan(**{**{f: getattr(PLAN, f) for f in PLAN.__slots__}, "variables": (variable,)})

    assert "A='a\\n\\x1b[31m\\udcff'" in render_plan(plan)


def test_the_script_holds_no_secret_and_asks_for_each_by_name() -> None:
    """What the plan hides, and what is a secret by its name."""
    script = render_script(PLAN)

    assert ': "${LAB:?set LAB first}"\nexport LAB\n' in script
    assert ': "${APP_KEY:?set APP_KEY first}"\n' in script
    assert 'env MY_TOKEN="${MY_TOKEN:?set MY_TOKEN first}" A=s3cret ./train' in script
    assert f"MY_TOKEN={SECRET}" not in script
    assert "unset SLURM_JOBID\n" in script
    assert "# Goes to the ranks as it is set here: NCCL_DEBUG WANDB_API_KEY\n" in script


def test_logs_show_no_more_of_a_command_than_a_printed_plan_does() -> None:
    """One rule hides values, wherever a command is shown."""
    assert SECRET not in " ".join(PLAN.shown_argv)
    assert json.loads(as_json(PLAN))["argv"] == list(PLAN.shown_argv)


def test_a_secret_amid_a_word_of_the_script_is_a_reference() -> None:
    """The rest of the word stays as it was."""
    argv = (
        *("mpirun", "--mca", "plm_rsh_args", f"-o SetEnv=API_TOKEN={SECRET} -v", ""),
        *("-x", f"ARGS=API_TOKEN={SECRET} -q"),
    )

    script = render_script(replace(PLAN, argv=argv))

    reference = '"${API_TOKEN:?set API_TOKEN first}"'
    assert f"plm_rsh_args '-o SetEnv=API_TOKEN='{reference}' -v' '' -x" in script
    assert f"-x ARGS=API_TOKEN={reference}' -q'\n" in script


def test_the_script_starts_mpirun_with_a_variable_last_that_nobody_needs() -> None:
    """MPICH's -genvlist loses the last one, and a shell hands them on in its own order."""
    shim = PlannedVariable(name="MPI_AGENT_SHIM", value="off", reason="the real one")

    script = render_script(replace(PLAN, variables=(*PLAN.variables, shim)))

    assert "\nexec env -u MPI_AGENT_SHIM MPI_AGENT_SHIM=off mpirun " in script
    assert "export MPI_AGENT_SHIM" not in script
    assert "\nexec mpirun " in render_script(PLAN)
