"""What hosts have, asked over real logins and real shells; and what this container has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mpi_agent.container import (
    interface_of_pod,
    own_address_towards,
    own_addresses,
    process_vm_readv_works,
)
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.limits import effective_capabilities
from mpi_agent.variable_names import WORKER_CALL_VARIABLE
from mpi_agent.wait.equipment import Equipment, judge_answer, question_line
from mpi_agent.wait.host_facts import FACTS_SCRIPT
from mpi_agent.wait.own_facts import own_facts
from mpi_agent.wait.ssh import LoginProbe
from tests.builders import OPEN_MPI_4_STACK
from tests.fault_matrix import probe_of, terms_of, wait_for
from tests.plain_sshd import SKIPS_BASHRC, running_sshd
from tests.workers import (
    JobKeys,
    RunningWorker,
    dial,
    require_program,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

EQUIPMENT = Equipment(
    stack=OPEN_MPI_4_STACK, daemon="/bin/true", daemon_sha256="", program=None, ssh_config=None
)
MOST_MS = 10.0
ROUNDS = 20
SHELLS = {"dash": ("dash", "-c"), "bash": ("bash", "-c"), "busybox": ("busybox", "sh", "-c")}


def shell_of(name: str) -> tuple[str, ...]:
    """Return how a shell is told a script; skip where it is missing."""
    program, *arguments = SHELLS[name]
    return (require_program(program), *arguments)


def facts_below(
    root: Path, shell: tuple[str, ...], *, ssh_config: str = "", **variables: str
) -> HostFacts:
    """Return what a host tells whose devices, cgroups and directories lie below this one."""
    script = f"echo mpi-agent-answer-begins; {FACTS_SCRIPT} echo mpi-agent-answer-ends"
    for place in ("/dev/", "/sys/", "/tmp ", "/var/tmp ", "/run/"):
        script = script.replace(f" {place}", f" {root}{place}").replace(
            f"<{place}", f"<{root}{place}"
        )
    child = subprocess.run(
        [*shell, script, "sh", "", "", "", "", "", ssh_config],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = judge_answer(EQUIPMENT, None, child.stdout, ended=True, limit_s=1)
    assert answer.facts is not None
    return answer.facts


def make(root: Path, *devices: str, **files: str) -> None:
    """Make empty files for devices, and files by names in which `__` stands for a slash."""
    named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    for name, content in {**dict.fromkeys(devices, ""), **named}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_counts_devices_and_nothing_else(root: Path, shell: str) -> None:
    """`nvidiactl`, `nvidia-uvm` and control nodes are no GPUs."""
    told = [facts_below(root, shell_of(shell)).gpus]
    make(root, "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0", "dev/nvidia1", "dev/nvidia10")
    told.append(facts_below(root, shell_of(shell)).gpus)
    told.append(facts_below(root, shell_of(shell), CUDA_VISIBLE_DEVICES="1").gpus)
    shutil.rmtree(root / "dev")
    make(root, "dev/kfd", "dev/dri/card0", "dev/dri/renderD128", "dev/dri/renderD129")
    told.append(facts_below(root, shell_of(shell)).gpus)
    shutil.rmtree(root / "dev")
    make(root, "dev/accel/accel0", "dev/accel/accel_controlD0")
    told.append(facts_below(root, shell_of(shell)).gpus)

    assert told == [0, 3, 1, 2, 1]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_sees_whether_there_is_an_rdma_device(root: Path, shell: str) -> None:
    """A driver without a device leaves an empty directory."""
    told = [facts_below(root, shell_of(shell)).has_rdma]
    (root / "sys/class/infiniband").mkdir(parents=True)
    told.append(facts_below(root, shell_of(shell)).has_rdma)
    make(root, "sys/class/infiniband/mlx5_0", "sys/class/infiniband/mlx5_1")
    told.append(facts_below(root, shell_of(shell)).has_rdma)

    assert told == [False, False, True]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_reads_the_limit_of_both_cgroups(root: Path, shell: str) -> None:
    """The second version wins; `max` and -1 mean none."""
    v1 = {"sys__fs__cgroup__cpu__cpu_dot_cfs_period_us": "100000\n"}
    quota = "sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us"
    told = [facts_below(root, shell_of(shell)).cpu_limit]
    for files in (
        {**v1, quota: "250000\n"},
        {**v1, quota: "-1\n"},
        {"sys__fs__cgroup__cpu_dot_max": "400000 100000\n"},
        {"sys__fs__cgroup__cpu_dot_max": "max 100000\n"},
    ):
        make(root, **files)
        told.append(facts_below(root, shell_of(shell)).cpu_limit)

    assert told == [None, 2.5, None, 4.0, None]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_reads_the_memory_limit_of_both_cgroups(root: Path, shell: str) -> None:
    """The second version wins; its `max` and the first one's largest number mean none."""
    first = "sys__fs__cgroup__memory__memory_dot_limit_in_bytes"
    second = "sys__fs__cgroup__memory_dot_max"
    told = [facts_below(root, shell_of(shell)).memory_limit_bytes]
    for files in (
        {first: "9223372036854771712\n"},
        {first: "1073741824\n"},
        {second: "34359738368\n"},
        {second: "max\n"},
    ):
        make(root, **files)
        told.append(facts_below(root, shell_of(shell)).memory_limit_bytes)

    assert told == [None, None, 1 << 30, 32 << 30, None]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_tells_its_account_limits_and_interfaces(root: Path, shell: str) -> None:
    """Limits are those of the session, which its ranks inherit."""
    make(root, "dev/shm/file", "sys/class/net/lo", "sys/class/net/eth0", "sys/class/net/net1")
    line = ("prlimit", "--nofile=512", "--memlock=65536", *shell_of(shell))
    require_program("prlimit")

    facts = facts_below(root, line)

    assert facts.uid == os.getuid()
    assert (facts.open_files, facts.memlock_bytes) == (512, 65536)
    assert facts.locks_all_memory is ("CAP_IPC_LOCK" in effective_capabilities())
    assert facts.interfaces == ("eth0", "net1")
    assert facts.shm_bytes == os.statvfs(root).f_blocks * os.statvfs(root).f_frsize // 1024 * 1024


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_finds_directories_files_and_cpus(root: Path, shell: str) -> None:
    """CPUs are those that this process may use, whatever OpenMP is told."""
    scratch = root / "s"
    for path in ("s", "tmp", "dev/shm", "run"):
        (root / path).mkdir(parents=True)
    make(root, "run/mpi-agent", config="Host *\n")

    facts = facts_below(
        root,
        shell_of(shell),
        ssh_config=str(root / "config"),
        TMPDIR=str(scratch),
        OMP_NUM_THREADS="1",
    )

    assert facts.directories == (str(scratch), f"{root}/tmp", f"{root}/dev/shm")
    assert facts.has_ssh_config
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert not facts_below(root, shell_of(shell), ssh_config=f"{root}/none").has_ssh_config


@pytest.mark.parametrize("shell", SHELLS)
def test_every_posix_shell_tells_which_launchers_began_runs_there(root: Path, shell: str) -> None:
    """Where an agent keeps them; once each, and nothing else that stands in the file.

    An older agent does not tell whose job a launcher was of.
    """
    state = root / "state of a worker"
    state.mkdir()
    call = {WORKER_CALL_VARIABLE: str(state / "worker-call")}

    assert facts_below(root, shell_of(shell)).launchers == ()
    assert facts_below(root, shell_of(shell), **call).launchers == ()
    one, other = "0badcafe.00000001", "0badcafe.00000002"
    lines = (one, other, one, "not one", one.upper(), "00000003", "")
    (state / "launchers").write_text("".join(f"{line}\n" for line in lines))
    assert facts_below(root, shell_of(shell), **call).launchers == (one, other)


def test_a_host_that_is_ready_tells_what_its_sessions_have(root: Path, keys: JobKeys) -> None:
    """Over a login of the wait; what a host lacks is no reason to refuse it."""
    config = root / "ssh config"
    config.write_text("")
    environ = {**SKIPS_BASHRC, "CUDA_VISIBLE_DEVICES": "0,1,2", "TMPDIR": str(root)}
    equipment = replace(EQUIPMENT, ssh_config=str(config))
    with running_sshd(keys, root, environ=environ) as sshd:
        login = LoginProbe(terms_of(keys, root), equipment=equipment)
        waited = wait_for(probe_of(login, *sshd.targets), "w-0", timeout_s=20)
        asked_nothing = wait_for(probe_of(terms_of(keys, root), *sshd.targets), "w-0", timeout_s=20)

    facts = waited.host().facts
    assert facts is not None, waited.detail()
    assert (facts.gpus, facts.directories[0], facts.has_ssh_config) == (3, str(root), True)
    assert asked_nothing.host().facts is None


def test_the_launchers_own_container_answers_the_same_question() -> None:
    """For a launcher that is a worker too: nobody logs in there."""
    facts = own_facts({"PATH": os.environ["PATH"], "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"})

    assert (facts.gpus, facts.cpus) == (2, len(os.sched_getaffinity(0)))
    assert "/tmp" in facts.directories


def cpu_of_children_s() -> float:
    """Return the CPU time of all programs that were run and have ended."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.parametrize("shell", SHELLS)
def test_facts_add_a_few_milliseconds_to_the_question(shell: str) -> None:
    """Of CPU time; a thousand hosts are asked. The bound is wide, the figure printed."""
    line = question_line(EQUIPMENT, None)

    def cost_ms(script: str) -> float:
        before_s = cpu_of_children_s()
        for _ in range(ROUNDS):
            subprocess.run([*shell_of(shell), script], stdout=subprocess.DEVNULL, check=True)
        return 1000 * (cpu_of_children_s() - before_s) / ROUNDS

    words = line.replace("/bin/sh -c", f"exec {' '.join(shell_of(shell))}")
    with_facts, without = cost_ms(words), cost_ms(words.replace(FACTS_SCRIPT, ""))

    print(f"{shell}: {with_facts:.1f} ms, of which {with_facts - without:.1f} ms are for the facts")
    assert with_facts - without < MOST_MS


def test_the_way_to_an_address_tells_our_own() -> None:
    """No packet leaves, so nobody need be there."""
    assert own_address_towards("127.0.0.1") == ("127.0.0.1", "lo")
    assert own_address_towards("no address") is None
    for address in own_addresses():
        found = own_address_towards(address)
        assert found is not None
        assert found[0] == address


def test_the_interface_of_the_pod_has_one_of_its_addresses() -> None:
    """Or it is in doubt, as in a network namespace without a route."""
    interface = interface_of_pod()

    if interface is None:
        pytest.skip("this machine has no default route, or several")
    owned = {address.address for address in psutil.net_if_addrs()[interface]}
    assert owned & set(own_addresses())


def test_memory_of_other_processes_is_read_unless_it_is_forbidden() -> None:
    """Nothing forbids it here, or the system says so itself."""
    assert isinstance(process_vm_readv_works(), bool)


def session_variable(worker: RunningWorker, config: Path, name: str) -> str:
    """Return what a session of a worker has in a variable."""
    ended = dial(("ssh",), config, worker.name, f'printf %s "${name}"')
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode()


@pytest.mark.parametrize(
    ("listens_on", "environ", "expected"),
    [
        ("", {}, "interface"),
        ("", {"NCCL_SOCKET_IFNAME": "net1", "GLOO_SOCKET_IFNAME": "net1"}, "net1"),
        ("loopback", {}, ""),
    ],
    ids=["a pod", "told already", "on loopback"],
)
def test_sessions_are_told_the_pods_interface(
    root: Path,
    keys: JobKeys,
    backend: str,
    listens_on: str,
    environ: Mapping[str, str],
    expected: str,
) -> None:
    """NCCL and Gloo would guess it; unless somebody told them, or all is on one machine."""
    require_program("ssh")
    own = interface_of_pod()
    if own is None:
        pytest.skip("this machine has no default route, or several")
    everywhere = () if listens_on else ("--listen-address", "0.0.0.0")
    with running_worker(keys, root, "--sshd", backend, *everywhere, environ=environ) as worker:
        config = write_ssh_config(keys, root, (worker,))
        told = {
            session_variable(worker, config, name)
            for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
        }

    assert told == {own if expected == "interface" else expected}
