"""Programs that start their processes themselves: told by words, variables and an ssh in PATH."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, SshAccess, Surroundings
from mpi_agent.job.stacks import Implementation, MpiStack
from tests.builders import (
    INTEL_STACK,
    MPICH_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    a_host_list,
    a_launch_request,
)

SSH = SshAccess(
    config_path="/run/c", key_path="/run/key", port=2222, directory="/run/bin", agent=None
)
HOSTFILE = "/run/mpi-agent/hostfile"


def request_of(line: str, environ: Mapping[str, str] | None = None) -> LaunchRequest:
    """Return a request whose ssh needs a port, a key and a directory."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    surroundings = Surroundings(launcher_interface="eth0", has_rdma=True)
    return replace(request, ssh=SSH, surroundings=surroundings)


def plan_of(
    line: str, environ: Mapping[str, str] | None = None, stack: MpiStack | None = None
) -> LaunchPlan:
    """Return the plan on two hosts of two slots."""
    return build_plan(request_of(line, environ), a_host_list(slots=2), stack)


def variables_of(plan: LaunchPlan) -> dict[str, str]:
    """Return what the program is told by variables."""
    return {variable.name: variable.value for variable in plan.variables}


def test_horovodrun_is_told_what_its_line_leaves_open() -> None:
    """In its own words, in front of everything else."""
    argv = plan_of("horovodrun python train.py").argv

    assert shlex.join(argv) == (
        f"horovodrun -np 4 --hostfile {HOSTFILE} -p 2222 -i /run/key --network-interfaces eth0"
        " python train.py"
    )


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("-np 2", "-np 4"),
        ("--num-proc 2", "-np 4"),
        ("-H a:2", "--hostfile"),
        ("--hosts=a:2", "--hostfile"),
        ("-hostfile f", "--hostfile"),
        ("--host-discovery-script f", "--hostfile"),
        ("-p 22", "-p 2222"),
        ("-p22", "-p 2222"),
        ("--ssh-port=22", "-p 2222"),
        ("--ssh-identity-file k", "-i /run/key"),
        ("--network-interface lo", "--network-interfaces"),
    ],
)
def test_what_the_user_gives_horovodrun_is_not_given_again(given: str, ours: str) -> None:
    """In either spelling, with or without `=`."""
    line = shlex.join(plan_of(f"horovodrun {given} python train.py").argv)

    assert f"{given} python train.py" in line
    assert ours not in line


@pytest.mark.parametrize(
    "line",
    [
        "horovodrun -np 4 python train.py -p 5 --hostfile x",
        "horovodrun -np 4 --verbose python train.py -p 5 --hostfile x",
        "horovodrun -np 4 --verbose ./train -p 5 --hostfile x",
        "horovodrun -np 4 -- ./train -p 5 --hostfile x",
        "deepspeed --num_gpus 2 train.py --hostfile x --ssh_port 5",
        "deepspeed --module train --hostfile x --ssh_port 5",
    ],
)
def test_options_of_the_program_are_not_the_launchers(line: str) -> None:
    """`-p 5` behind train.py is train.py's."""
    argv = shlex.join(plan_of(line).argv)

    assert f"--hostfile {HOSTFILE}" in argv
    assert "2222" in argv


def test_deepspeed_is_told_the_hostfile_and_the_port() -> None:
    """Its hostfile has `slots=`, whatever MPI is installed."""
    plan = plan_of("deepspeed train.py", stack=MPICH_STACK)

    assert shlex.join(plan.argv) == f"deepspeed --hostfile {HOSTFILE} --ssh_port 2222 train.py"
    assert "slots=2" in plan.hostfile_text


@pytest.mark.parametrize("given", ["--hostfile=f", "-H f"])
def test_hosts_that_the_user_gives_deepspeed_are_kept(given: str) -> None:
    """A hostfile of his own."""
    assert HOSTFILE not in plan_of(f"deepspeed {given} train.py").argv


@pytest.mark.parametrize("given", ["--include a@b", "--num_nodes 1"])
def test_deepspeed_chooses_among_the_hosts_of_the_hostfile(given: str) -> None:
    """Without one it would know this machine alone."""
    argv = plan_of(f"deepspeed {given} train.py").argv

    assert shlex.join(argv).startswith(f"deepspeed --hostfile {HOSTFILE}")
    assert shlex.join(argv).endswith(f"{given} train.py")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "python -u -m deepspeed.launcher.runner --ssh_port 22 t.py",
            f"python -u -m deepspeed.launcher.runner --hostfile {HOSTFILE} --ssh_port 22 t.py",
        ),
        (
            "python3 -mhorovod.runner -np 2 -i k --network-interfaces lo t.py",
            f"python3 -mhorovod.runner --hostfile {HOSTFILE} -p 2222 -np 2 -i k"
            " --network-interfaces lo t.py",
        ),
        (
            "python -m horovod.runner.launch -np 2 -H a:2 -p 22 -i k --network-interfaces lo t.py",
            "python -m horovod.runner.launch -np 2 -H a:2 -p 22 -i k --network-interfaces lo t.py",
        ),
        ("python -m torch.distributed.run t.py", "python -m torch.distributed.run t.py"),
    ],
)
def test_a_launcher_called_as_a_module_gets_its_words(line: str, expected: str) -> None:
    """Behind the module's name, where Python passes them on."""
    assert shlex.join(plan_of(line).argv) == expected


@pytest.mark.parametrize(
    ("implementation", "version"),
    [
        (Implementation.MVAPICH, (2, 3, 7)),
        (Implementation.SPECTRUM_MPI, (10, 4, 0)),
        (Implementation.OPEN_MPI, (3, 1, 6)),
    ],
)
def test_an_mpi_without_a_dialect_does_not_stop_what_needs_none(
    implementation: Implementation, version: tuple[int, int, int]
) -> None:
    """It runs where no MPI is installed, too."""
    stack = replace(OPEN_MPI_5_STACK, implementation=implementation, version=version)

    assert plan_of("bash run.sh", stack=stack) == plan_of("bash run.sh")


@pytest.mark.parametrize("line", ["pdsh -w a hostname", "torchrun train.py", "bash run.sh"])
def test_other_launchers_get_no_words(line: str) -> None:
    """Their line is theirs, to the last word."""
    assert shlex.join(plan_of(line).argv) == line


def test_what_is_not_known_is_not_said() -> None:
    """No port, no key, no interface."""
    request = a_launch_request("horovodrun", "python")

    argv = build_plan(replace(request, ssh=None), a_host_list(), None).argv

    assert argv == ("horovodrun", "-np", "2", "--hostfile", HOSTFILE, "python")


def test_an_ssh_of_the_job_stands_in_front_of_path() -> None:
    """For launchers that find theirs there and switch the host-key check off."""
    told = variables_of(plan_of("pdsh -w a hostname", {"PATH": "/usr/bin:/bin"}))

    assert told["PATH"] == "/run/bin:/usr/bin:/bin"
    assert told["PDSH_RCMD_TYPE"] == "ssh"
    assert variables_of(plan_of("pdsh -w a hostname"))["PATH"] == "/run/bin"


def test_the_users_way_of_pdsh_is_kept() -> None:
    """He may have another module."""
    assert "PDSH_RCMD_TYPE" not in variables_of(plan_of("pdsh x", {"PDSH_RCMD_TYPE": "rsh"}))


def test_without_an_executable_directory_path_stays() -> None:
    """A noexec /run keeps programs from running there."""
    request = replace(request_of("pdsh x"), ssh=replace(SSH, directory=None))

    plan = build_plan(request, a_host_list(), None)

    assert "PATH" not in variables_of(plan)


AN_MPIRUNS_VARIABLES = {
    "openmpi4": (
        OPEN_MPI_4_STACK,
        {
            "OMPI_MCA_orte_default_hostfile": HOSTFILE,
            "OMPI_MCA_plm_rsh_args": "-F /run/c -T",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_oob_tcp_keepalive_time": "10",
            "OMPI_MCA_oob_tcp_keepalive_intvl": "5",
            "OMPI_MCA_oob_tcp_keepalive_probes": "3",
        },
    ),
    "openmpi5": (
        OPEN_MPI_5_STACK,
        {
            "PRTE_MCA_prte_default_hostfile": HOSTFILE,
            "PRTE_MCA_plm_ssh_args": "-F /run/c -T",
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            "PRTE_MCA_oob_tcp_keepalive_time": "10",
            "PRTE_MCA_oob_tcp_keepalive_intvl": "5",
            "PRTE_MCA_oob_tcp_keepalive_probes": "3",
        },
    ),
    "mpich": (
        MPICH_STACK,
        {
            "HYDRA_HOST_FILE": HOSTFILE,
            "HYDRA_LAUNCHER_EXTRA_ARGS": "-F /run/c -T",
            "HYDRA_IFACE": "eth0",
        },
    ),
    "intel": (
        INTEL_STACK,
        {
            "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-F /run/c -T",
            "I_MPI_HYDRA_IFACE": "eth0",
            "I_MPI_PERHOST": "2",
            "I_MPI_PIN": "off",
        },
    ),
}
SSH_VARIABLES = {
    "openmpi4": "OMPI_MCA_plm_rsh_args",
    "openmpi5": "PRTE_MCA_plm_ssh_args",
    "mpich": "HYDRA_LAUNCHER_EXTRA_ARGS",
    "intel": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
}


@pytest.mark.parametrize("dialect", AN_MPIRUNS_VARIABLES)
def test_an_mpirun_that_the_program_calls_is_told_by_variables(dialect: str) -> None:
    """Nobody sees its line; the user's own ssh arguments are read into our configuration."""
    stack, expected = AN_MPIRUNS_VARIABLES[dialect]

    plan = plan_of("bash run.sh", {SSH_VARIABLES[dialect]: "-p 222 -T"}, stack)

    mpis = ("OMPI_", "PRTE_", "HYDRA_", "I_MPI_")
    found = {n: v for n, v in variables_of(plan).items() if n.startswith(mpis)}
    assert found == expected
    assert plan.ssh_options == (("Port", "222"),)


@pytest.mark.parametrize("dialect", AN_MPIRUNS_VARIABLES)
def test_the_hostfile_is_in_the_form_of_the_mpirun_that_may_be_called(dialect: str) -> None:
    """Hydra refuses `slots=`, Open MPI passes over `:N`."""
    stack, _ = AN_MPIRUNS_VARIABLES[dialect]

    text = plan_of("bash run.sh", None, stack).hostfile_text

    assert ("slots=2" in text) is dialect.startswith("openmpi")
    assert (":2" in text) is not dialect.startswith("openmpi")


def test_root_is_permitted_by_variables_to_open_mpi_alone() -> None:
    """Both of them, or it refuses; Hydra has no such question."""
    asked = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}
    request = replace(request_of("bash run.sh"), runs_as_root=True)

    of_open_mpi = build_plan(request, a_host_list(), OPEN_MPI_5_STACK)
    of_mpich = build_plan(request, a_host_list(), MPICH_STACK)

    assert asked <= variables_of(of_open_mpi).keys()
    assert not asked & variables_of(of_mpich).keys()


def test_what_the_user_set_for_his_mpirun_is_kept() -> None:
    """His variable wins, and nothing of ours decides the same in another way."""
    environ = {
        "PRTE_MCA_plm_ssh_no_tree_spawn": "0",
        "PRTE_MCA_hwloc_default_binding_policy": "core",
        "OMPI_MCA_btl_tcp_if_exclude": "lo",
    }
    request = request_of("bash run.sh", environ)
    request = replace(request, surroundings=Surroundings(network="10.0.0.0/8"))

    told = variables_of(build_plan(request, a_host_list(), OPEN_MPI_5_STACK))

    assert not told.keys() & environ.keys()
    assert "OMPI_MCA_btl_tcp_if_include" not in told
    assert told["PRTE_MCA_prte_if_include"] == "10.0.0.0/8"


def test_intels_count_per_host_is_the_users_or_the_operators_where_one_is_set() -> None:
    """The operator sets it to the slots of a worker."""
    plan = plan_of("bash run.sh", {"I_MPI_PERHOST": "8"}, INTEL_STACK)

    assert "I_MPI_PERHOST" not in variables_of(plan)


def test_without_defaults_only_what_is_needed_is_told() -> None:
    """Where the hosts are and how to dial them."""
    request = replace(request_of("bash run.sh"), sets_defaults=False)

    told = variables_of(build_plan(request, a_host_list(), OPEN_MPI_4_STACK))

    assert {name for name in told if name.startswith("OMPI_")} == {
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_plm_rsh_no_tree_spawn",
    }


def test_an_mpirun_that_shares_its_streams_is_told_of_an_ssh_with_its_own() -> None:
    """Also with --no-defaults: output would be lost."""
    apart = replace(SSH, apart="/bin/sh /run/ssh_client")
    request = replace(request_of("bash run.sh"), ssh=apart, sets_defaults=False)

    five, four = (
        variables_of(build_plan(request, a_host_list(), stack))
        for stack in (OPEN_MPI_5_STACK, OPEN_MPI_4_STACK)
    )

    assert five["PRTE_MCA_plm_ssh_agent"] == "/bin/sh /run/ssh_client"
    assert "OMPI_MCA_plm_rsh_agent" not in four


@pytest.mark.parametrize(
    ("stack", "variable"),
    [
        (OPEN_MPI_4_STACK, "OMPI_MCA_plm_rsh_agent"),
        (OPEN_MPI_5_STACK, "PRTE_MCA_plm_ssh_agent"),
        (MPICH_STACK, "HYDRA_LAUNCHER_EXEC"),
        (INTEL_STACK, "I_MPI_HYDRA_BOOTSTRAP_EXEC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_built_in_client_is_told_to_an_mpirun_unless_the_user_has_his_own(
    stack: MpiStack, variable: str
) -> None:
    """For images without OpenSSH."""
    agent = replace(SSH, agent="/built-in")
    ours = replace(request_of("bash run.sh"), ssh=agent)
    his = replace(request_of("bash run.sh", {variable: "/my/ssh"}), ssh=agent)

    assert variables_of(build_plan(ours, a_host_list(), stack))[variable] == "/built-in"
    assert variable not in variables_of(build_plan(his, a_host_list(), stack))


def test_an_operators_variables_stay_for_a_program_that_may_read_them() -> None:
    """Only an mpirun of ours is told by options in their place."""
    environ = {"OMPI_MCA_orte_set_default_slots": "2", "SLURM_JOBID": "7"}

    plan = plan_of("bash run.sh", environ, OPEN_MPI_4_STACK)

    assert [variable.name for variable in plan.removed_variables] == ["SLURM_JOBID"]


def test_a_note_says_that_it_runs_once() -> None:
    """Torchrun has no ssh of its own, and people expect it on every host."""
    notes = plan_of("torchrun train.py").notes

    assert any('"torchrun" runs once, on the launcher' in note for note in notes)


@pytest.mark.parametrize(
    ("stack", "variable"), [(MPICH_STACK, "HYDRA_IFACE"), (INTEL_STACK, "I_MPI_HYDRA_IFACE")]
)
def test_an_inner_hydra_is_called_back_by_the_launchers_interface(
    stack: MpiStack, variable: str
) -> None:
    """Workers may not be able to resolve the launcher's name."""
    request = replace(
        request_of("bash run.sh"), surroundings=Surroundings(launcher_interface="net1")
    )

    assert variables_of(build_plan(request, a_host_list(), stack))[variable] == "net1"
