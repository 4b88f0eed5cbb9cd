"""What an MPI launcher gets wrong by itself on real hosts, and a launch by the agent does not.

One test for each trap, with the real launcher: without what the agent says or takes away, it hangs,
ends with an error, or runs on fewer hosts than the job has.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm import Farm, FarmHost, FarmOptions, Server
from tests.farm_launch import (
    ALL_STACKS,
    Launched,
    agent_words,
    farm_of,
    hosts_of,
    launch,
    launcher_environ,
    running_launch,
    spread_of,
)
from tests.stacks import require_stack

pytestmark = pytest.mark.integration

HYDRAS = pytest.mark.parametrize("name", ["mpich4", "mpich5", "intelmpi"])
OPEN_MPIS = pytest.mark.parametrize("name", ["openmpi4", "openmpi5"])

LEAKED = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOBID": "77",
    "SLURM_NODELIST": "other[1-2]",
    "SLURM_JOB_NODELIST": "other[1-2]",
    "SLURM_NNODES": "2",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURM_CPUS_ON_NODE": "2",
    "PBS_JOBID": "77.server",
    "PBS_ENVIRONMENT": "PBS_BATCH",
    "PBS_NODEFILE": "/var/spool/pbs/aux/77",
    "LSB_JOBID": "77",
    "LSB_HOSTS": "other1 other2",
    "LSB_MCPU_HOSTS": "other1 1 other2 1",
    "LSB_DJOB_HOSTFILE": "/var/spool/lsf/77",
    "SGE_ROOT": "/opt/sge",
    "ARC": "lx-amd64",
    "JOB_ID": "77",
    "PE_HOSTFILE": "/var/spool/sge/77",
    "COBALT_PARTNAME": "other",
    "COBALT_NODEFILE": "/var/spool/cobalt/77",
    "LOADL_STEP_ID": "77",
}
"""What an image or a login on a cluster of that kind leaves behind."""

PORTS = range(40000, 40101)
SSH_PORT = 22


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide three workers that run the agent, with nothing unusual about them."""
    with farm_of() as running:
        yield running


@pytest.fixture(scope="module")
def strangers() -> Iterator[Farm]:
    """Provide workers that do not know the launcher's name, and whose interface is called net1."""
    options = FarmOptions(server=Server.AGENT, knows_launcher=False, worker_interface="net1")
    with farm_of(options=options) as running:
        yield running


@pytest.fixture(scope="module")
def with_docker() -> Iterator[Farm]:
    """Provide hosts with a docker0 of the same address each, and a /32 address like a pod's."""
    options = FarmOptions(server=Server.AGENT, extra_interface="docker0", prefix_length=32)
    with farm_of(options=options) as running:
        yield running


@pytest.fixture(scope="module")
def only_ipv6() -> Iterator[Farm]:
    """Provide hosts without any IPv4 but on loopback."""
    with farm_of(options=FarmOptions(server=Server.AGENT, only_ipv6=True)) as running:
        yield running


@HYDRAS
def test_workers_need_not_know_the_launcher_by_its_name(strangers: Farm, name: str) -> None:
    """Hydra's proxies call its short name, and Intel's look for its interface on their own host."""
    ended = launch(strangers, require_stack(name), "--meet")

    ended.assert_met(6)
    assert ended.placed == spread_of(strangers)


@OPEN_MPIS
def test_interfaces_may_have_another_name_on_each_host(strangers: Farm, name: str) -> None:
    """What is said of the network must be its address, not the name of an interface."""
    ended = launch(strangers, require_stack(name), "--meet")

    ended.assert_met(6)


@ALL_STACKS
def test_leaked_variables_of_resource_managers_do_no_harm(farm: Farm, name: str) -> None:
    """Open MPI would crash or look for srun and qrsh, and MPICH would hang."""
    ended = launch(farm, require_stack(name), environ=launcher_environ(**LEAKED))

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm), ended.said
    leaked = {n.encode() for n in LEAKED}
    assert not [
        leaked & rank.environ.keys() for rank in ended.ranks if leaked & rank.environ.keys()
    ]


@ALL_STACKS
def test_an_interface_with_the_same_address_everywhere_is_not_used(
    with_docker: Farm, name: str
) -> None:
    """Ranks would offer each other an address that each of them finds on its own host."""
    ended = launch(with_docker, require_stack(name), "--meet")

    ended.assert_met(6)
    assert ended.placed == spread_of(with_docker)


@OPEN_MPIS
def test_a_read_only_tmp_on_one_host_is_told_to_the_daemons(name: str) -> None:
    """Open MPI keeps its sockets in /tmp, and its daemon there would end with 213."""
    options = FarmOptions(server=Server.AGENT, read_only_tmp={1})
    with farm_of(options=options) as farm:
        refused = farm.workers[1].run("touch", "/tmp/x")
        ended = launch(farm, require_stack(name), "--meet")

    assert "Read-only file system" in refused.stderr
    ended.assert_met(6)
    assert ended.placed == spread_of(farm)


@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "intelmpi"])
def test_hosts_with_ipv6_alone_are_one_world(only_ipv6: Farm, name: str) -> None:
    """Intel MPI has to be told so."""
    ended = launch(only_ipv6, require_stack(name), "--meet")

    ended.assert_met(6)
    assert ended.placed == spread_of(only_ipv6)


def test_mpich_on_ipv6_alone_is_refused_before_it_starts(only_ipv6: Farm) -> None:
    """It speaks IPv4 alone, and says nothing of that kind when it fails."""
    ended = launch(only_ipv6, require_stack("mpich4"))

    assert ended.code == 78, ended.said
    assert "has only IPv6 (fd77::2), and the installed MPI has none" in ended.said
    assert "started np" not in ended.said
    assert ended.ranks == ()


def listening(host: FarmHost) -> dict[str, str]:
    """Return what listens on a host and can be reached from outside, with who it is."""
    found = {}
    for line in host.run("ss", "-Hltnp").stdout.splitlines():
        _, _, _, at, _, *who = line.split()
        address, _, port = at.rpartition(":")
        address = address.strip("[]").partition("%")[0]
        is_loopback = address != "*" and ipaddress.ip_address(address).is_loopback
        if not is_loopback and int(port) != SSH_PORT:
            found[at] = " ".join(who)
    return found


@ALL_STACKS
def test_daemons_and_ranks_listen_within_the_port_range(farm: Farm, name: str) -> None:
    """Whoever may connect to it: a NetworkPolicy can name a range, and not what comes by chance."""
    options = ("--port-range", f"{PORTS[0]}-{PORTS[-1]}")
    with running_launch(farm, require_stack(name), "--meet", options=options) as run:
        found = {host.short_name: listening(host) for host in (farm.launcher, *farm.workers)}
        ended = run.end()

    ended.assert_met(6)
    assert all(found[worker.short_name] for worker in farm.workers), found
    outside = {
        (host, at): who
        for host, sockets in found.items()
        for at, who in sockets.items()
        if int(at.rpartition(":")[2]) not in PORTS
    }
    assert outside == {}


@pytest.mark.parametrize("name", ["openmpi4", "mpich4"])
def test_without_a_port_range_something_listens_elsewhere(farm: Farm, name: str) -> None:
    """Or else the test before this one would prove nothing."""
    with running_launch(farm, require_stack(name), "--meet") as run:
        found = [at for host in (farm.launcher, *farm.workers) for at in listening(host)]
        run.end()

    assert [at for at in found if int(at.rpartition(":")[2]) not in PORTS]


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openmpi4", "OMPI_MCA_plm_rsh_args"),
        ("openmpi5", "OMPI_MCA_plm_rsh_args"),
        ("openmpi5", "PRTE_MCA_plm_ssh_args"),
        ("mpich4", "HYDRA_LAUNCHER_EXTRA_ARGS"),
        ("mpich5", "HYDRA_LAUNCHER_EXTRA_ARGS"),
        ("intelmpi", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"),
    ],
)
def test_the_users_ssh_arguments_are_obeyed(farm: Farm, name: str, variable: str) -> None:
    """Open MPI 5 ignores the old name, and its daemons get such a value cut at the `=`."""
    environ = launcher_environ(**{variable: "-o ConnectTimeout=9"})

    ended = launch(farm, require_stack(name), environ=environ)

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm)
    config = "/run/mpi-agent/ssh_config"
    says = farm.launcher.run("ssh", "-G", "-F", config, farm.workers[0].name)
    assert "connecttimeout 9\n" in says.stdout


@ALL_STACKS
def test_the_operators_variables_and_an_old_manifest_line_run_everywhere(
    farm: Farm, name: str
) -> None:
    """As if every kind of mpi-operator had set its own; the line is one of Open MPI 4."""
    hostfile = str(farm.hostfile("{name} slots=2"))
    operators = {
        "K_MPI_JOB_ROLE": "launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": "1",
        "I_MPI_HYDRA_HOST_FILE": hostfile,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "I_MPI_PERHOST": "1",
        "HYDRA_HOST_FILE": hostfile,
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    line = ("mpirun", "-bind-to", "none", "-map-by", "slot", "-x", "LEARNING_RATE")

    ended = launch(
        farm,
        require_stack(name),
        options=("--hostfile", hostfile),
        line=line,
        environ=launcher_environ(**operators, LEARNING_RATE="0.01"),
    )

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm), ended.said
    assert {rank.variable("LEARNING_RATE") for rank in ended.ranks} == {b"0.01"}


@ALL_STACKS
def test_a_launcher_may_be_one_of_the_hosts(farm: Farm, name: str) -> None:
    """By its full name, which MPICH 4 and Open MPI 5 would dial; nobody listens here."""
    hosts = f"{farm.launcher.name}:2,{hosts_of(farm)}"

    ended = launch(farm, require_stack(name), "--meet", options=("--hosts", hosts))

    ended.assert_met(8)
    first = [(0, farm.launcher.short_name), (1, farm.launcher.short_name)]
    assert ended.placed == [*first, *((n + 2, host) for n, host in spread_of(farm))]


@ALL_STACKS
def test_fewer_processes_than_slots_leave_no_host_out(farm: Farm, name: str) -> None:
    """Filled one after the other, two hosts would have all three."""
    ended = launch(farm, require_stack(name), options=("--np", "3"))

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm, slots=1), ended.said


@HYDRAS
def test_one_process_per_host_by_the_users_own_word(farm: Farm, name: str) -> None:
    """With Intel MPI a count in the hostfile wins over -ppn."""
    line = ("mpiexec", "-ppn", "1")

    ended = launch(farm, require_stack(name), line=line)

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm, slots=1), ended.said


def launch_by_stand_in(farm: Farm, does: str, *options: str) -> tuple[int, str, str]:
    """Launch with an mpirun that has Open MPI 5's version and daemon, and does something else."""
    real = require_stack("openmpi5").mpirun
    mpirun = farm.root / "stand-in" / "bin" / "mpirun"
    mpirun.parent.mkdir(parents=True, exist_ok=True)
    version = f'if [ "$1" = --version ]; then exec "{real}" --version; fi'
    mpirun.write_text(f"#!/bin/sh\n{version}\n{does}\n")
    mpirun.chmod(0o755)
    with contextlib.suppress(FileExistsError):
        (mpirun.parent / "prted").symlink_to(Path(real).with_name("prted"))
    ended = farm.launcher.run(
        *agent_words(farm, mpirun, *options), "hostname", environ=launcher_environ()
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_job_that_ran_on_the_launcher_alone_is_no_success(farm: Farm) -> None:
    """Open MPI 5 that finds no hostfile does that, and ends with 0."""
    code, output, said = launch_by_stand_in(farm, "exec hostname")

    assert output == "pi-launcher\n"
    assert code == 78, said
    assert "mpirun dialled 0 of 3 hosts and never pi-worker-[0-2].pi.default.svc" in said
    assert "the program ran on fewer hosts than the job has" in said


def test_a_job_that_left_one_host_out_is_no_success(farm: Farm) -> None:
    """The one that was never dialled is named."""
    ssh = "ssh -F /run/mpi-agent/ssh_config"
    names = " ".join(worker.name for worker in farm.workers[:2])

    code, output, said = launch_by_stand_in(farm, f"for n in {names}; do {ssh} $n hostname; done")

    assert output == "pi-worker-0\npi-worker-1\n"
    assert code == 78, said
    assert "mpirun dialled 2 of 3 hosts and never pi-worker-2.pi.default.svc" in said


def test_a_job_that_may_leave_hosts_out_is_a_success(farm: Farm) -> None:
    """Whoever allows idle hosts has thought of it."""
    code, _, said = launch_by_stand_in(farm, "exec hostname", "--allow-idle-hosts")

    assert code == 0, said


def test_a_shell_that_runs_nothing_does_not_hide_which_hosts_were_dialled(farm: Farm) -> None:
    """Ssh runs the command that leaves our marks in $SHELL, which an image may set to anything."""
    mpi = require_stack("openmpi5")

    ended = launch(farm, mpi, environ=launcher_environ(SHELL="/usr/sbin/nologin"))

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm)


GPUS_OF = {0: 3, 1: 2, 2: 1}
_OWN_DEV = """\
mkdir /run/dev
mount --rbind /dev /run/dev
mount -t tmpfs -o mode=755 tmpfs /dev
for node in null zero full random urandom tty ptmx; do
    touch /dev/$node
    mount --bind /run/dev/$node /dev/$node
done
mkdir /dev/pts /dev/shm
mount --rbind /run/dev/pts /dev/pts
mount --rbind /run/dev/shm /dev/shm
ln -s /proc/self/fd /dev/fd
"""


def give_gpus(host: FarmHost, count: int) -> None:
    """Give a host a /dev of its own, and what looks like GPUs in it."""
    nodes = " ".join(f"/dev/nvidia{number}" for number in range(count))
    done = host.run("sh", "-euc", f"{_OWN_DEV} touch {nodes} /dev/nvidiactl")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def with_gpus() -> Iterator[Farm]:
    """Provide workers with 3, 2 and 1 GPUs: by their variable, by their devices, by both."""
    own = {
        0: {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"},
        2: {"CUDA_VISIBLE_DEVICES": "5"},
    }
    options = FarmOptions(server=Server.AGENT, own_variables=own)
    with farm_of(options=options) as running:
        give_gpus(running.workers[1], 2)
        give_gpus(running.workers[2], 8)
        yield running


def bare_hosts_of(farm: Farm) -> str:
    """Return the workers for --hosts, without any number."""
    return ",".join(worker.name for worker in farm.workers)


@ALL_STACKS
def test_slots_auto_gives_each_host_as_many_ranks_as_it_has_gpus(
    with_gpus: Farm, name: str
) -> None:
    """Hosts differ; no launcher but one that asks them can know."""
    options = ("--hosts", bare_hosts_of(with_gpus), "--slots", "auto")

    ended = launch(with_gpus, require_stack(name), options=options)

    wanted = [f"pi-worker-{host}" for host, gpus in GPUS_OF.items() for _ in range(gpus)]
    assert ended.code == 0, ended.said
    assert ended.placed == list(enumerate(wanted)), ended.said
    assert "GPU" not in ended.said


def test_more_gpus_than_slots_are_told(with_gpus: Farm) -> None:
    """Two of three GPUs would be idle, and the bill the same."""
    options = ("--hosts", hosts_of(with_gpus, slots=1))

    ended = launch(with_gpus, require_stack("openmpi4"), options=options)

    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(with_gpus, slots=1)
    advice = "is slotsPerWorker beside mpiReplicaSpecs?"
    assert notes_of(ended) == [
        f"3 GPUs but 1 slot on pi-worker-0.pi.default.svc: {advice}",
        f"2 GPUs but 1 slot on pi-worker-1.pi.default.svc: {advice}",
    ]


def notes_of(ended: Launched) -> list[str]:
    """Return what the agent noted."""
    return re.findall(r"^mpi-agent: note: (.*GPU.*)$", ended.said, re.MULTILINE)
