"""Which variables are named on the line, which are not, and what is said of those."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, Surroundings
from mpi_agent.environment import rank_environment
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    STACKS,
    a_host,
    a_host_list,
    a_launch_request,
)

every_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
OWN_LIST = "OMPI_MCA_mca_base_env_list"


def plan_of(
    stack: MpiStack,
    environ: Mapping[str, str],
    *,
    line: str = "./pi",
    wanted: tuple[str, ...] = (),
) -> LaunchPlan:
    """Return the plan on two hosts, with variables asked for as --env does."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    asked = rank_environment(environ, wanted=wanted)
    return build_plan(replace(request, environment=asked), a_host_list(), stack)


def passed_names(plan: LaunchPlan) -> set[str]:
    """Return every name that the line passes, by -x or in a list."""
    lists = [word.split(",") for word in plan.argv]
    return {name for names in lists for name in names}


@pytest.mark.parametrize(
    ("line", "environ"),
    [
        ("./pi", {OWN_LIST: "A=1"}),
        ("mpirun --mca mca_base_env_list A=1 ./pi", {}),
    ],
    ids=["variable", "line"],
)
def test_a_list_of_the_users_own_means_no_name_of_ours_for_open_mpi_4(
    line: str, environ: dict[str, str]
) -> None:
    """It aborts where -x stands beside the list, which is said."""
    plan = plan_of(OPEN_MPI_4_STACK, environ, line=line)

    assert "-x" not in plan.argv
    assert "mca_base_env_list is given, so no variable is added with -x" in plan.notes


def test_a_list_of_the_users_own_stands_beside_our_names_for_open_mpi_5() -> None:
    """It takes both."""
    plan = plan_of(OPEN_MPI_5_STACK, {OWN_LIST: "A=1", "NCCL_DEBUG": "INFO"})

    assert plan.argv[plan.argv.index("NCCL_DEBUG") - 1] == "-x"
    assert "mca_base_env_list" not in " ".join(plan.notes)


@every_stack
def test_a_removed_variable_that_was_asked_for_is_told(stack: MpiStack) -> None:
    """The launcher is started without it, so there is nothing to pass."""
    plan = plan_of(stack, {"I_MPI_PERHOST": "2"}, wanted=("I_MPI_PERHOST",))

    assert "I_MPI_PERHOST" in {variable.name for variable in plan.removed_variables}
    assert "I_MPI_PERHOST" not in passed_names(plan)
    assert any(note.startswith("I_MPI_PERHOST does not travel: ") for note in plan.notes)


@every_stack
def test_a_removed_variable_that_nobody_asked_for_is_not_worth_a_note(stack: MpiStack) -> None:
    """Every launcher in such a cluster has dozens of them."""
    assert "SLURM_JOB_ID" not in " ".join(plan_of(stack, {"SLURM_JOB_ID": "7"}).notes)


INTERFACE_NAMES = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "UCX_NET_DEVICES"}


def plan_with_ranks_here(
    stack: MpiStack, environ: Mapping[str, str] | None = None, *, remote: int = 1
) -> LaunchPlan:
    """Return the plan of a job whose first host is the launcher itself."""
    workers = (a_host(index + 1) for index in range(remote))
    hosts = HostList(hosts=(a_host(0, is_local=True), *workers), source="/etc/mpi/hostfile")
    here = Surroundings(launcher_interface="eth0")
    request = a_launch_request("./pi", environ=environ)
    return build_plan(replace(request, surroundings=here), hosts, stack)


def interfaces_of(plan: LaunchPlan) -> dict[str, str]:
    """Return what the plan's variables say of interfaces."""
    return {v.name: v.value for v in plan.variables if v.name in INTERFACE_NAMES}


@every_stack
def test_ranks_on_the_launcher_inherit_its_interface_and_no_other_rank_is_sent_it(
    stack: MpiStack,
) -> None:
    """Workers have interfaces of their own."""
    plan = plan_with_ranks_here(stack)

    assert interfaces_of(plan) == dict.fromkeys(INTERFACE_NAMES, "eth0")
    assert not INTERFACE_NAMES & passed_names(plan)


@every_stack
def test_an_interface_that_the_user_names_is_not_replaced(stack: MpiStack) -> None:
    """It is one of the job, and travels."""
    plan = plan_with_ranks_here(stack, {"NCCL_SOCKET_IFNAME": "ib0"})

    assert interfaces_of(plan) == dict.fromkeys(INTERFACE_NAMES - {"NCCL_SOCKET_IFNAME"}, "eth0")
    assert "NCCL_SOCKET_IFNAME" in passed_names(plan)


def test_a_job_on_the_launcher_alone_is_told_no_interface() -> None:
    """Nothing leaves the machine."""
    assert interfaces_of(plan_with_ranks_here(OPEN_MPI_5_STACK, remote=0)) == {}


def test_a_launcher_without_ranks_is_told_no_interface() -> None:
    """The workers' sessions tell theirs."""
    request = replace(a_launch_request(), surroundings=Surroundings(launcher_interface="eth0"))

    assert interfaces_of(build_plan(request, a_host_list(), OPEN_MPI_5_STACK)) == {}


@pytest.mark.parametrize("stack", ["mpich", "intel"])
def test_hydras_own_list_means_these_variables_and_no_others(stack: str) -> None:
    """The user wins; what --env gives with a value is his word too."""
    environ = {"LANG": "C", "NCCL_DEBUG": "INFO"}
    request = replace(
        a_launch_request("mpiexec", "-genvlist", "LANG", "./pi", environ=environ),
        environment=rank_environment(environ, wanted=("MODE=fast",)),
    )

    plan = build_plan(request, a_host_list(), STACKS[stack])

    assert plan.argv[plan.argv.index("-genvlist") + 1] == "LANG,MODE"
    assert any("own list" in note for note in plan.notes)
