"""Who dials whom, whether it can be told, and what would hang."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, SshAccess, Surroundings
from mpi_agent.errors import SettingsError
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    INTEL_STACK,
    MPICH_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    STACKS,
    a_host_list,
    a_launch_request,
)

every_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def plan_of(
    line: str,
    stack: MpiStack,
    environ: Mapping[str, str] | None = None,
    *,
    hosts: int = 2,
    hosts_can_dial: bool = False,
) -> LaunchPlan:
    """Return the plan on hosts of one slot."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    ssh = SshAccess(config_path="/run/c", hosts_can_dial=hosts_can_dial)
    return build_plan(replace(request, ssh=ssh), a_host_list(hosts), stack)


@every_stack
@pytest.mark.parametrize("line", ["./pi", "mpirun ./pi"])
def test_the_launcher_dials_every_host_where_hosts_cannot_dial(line: str, stack: MpiStack) -> None:
    """Workers then need no private key."""
    assert not plan_of(line, stack).dials_by_tree


@pytest.mark.parametrize(
    ("stack", "by_tree"),
    [
        (OPEN_MPI_4_STACK, True),
        (OPEN_MPI_5_STACK, True),
        (MPICH_STACK, False),
        (INTEL_STACK, True),
    ],
    ids=STACKS,
)
def test_daemons_dial_further_hosts_where_these_can_dial(stack: MpiStack, *, by_tree: bool) -> None:
    """MPICH's Hydra knows no tree."""
    assert plan_of("./pi", stack, hosts_can_dial=True).dials_by_tree is by_tree


@pytest.mark.parametrize(
    ("line", "environ", "stack"),
    [
        ("mpirun --mca plm_rsh_no_tree_spawn 0 ./pi", {}, OPEN_MPI_4_STACK),
        ("mpirun --mca plm_rsh_no_tree_spawn false ./pi", {}, OPEN_MPI_4_STACK),
        ("./pi", {"OMPI_MCA_plm_rsh_no_tree_spawn": "0"}, OPEN_MPI_4_STACK),
        ("mpirun --mca plm_rsh_no_tree_spawn 0 ./pi", {}, OPEN_MPI_5_STACK),
        ("mpirun --prtemca plm_ssh_no_tree_spawn 0 ./pi", {}, OPEN_MPI_5_STACK),
        ("mpirun ./pi", {"OMPI_MCA_plm_rsh_no_tree_spawn": "0"}, OPEN_MPI_5_STACK),
        ("./pi", {"PRTE_MCA_plm_ssh_no_tree_spawn": "0"}, OPEN_MPI_5_STACK),
        ("mpiexec -branch-count 1 ./pi", {}, INTEL_STACK),
        ("mpiexec ./pi", {"I_MPI_HYDRA_BRANCH_COUNT": "1"}, INTEL_STACK),
    ],
)
def test_a_tree_that_the_user_asks_for_is_known(
    line: str, environ: dict[str, str], stack: MpiStack
) -> None:
    """The launcher then need not dial every host, and a job that dials few is a healthy one."""
    assert plan_of(line, stack, environ).dials_by_tree


@pytest.mark.parametrize(
    ("line", "environ", "stack"),
    [
        ("mpirun --mca plm_rsh_no_tree_spawn 1 ./pi", {}, OPEN_MPI_4_STACK),
        ("./pi", {"OMPI_MCA_plm_rsh_no_tree_spawn": "true"}, OPEN_MPI_4_STACK),
        ("./pi", {"OMPI_MCA_plm_rsh_no_tree_spawn": "1"}, OPEN_MPI_5_STACK),
        ("mpiexec -branch-count 2 ./pi", {}, INTEL_STACK),
        ("mpiexec ./pi", {"I_MPI_HYDRA_BRANCH_COUNT": "2"}, INTEL_STACK),
    ],
)
def test_a_tree_that_the_user_refuses_is_none(
    line: str, environ: dict[str, str], stack: MpiStack
) -> None:
    """Even where the hosts could dial; as many branches as hosts leave nothing to daemons."""
    assert not plan_of(line, stack, environ, hosts_can_dial=True).dials_by_tree


def test_the_users_width_of_the_tree_is_not_said_again() -> None:
    """An option of ours would win over it."""
    argv = plan_of("mpiexec ./pi", INTEL_STACK, {"I_MPI_HYDRA_BRANCH_COUNT": "1"}).argv

    assert "-branch-count" not in argv
    assert "-branch-count" in plan_of("mpiexec ./pi", INTEL_STACK).argv


@pytest.mark.parametrize(
    ("stack", "variable"),
    [
        (MPICH_STACK, "HYDRA_LAUNCHER"),
        (MPICH_STACK, "HYDRA_BOOTSTRAP"),
        (INTEL_STACK, "I_MPI_HYDRA_BOOTSTRAP"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_users_way_of_starting_daemons_keeps_ours_away(stack: MpiStack, variable: str) -> None:
    """And by another way than ssh nobody can tell who was dialled."""
    plan = plan_of("mpiexec ./pi", stack, {variable: "slurm"})

    assert "-launcher" not in plan.argv
    assert not plan.dials_by_own_ssh
    assert "-launcher" in plan_of("mpiexec ./pi", stack).argv


def test_the_users_binding_in_a_variable_of_hydra_keeps_ours_away() -> None:
    """An option of ours would win over it."""
    argv = plan_of("mpiexec ./pi", MPICH_STACK, {"HYDRA_BINDING": "core"}).argv

    assert "-bind-to" not in argv
    assert "-bind-to" in plan_of("mpiexec ./pi", MPICH_STACK).argv


SSH_VARIABLES = {
    "openmpi4": "OMPI_MCA_plm_rsh_args",
    "openmpi5": "PRTE_MCA_plm_ssh_args",
    "mpich": "HYDRA_LAUNCHER_EXTRA_ARGS",
    "intel": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    "arguments",
    [
        "-F /my/config",
        "-oInclude=/my/config",
        "-o ControlPath=/tmp/%r@%h",
        "-o controlmaster=auto",
        "-o LocalCommand=true",
        "-o PermitLocalCommand=no",
        "-S /tmp/socket",
        "-S/tmp/socket",
        "-M",
    ],
)
def test_ssh_arguments_that_may_hide_our_mark_leave_nothing_to_tell(
    arguments: str, stack: str
) -> None:
    """A shared connection runs no LocalCommand, and another file may have one of its own."""
    plan = plan_of("./pi", STACKS[stack], {SSH_VARIABLES[stack]: arguments})

    assert not plan.dials_by_own_ssh


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("arguments", ["-p 222", "-o ConnectTimeout=9 -T", "-l me -i /key"])
def test_other_ssh_arguments_leave_our_mark(arguments: str, stack: str) -> None:
    """They say where and as whom."""
    assert plan_of("./pi", STACKS[stack], {SSH_VARIABLES[stack]: arguments}).dials_by_own_ssh


TOO_FEW = [
    ("mpirun --mca plm_rsh_num_concurrent 2 ./pi", {}, OPEN_MPI_4_STACK),
    ("./pi", {"OMPI_MCA_plm_rsh_num_concurrent": "2"}, OPEN_MPI_4_STACK),
    ("mpirun --prtemca plm_ssh_num_concurrent 2 ./pi", {}, OPEN_MPI_5_STACK),
    ("mpirun --mca plm_rsh_num_concurrent 2 ./pi", {}, OPEN_MPI_5_STACK),
    ("./pi", {"OMPI_MCA_plm_rsh_num_concurrent": "2"}, OPEN_MPI_5_STACK),
    ("./pi", {"PRTE_MCA_plm_ssh_num_concurrent": "2"}, OPEN_MPI_5_STACK),
]


@pytest.mark.parametrize(("line", "environ", "stack"), TOO_FEW)
def test_fewer_ssh_at_a_time_than_hosts_are_refused(
    line: str, environ: dict[str, str], stack: MpiStack
) -> None:
    """Mpirun would wait for ever: every ssh stays open."""
    with pytest.raises(SettingsError, match=r"cannot dial 3 hosts with plm_\w+ 2") as caught:
        plan_of(line, stack, environ, hosts=3)

    assert "at least 3" in str(caught.value.hint)


@pytest.mark.parametrize(("line", "environ", "stack"), TOO_FEW)
def test_as_many_ssh_at_a_time_as_hosts_are_enough(
    line: str, environ: dict[str, str], stack: MpiStack
) -> None:
    """And no note or refusal is due."""
    assert plan_of(line, stack, environ, hosts=2).np == 2


@pytest.mark.parametrize(("count", "is_refused"), [(63, True), (64, False)])
def test_in_a_tree_no_daemon_dials_more_than_its_children(count: int, *, is_refused: bool) -> None:
    """Sixty-four, as the default radix has it."""
    line = f"mpirun --mca plm_rsh_num_concurrent {count} ./pi"

    def planned() -> LaunchPlan:
        return plan_of(line, OPEN_MPI_4_STACK, hosts=100, hosts_can_dial=True)

    if is_refused:
        with pytest.raises(SettingsError, match="cannot dial 64 hosts"):
            planned()
    else:
        assert planned().dials_by_tree


def test_the_users_interface_keeps_the_launchers_address_away() -> None:
    """Both say where daemons call back."""
    request = a_launch_request("mpiexec", "./pi", environ={"HYDRA_IFACE": "eth1"})
    here = Surroundings(launcher_address="10.0.0.1", launcher_interface="eth0")

    argv = build_plan(replace(request, surroundings=here), a_host_list(), MPICH_STACK).argv

    assert not {"-localhost", "-iface"} & set(argv)
