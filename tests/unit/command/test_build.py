"""The plan for a launch: golden command lines, and what must never stand in them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.environment import rank_environment
from mpi_agent.errors import SettingsError, StackUnsupportedError
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.stacks import Implementation, MpiStack, recognise_version
from tests.builders import (
    INTEL_STACK,
    MPICH_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    STACKS,
    a_host_list,
    a_launch_request,
)

GOLDEN = Path(__file__).parents[2] / "golden"
OPERATORS_ENVIRONMENT = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": "2",
    "NVIDIA_VISIBLE_DEVICES": "",
    "NCCL_DEBUG": "INFO",
}
OF_THE_RUN = ("MPI_AGENT_RUN_ID", "MPI_AGENT_RESTART_COUNT", "MPI_AGENT_MAX_RESTARTS")
OPEN_MPIS = (OPEN_MPI_4_STACK, OPEN_MPI_5_STACK)
LINES = {
    "bare": "./pi",
    "published-manifest": (
        "mpirun -np 4 --allow-run-as-root -bind-to none -map-by slot -x LD_LIBRARY_PATH"
        " -x NCCL_DEBUG=WARN -mca pml ob1 -mca btl ^openib python train.py -np 9"
    ),
    "two-applications": "mpirun -n 1 ./a : -n 3 ./b",
    "own-hostfile": "mpirun --hostfile /etc/mpi/hostfile ./pi",
    "per-host": "mpirun -N 1 ./pi",
    "hydras-words": "mpiexec -ppn 1 -genv OMP_NUM_THREADS 2 -l ./pi",
}


def plan_of(text: str, stack: MpiStack) -> LaunchPlan:
    """Return the plan for a line under the operator's environment, 2 hosts of 2 slots."""
    request = a_launch_request(*shlex.split(text), environ=OPERATORS_ENVIRONMENT, runs_as_root=True)
    return build_plan(request, a_host_list(2, slots=2), stack)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("line", LINES)
def test_the_command_is_the_golden_one(line: str, stack: str) -> None:
    """What people read in `plan` changes only on purpose."""
    golden = GOLDEN / f"{stack}-{line}.txt"

    assert told(LINES[line], STACKS[stack]) == golden.read_text()


def told(line: str, stack: MpiStack) -> str:
    """Return the argv, the hostfile and the variables, or why the line is refused."""
    try:
        plan = plan_of(line, stack)
    except SettingsError as error:
        return f"refused: {error.summary}\nhint: {error.hint}\n"
    variables = (f"{variable.name}={variable.value}" for variable in plan.variables)
    return "\n".join([*plan.argv, "", plan.hostfile_text, *variables, ""])


@pytest.mark.parametrize("stack", OPEN_MPIS, ids=lambda stack: stack.short_name)
def test_hosts_and_ssh_stand_on_the_command_line_not_in_variables(stack: MpiStack) -> None:
    """Open MPI 5 ignores the operator's variables, and would run the whole job on the launcher."""
    plan = plan_of("mpirun ./pi", stack)

    assert "--hostfile" in plan.argv
    assert any(word == "-F /run/mpi-agent/ssh_config" for word in plan.argv)
    assert {variable.name for variable in plan.removed_variables} >= {
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
    }
    assert plan.hostfile_text.splitlines() == [
        "pi-worker-0.pi.default.svc slots=2",
        "pi-worker-1.pi.default.svc slots=2",
    ]


def test_a_users_own_parameter_is_kept() -> None:
    """On the line or as a variable, with whatever value."""
    request = a_launch_request(
        "mpirun",
        "--mca",
        "plm_rsh_no_tree_spawn",
        "0",
        "./pi",
        environ={"OMPI_MCA_orte_keep_fqdn_hostnames": "0", "OMPI_MCA_plm_rsh_args": "-v"},
    )

    plan = build_plan(request, a_host_list(), OPEN_MPI_4_STACK)
    argv = shlex.join(plan.argv)

    assert argv.count("plm_rsh_no_tree_spawn") == 1
    assert "plm_rsh_args '-F /run/mpi-agent/ssh_config'" in argv
    assert plan.ssh_options == (("LogLevel", "DEBUG1"),)


def test_an_mpi_outside_of_the_usual_path_gets_its_prefix() -> None:
    """Open MPI 4 looks for a bare orted in the login's PATH."""
    stack = MpiStack(
        implementation=Implementation.OPEN_MPI, version=(4, 1, 6), mpirun="/opt/ompi/bin/mpirun"
    )

    argv = build_plan(a_launch_request("./pi"), a_host_list(), stack).argv

    assert argv[0] == "mpirun"
    assert argv[argv.index("--prefix") + 1] == "/opt/ompi"
    assert "--prefix" not in build_plan(a_launch_request(), a_host_list(), OPEN_MPI_4_STACK).argv


def test_the_built_in_client_is_named_as_the_agent() -> None:
    """For images without OpenSSH."""
    request = a_launch_request("./pi", agent="/opt/mpi-agent/bin/mpi-agent ssh")

    argv = build_plan(request, a_host_list(), OPEN_MPI_5_STACK).argv

    assert argv[argv.index("plm_ssh_agent") + 1] == "/opt/mpi-agent/bin/mpi-agent ssh"


@pytest.mark.parametrize("sets_defaults", [True, False])
def test_open_mpi_5_gets_an_ssh_with_streams_of_its_own(*, sets_defaults: bool) -> None:
    """OpenSSH makes the stdout that it shares with prterun non-blocking, and output is lost."""
    request = replace(a_launch_request("./pi"), sets_defaults=sets_defaults)

    plan = build_plan(request, a_host_list(), OPEN_MPI_5_STACK)

    assert plan.argv[plan.argv.index("plm_ssh_agent") + 1] == "/bin/sh /run/mpi-agent/ssh_client"
    assert plan.dials_by_own_ssh


@pytest.mark.parametrize("name", ["plm_ssh_agent", "plm_rsh_agent"])
def test_the_users_own_ssh_agent_is_kept(name: str) -> None:
    """Whoever names one knows why."""
    request = a_launch_request("mpirun", "--prtemca", name, "ssh", "./pi")

    plan = build_plan(request, a_host_list(), OPEN_MPI_5_STACK)

    assert "/bin/sh /run/mpi-agent/ssh_client" not in plan.argv
    assert plan.argv[plan.argv.index("plm_ssh_agent") + 1] == "ssh"
    assert any("output may be lost" in note for note in plan.notes)


@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, MPICH_STACK, INTEL_STACK])
def test_launchers_that_keep_their_streams_call_ssh_by_its_name(stack: MpiStack) -> None:
    """Open MPI 4 and Hydra give it pipes of its own."""
    plan = build_plan(a_launch_request("./pi"), a_host_list(), stack)

    assert not any("ssh_client" in word for word in plan.argv)


@given(value=st.text(min_size=1, max_size=40), other=st.text(min_size=1, max_size=40))
def test_no_value_of_a_variable_ever_stands_in_argv(value: str, other: str) -> None:
    """Arguments are visible to every process of the machine; so they are the same for any value."""

    def argv_of(secret: str) -> tuple[str, ...]:
        environ = {"NCCL_SECRET": secret, "HF_HOME": secret}
        request = a_launch_request("./pi", environ=environ)
        return build_plan(request, a_host_list(), OPEN_MPI_5_STACK).argv

    assert argv_of(value) == argv_of(other)
    assert "NCCL_SECRET" in argv_of(value)


def test_a_given_value_travels_by_the_environment() -> None:
    """`--env NAME=VALUE` too must not show in a process list."""
    request = a_launch_request("./pi")
    environment = rank_environment({}, wanted=("TOKEN=s3cret",))
    plan = build_plan(
        type(request)(
            program=("./pi",),
            environ={},
            environment=environment,
            hostfile_path="/hf",
            ssh=None,
            runs_as_root=False,
        ),
        a_host_list(),
        OPEN_MPI_5_STACK,
    )

    token = next(variable for variable in plan.variables if variable.name == "TOKEN")
    assert (token.value, token.is_secret) == ("s3cret", True)
    assert "s3cret" not in shlex.join(plan.argv)
    assert plan.argv[plan.argv.index("TOKEN") - 1] == "-x"


def test_traces_of_a_resource_manager_do_not_reach_mpirun() -> None:
    """They would choose how it starts its daemons."""
    request = a_launch_request("./pi", environ={"SLURM_JOBID": "7", "PRTE_MCA_plm_ssh_args": ""})

    plan = build_plan(request, a_host_list(), OPEN_MPI_5_STACK)

    removed = [variable.name for variable in plan.removed_variables]
    assert removed == ["PRTE_MCA_plm_ssh_args", "SLURM_JOBID"]


def test_a_launcher_of_its_own_is_told_by_variables() -> None:
    """A shell or horovodrun stays as it is."""
    request = a_launch_request("bash", "-c", "mpirun ./pi")

    plan = build_plan(request, a_host_list(2, slots=2), OPEN_MPI_5_STACK)

    assert plan.argv == ("bash", "-c", "mpirun ./pi")
    assert {variable.name: variable.value for variable in plan.variables} == {
        "PRTE_MCA_plm_ssh_agent": "/bin/sh /run/mpi-agent/ssh_client",
        "MASTER_ADDR": "pi-worker-0.pi.default.svc",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "MPI_AGENT_HOSTFILE": "/run/mpi-agent/hostfile",
        "MPI_AGENT_NP": "4",
        "MPI_AGENT_SLOTS": "2",
        "MPI_AGENT_FIRST_HOST": "pi-worker-0.pi.default.svc",
        "MPI_AGENT_HOST_COUNT": "2",
        "MPI_AGENT_RUN_ID": "",
        "MPI_AGENT_RESTART_COUNT": "0",
        "MPI_AGENT_MAX_RESTARTS": "0",
        "PDSH_RCMD_TYPE": "ssh",
        "SHELL": "/bin/sh",
        "PRTE_MCA_prte_default_hostfile": "/run/mpi-agent/hostfile",
        "PRTE_MCA_plm_ssh_args": "-F /run/mpi-agent/ssh_config",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "PRTE_MCA_oob_tcp_keepalive_time": "10",
        "PRTE_MCA_oob_tcp_keepalive_intvl": "5",
        "PRTE_MCA_oob_tcp_keepalive_probes": "3",
        "MPI_AGENT_SHIM": "off",
    }


@pytest.mark.parametrize("stack", OPEN_MPIS, ids=lambda stack: stack.short_name)
def test_a_host_given_by_its_ipv6_address_is_refused_where_mpirun_would_hang(
    stack: MpiStack,
) -> None:
    """Open MPI 4.1.4 hangs for ever on it; 5.0.11 takes it."""
    host = Host(name="fd77::2", slots=1, role=Role.WORKER, index=0)
    hosts = HostList(hosts=(host,), source="--hosts")

    if stack is OPEN_MPI_5_STACK:
        assert build_plan(a_launch_request(), hosts, stack).hostfile_text == "fd77::2 slots=1\n"
    else:
        with pytest.raises(SettingsError, match="IPv6"):
            build_plan(a_launch_request(), hosts, stack)


@pytest.mark.parametrize(
    ("line", "stack", "daemon"),
    [
        ("./pi", OPEN_MPI_4_STACK, "orted"),
        ("./pi", OPEN_MPI_5_STACK, "/usr/bin/prted"),
        ("mpirun --prefix /opt/ompi ./pi", OPEN_MPI_4_STACK, "/opt/ompi/bin/orted"),
        ("mpirun --mca orte_launch_agent /my/orted ./pi", OPEN_MPI_4_STACK, None),
        ("mpirun --launch-agent /my/prted ./pi", OPEN_MPI_5_STACK, None),
        ("./pi", MPICH_STACK, "/usr/bin/hydra_pmi_proxy"),
        ("./pi", INTEL_STACK, "/opt/intel/bin/hydra_bstrap_proxy"),
    ],
)
def test_the_wait_asks_for_the_daemon_that_mpirun_will_call(
    line: str, stack: MpiStack, daemon: str | None
) -> None:
    """By name where the login's PATH finds it, else by path; not at all where the user chose."""
    assert plan_of(line, stack).daemon == daemon


def test_an_mpirun_line_without_a_program_is_refused() -> None:
    """Mpirun's own text about it is a page long."""
    with pytest.raises(SettingsError, match="without a program"):
        plan_of("mpirun -np 2", OPEN_MPI_5_STACK)


@pytest.mark.parametrize(
    ("text", "implementation", "version"),
    [
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs", Implementation.OPEN_MPI, (5, 0, 11)),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", Implementation.OPEN_MPI, (4, 1, 4)),
        ("HYDRA build details:\n    Version:          4.0.2\n", Implementation.MPICH, (4, 0, 2)),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 2026",
            Implementation.INTEL_MPI,
            (2021, 19, 0),
        ),
    ],
)
def test_an_mpi_is_recognised_by_what_its_launcher_says(
    text: str, implementation: Implementation, version: tuple[int, int, int]
) -> None:
    """The binary counts, not the manifest."""
    assert recognise_version(text) == (implementation, version)


def test_an_mpi_without_a_dialect_is_named() -> None:
    """Recognised is not yet supported."""
    stack = MpiStack(
        implementation=Implementation.MVAPICH, version=(2, 3, 7), mpirun="/usr/bin/mpirun"
    )

    with pytest.raises(StackUnsupportedError, match=r"MVAPICH 2\.3\.7"):
        build_plan(a_launch_request(), a_host_list(), stack)


def test_a_mapping_or_binding_set_by_a_parameter_is_kept() -> None:
    """The user wins, in whatever form he says it."""
    environ = {
        "PRTE_MCA_hwloc_default_binding_policy": "core",
        "PRTE_MCA_rmaps_default_mapping_policy": "node",
    }

    argv = build_plan(
        a_launch_request("./pi", environ=environ), a_host_list(), OPEN_MPI_5_STACK
    ).argv

    assert "--bind-to" not in argv
    assert "--map-by" not in argv


def test_values_that_may_be_secret_are_not_shown() -> None:
    """Neither in the log nor by `plan`."""
    request = a_launch_request("mpirun", "-x", "MODE=s3cret", "./pi")

    plan = build_plan(request, a_host_list(), OPEN_MPI_5_STACK)

    assert "MODE=..." in plan.shown_argv
    assert "s3cret" not in shlex.join(plan.shown_argv)


@pytest.mark.parametrize("line", ["mpirun -x TOKEN=s3cret ./pi", "mpiexec -genv TOKEN s3cret ./pi"])
@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_secret_on_the_users_own_line_moves_out_of_it(line: str, stack: MpiStack) -> None:
    """Every process of the machine can read an argv."""
    plan = build_plan(a_launch_request(*line.split()), a_host_list(), stack)

    assert "s3cret" not in shlex.join(plan.argv)
    assert "TOKEN" in ",".join(plan.argv)
    assert ("TOKEN", "s3cret") in {(v.name, v.value) for v in plan.variables}


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_run_of_a_plan_has_its_own_values_and_the_same_command(stack: MpiStack) -> None:
    """So the plan that was shown is what runs; the values of another launch are not kept."""
    environ = {"MPI_AGENT_RUN_ID": "of another launch", "MPI_AGENT_RESTART_COUNT": "7"}
    plan = build_plan(a_launch_request("./pi", environ=environ), a_host_list(), stack)

    run = plan.of_run("0123456789ab", restart_count=2, max_restarts=3)

    assert run.argv == plan.argv
    assert list(run.environment(environ)) == list(plan.environment(environ))
    told = {name: run.environment(environ)[name] for name in OF_THE_RUN}
    assert told == dict(zip(OF_THE_RUN, ("0123456789ab", "2", "3"), strict=True))


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_what_tells_the_run_is_passed_by_name_and_is_never_the_last_variable(
    stack: MpiStack,
) -> None:
    """A plain sshd takes no variable of ours from ssh; MPICH's list loses the last one."""
    plan = build_plan(a_launch_request("./pi"), a_host_list(), stack)

    named = {name for word in plan.argv for name in word.split(",")}
    assert set(OF_THE_RUN) <= named
    assert list(plan.environment({}))[-1] == "MPI_AGENT_SHIM"


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_plan_that_nobody_watches_has_an_id_that_is_empty(stack: MpiStack) -> None:
    """Open MPI warns about a name without a variable, and an empty id is none."""
    environ = {"MPI_AGENT_RUN_ID": "of another launch"}
    plan = build_plan(a_launch_request("./pi", environ=environ), a_host_list(), stack)

    assert plan.environment(environ)["MPI_AGENT_RUN_ID"] == ""


if __name__ == "__main__":
    for stack_name, stack_value in STACKS.items():
        for line_name, line_text in LINES.items():
            (GOLDEN / f"{stack_name}-{line_name}.txt").write_text(told(line_text, stack_value))
