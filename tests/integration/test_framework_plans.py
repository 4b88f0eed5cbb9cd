"""PyTorch DDP, nccl-tests and Horovod as plans: what `mpi-agent plan` makes of each example.

Under every MPI, with the operator's hostfile and variables around the launcher. No GPU is needed:
nothing is dialled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mpi_jobs import Implementation
from tests.e2e.operator_texts import launcher_variables
from tests.farm_launch import ALL_STACKS
from tests.framework_examples import FRAMEWORKS, FrameworkExample, framework_example
from tests.stacks import STACK_NAMES, MpiStack, require_stack
from tests.workers import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.integration

MPIRUN_FORMS = {
    "pytorch-ddp": ("python3", "/opt/user/ddp.py"),
    "nccl-tests": ("all_reduce_perf", *"-b 8 -e 4G -f 2 -g 1".split()),
    "horovod": ("python3", "/opt/user/train.py"),
}
"""The program of each example that mpirun starts; of Horovod the form that its header names."""
OPEN_MPIS = [name for name in STACK_NAMES if name.startswith("openmpi")]
EACH = pytest.mark.parametrize("example_name", FRAMEWORKS)
KUBERNETES = {
    "HOSTNAME": "job-launcher",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "CUDA_VISIBLE_DEVICES": "",
}
OF_THE_POD = {
    *KUBERNETES,
    *("K_MPI_JOB_ROLE", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
}
"""What Kubernetes and the operator set on a launcher, and no rank may get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the plan says, as far as these tests ask."""

    argv: tuple[str, ...]
    np: int
    hostfile: str
    variables: Mapping[str, str | None]
    removed: frozenset[str]
    travels: Mapping[str, bool]
    notes: tuple[str, ...]

    @property
    def to_the_ranks(self) -> set[str]:
        """Names that stand on the command line to be handed over: -x of Open MPI, -genvlist."""
        words = dict(zip(self.argv, self.argv[1:], strict=False))
        if "-genvlist" in words:
            return set(words["-genvlist"].split(","))
        return {n for word, n in zip(self.argv, self.argv[1:], strict=False) if word == "-x"}


def implementation_of(mpi: MpiStack) -> Implementation:
    """Return what a manifest for it says."""
    if not mpi.is_hydra:
        return Implementation.OPEN_MPI
    return Implementation.MPICH if mpi.name.startswith("mpich") else Implementation.INTEL


def run_plan(
    directory: Path, example: FrameworkExample, mpi: MpiStack, *words: str, **more: str
) -> str:
    """Return what `mpi-agent plan` prints on the launcher of an example."""
    hostfile, implementation = directory / "hostfile", implementation_of(mpi)
    hostfile.write_text(example.hostfile(implementation))
    own = {"PATH": os.environ["PATH"], "HOME": "/home/mpiuser", "PYTHONPATH": str(REPOSITORY)}
    ended = subprocess.run(
        [sys.executable, "-m", "mpi_agent", "plan", *words],
        env={
            **own,
            **KUBERNETES,
            **example.environ,
            **dict(launcher_variables(example.job_for(implementation))),
            "MPI_AGENT_HOSTFILE": str(hostfile),
            "MPI_AGENT_MPI": str(mpi.mpirun),
            "MPI_AGENT_STATE_DIR": str(directory / "state"),
            **more,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def plan_of(
    directory: Path,
    example: FrameworkExample,
    mpi: MpiStack,
    program: tuple[str, ...],
    **more: str,
) -> Planned:
    """Return the plan for a program on the launcher of an example."""
    text = run_plan(directory, example, mpi, "--output", "json", "--", *program, **more)
    told: dict[str, Any] = json.loads(text)
    return Planned(
        argv=tuple(told["argv"]),
        np=told["np"],
        hostfile=told["hostfile"]["text"],
        variables={row["name"]: row["value"] for row in told["variables"]},
        removed=frozenset(row["name"] for row in told["removed_variables"]),
        travels={row["name"]: row["travels"] for row in told["environment"]},
        notes=tuple(told["notes"]),
    )


def has_words(argv: tuple[str, ...], *words: str) -> bool:
    """Return whether words stand in a line one behind the other."""
    starts = range(len(argv) - len(words) + 1)
    return any(argv[at : at + len(words)] == words for at in starts)


def test_the_mpirun_forms_are_those_of_the_manifests() -> None:
    """Word for word; Horovod's stands in its header."""
    for name in ("pytorch-ddp", "nccl-tests"):
        assert framework_example(name).program == MPIRUN_FORMS[name]
    horovod = framework_example("horovod")
    assert f"args: [{', '.join(MPIRUN_FORMS['horovod'])}]" in horovod.header
    assert horovod.program[0] == "horovodrun"
    assert {framework_example(name).command for name in FRAMEWORKS} == {
        ("mpi-agent", "launch", "--")
    }


@ALL_STACKS
@EACH
def test_there_is_a_rank_for_each_gpu_on_every_host(
    tmp_path: Path, example_name: str, name: str
) -> None:
    """Host by host and unbound, whatever the MPI would do by itself."""
    example, mpi = framework_example(example_name), require_stack(name)

    plan = plan_of(tmp_path, example, mpi, MPIRUN_FORMS[example_name])

    ranks = example.job.workers * example.gpus
    assert plan.np == ranks
    assert plan.argv[-len(MPIRUN_FORMS[example_name]) :] == MPIRUN_FORMS[example_name]
    assert plan.hostfile == example.hostfile(implementation_of(mpi))
    assert has_words(plan.argv, "-n" if mpi.is_hydra else "-np", str(ranks))
    assert any("hostfile" in word or word == "-f" for word in plan.argv)
    if mpi.name.startswith("openmpi"):
        assert has_words(plan.argv, "--map-by", "slot")
        assert has_words(plan.argv, "--bind-to", "none")


@ALL_STACKS
@EACH
def test_the_variables_of_the_job_travel_and_those_of_the_pod_do_not(
    tmp_path: Path, example_name: str, name: str
) -> None:
    """By name alone; the program is told where its ranks meet and how many they are."""
    example, mpi = framework_example(example_name), require_stack(name)
    more = {"HOROVOD_CYCLE_TIME": "1", "TORCH_NCCL_BLOCKING_WAIT": "1", "NCCL_IB_HCA": "mlx5_0"}

    plan = plan_of(tmp_path, example, mpi, MPIRUN_FORMS[example_name], **more)

    meeting = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"}
    assert example.environ.keys() | more.keys() | meeting <= plan.to_the_ranks
    assert not OF_THE_POD & plan.to_the_ranks
    assert [n for n in OF_THE_POD if plan.travels[n]] == []
    first = example.hosts[0]
    told = {name: plan.variables[name] for name in meeting}
    assert told == {"MASTER_ADDR": first, "MASTER_PORT": "29500", "WORLD_SIZE": str(plan.np)}


@ALL_STACKS
def test_a_users_own_meeting_point_is_kept(tmp_path: Path, name: str) -> None:
    """Also an interface that he names: it then counts for all hosts."""
    example = framework_example("pytorch-ddp")
    own = {"MASTER_PORT": "23456", "NCCL_SOCKET_IFNAME": "net1", "GLOO_SOCKET_IFNAME": "net1"}

    plan = plan_of(tmp_path, example, require_stack(name), example.program, **own)

    assert not own.keys() & plan.variables.keys()
    assert own.keys() <= plan.to_the_ranks


@ALL_STACKS
def test_interfaces_are_left_to_the_workers(tmp_path: Path, name: str) -> None:
    """The launcher's own name of a network card may be another one than theirs."""
    example = framework_example("nccl-tests")

    plan = plan_of(tmp_path, example, require_stack(name), example.program)

    left = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "UCX_NET_DEVICES"}
    assert not left & (plan.to_the_ranks | plan.variables.keys())


@pytest.mark.parametrize("name", OPEN_MPIS)
def test_a_line_of_the_old_operators_examples_is_brought_up_to_date(
    tmp_path: Path, name: str
) -> None:
    """The words that Horovod and nccl-tests manifests carry; other MPIs have their own."""
    example, mpi = framework_example("nccl-tests"), require_stack(name)
    line = "mpirun --allow-run-as-root -np 16 -bind-to none -map-by slot -x NCCL_DEBUG"
    words = (*line.split(), *"-x LD_LIBRARY_PATH -mca pml ob1 -mca btl ^openib".split())

    plan = plan_of(tmp_path, example, mpi, (*words, *example.program))

    dashes = "-" if name == "openmpi4" else "--"
    assert plan.np == 16
    assert has_words(plan.argv, f"{dashes}bind-to", "none")
    assert has_words(plan.argv, f"{dashes}map-by", "slot")
    assert plan.argv.count("NCCL_DEBUG") == 1
    assert "LD_LIBRARY_PATH" not in plan.argv  # it is not set, and mpirun would warn


@ALL_STACKS
def test_horovodrun_is_told_what_its_line_leaves_open(tmp_path: Path, name: str) -> None:
    """Hosts with slots in its own form, key and port; and finds nothing of this pod."""
    example, mpi = framework_example("horovod"), require_stack(name)
    key = tmp_path / "key"
    more = {"MPI_AGENT_SSH_PORT": "2222", "MPI_AGENT_SSH_KEY": str(key)}

    plan = plan_of(tmp_path, example, mpi, example.program, **more)

    state = tmp_path / "state"
    assert plan.argv[:9] == (
        *("horovodrun", "-np", "4", "--hostfile", str(state / "hostfile")),
        *("-p", "2222", "-i", str(state / "job_key")),
    )
    assert plan.argv[-3:] == ("--gloo", "python3", "/opt/user/train.py")
    assert plan.hostfile == example.hostfile(Implementation.OPEN_MPI)
    assert plan.removed >= OF_THE_POD
    assert not example.environ.keys() & plan.removed
    assert (plan.variables["PATH"] or "").startswith(f"{state}/bin:")
    assert (plan.np, plan.variables["WORLD_SIZE"]) == (4, "4")


@ALL_STACKS
@EACH
def test_the_table_says_what_becomes_of_each_variable(
    tmp_path: Path, example_name: str, name: str
) -> None:
    """As `mpi-agent plan --environment` prints it for people, without a value."""
    example, mpi = framework_example(example_name), require_stack(name)

    text = run_plan(tmp_path, example, mpi, "--environment", "--", *MPIRUN_FORMS[example_name])

    rows = {line.split()[0]: line for line in text.splitlines()}
    for variable in (*example.environ, "MASTER_ADDR", "WORLD_SIZE"):
        assert "to the ranks" in rows[variable], rows[variable]
    for variable in OF_THE_POD:
        assert "stays" in rows[variable], rows[variable]
    assert "10.96.0.1" not in text
