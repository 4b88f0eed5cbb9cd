"""What a host's lines say of its GPUs, CPUs, memory, limits and directories."""

from __future__ import annotations

import pytest

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.wait.host_facts import read_facts, values_in


def facts_of(*lines: str) -> HostFacts:
    """Return what an answer of these lines tells."""
    return read_facts(values_in("\n".join(lines)))


def test_a_host_that_tells_nothing_is_unknown_and_not_refused() -> None:
    """The answer may have broken off, or the host is none of ours."""
    assert facts_of() == HostFacts()
    assert facts_of("cpus=many", "quota= ", "nonsense", "directory=") == HostFacts()


@pytest.mark.parametrize(
    ("cuda", "nvidia", "nodes", "gpus"),
    [
        ("-unset-", "-unset-", 0, 0),
        ("-unset-", "-unset-", 8, 8),
        ("-unset-", "all", 4, 4),
        ("-unset-", "all", 0, 0),
        ("-unset-", "void", 0, 0),
        ("-unset-", "void", 2, 2),
        ("-unset-", "none", 2, 0),
        ("-unset-", "", 2, 2),
        ("-unset-", "/var/run/nvidia-container-devices", 3, 3),
        ("-unset-", "GPU-1b4c,GPU-77aa", 0, 2),
        ("-unset-", "MIG-1,MIG-2,MIG-3", 1, 3),
        ("-unset-", "MIG-GPU-1b4c/1/0", 1, 1),
        ("0,1", "all", 8, 2),
        ("GPU-1b4c", "GPU-1b4c,GPU-77aa", 2, 1),
        ("0,1,-1,2", "all", 8, 2),
        ("NoDevFiles", "all", 8, 0),
        ("", "all", 8, 0),
    ],
)
def test_gpus_are_those_that_a_program_would_see(
    cuda: str, nvidia: str, nodes: int, gpus: int
) -> None:
    """The narrowest word counts; with CDI the variable says `void` beside devices."""
    told = facts_of(f"cuda={cuda}", f"nvidia={nvidia}", f"nvidia_nodes={nodes}")

    assert told.gpus == gpus


@pytest.mark.parametrize(
    ("nodes", "gpus"),
    [
        ({"kfd": 1, "render": 4}, 4),
        ({"accel": 8}, 8),
        ({"render": 1}, None),
        ({"nvidia": 2, "render": 3}, 2),
    ],
)
def test_gpus_of_other_makers_are_counted_by_their_devices(
    nodes: dict[str, int], gpus: int | None
) -> None:
    """AMD's need the one compute device; a display alone may be a GPU or not."""
    every = {"nvidia": 0, "kfd": 0, "render": 0, "accel": 0} | nodes

    assert facts_of(*(f"{name}_nodes={count}" for name, count in every.items())).gpus == gpus


@pytest.mark.parametrize(
    ("quota", "limit"),
    [
        ("max 100000", None),
        ("-1 100000", None),
        ("200000 100000", 2.0),
        ("50000 100000", 0.5),
        ("0 100000", None),
        ("200000 0", None),
        ("200000 ", None),
    ],
)
def test_a_cpu_limit_is_quota_by_period(quota: str, limit: float | None) -> None:
    """Of either version of cgroups."""
    assert facts_of(f"quota={quota}").cpu_limit == limit


@pytest.mark.parametrize(
    ("lines", "has_rdma"), [((), None), (("rdma=0",), False), (("rdma=2",), True)]
)
def test_rdma_devices_are_there_or_not_or_not_told(
    lines: tuple[str, ...], has_rdma: bool | None
) -> None:
    """Only a host that says so has none."""
    assert facts_of(*lines).has_rdma is has_rdma


def test_directories_are_short_absolute_and_told_once() -> None:
    """TMPDIR comes first, and may be /tmp, or too long for a socket below it."""
    long = "/" + "x" * 40
    lines = (f"directory={path}" for path in ("/scratch/", long, "here", "/tmp", "/scratch"))

    assert facts_of(*lines).directories == ("/scratch", "/tmp")


def test_a_path_is_measured_in_bytes() -> None:
    """As the kernel does."""
    assert facts_of(f"directory=/{'ü' * 20}").directories == ()


@pytest.mark.parametrize(
    ("memory", "limit"),
    [
        ("max", None),
        ("9223372036854771712", None),
        ("9223372036854710272", None),
        ("34359738368", 34359738368),
        ("", None),
        ("-1", None),
    ],
    ids=["second version", "first, 4 KiB pages", "first, 64 KiB pages", "32 GiB", "empty", "-1"],
)
def test_a_memory_limit_that_no_machine_reaches_is_none(memory: str, limit: int | None) -> None:
    """The first version of cgroups has no word for it."""
    assert facts_of(f"memory={memory}").memory_limit_bytes == limit


HEADER = "Filesystem     1024-blocks  Used Available Capacity Mounted on"


@pytest.mark.parametrize(
    ("said", "size"),
    [
        (f"{HEADER} shm 65536 0 65536 0% /dev/shm", 65536 << 10),
        (f"{HEADER} shm 65536 65536 0 100% /dev/shm", 65536 << 10),
        (f"{HEADER} a disk 5 of ours 1000 10 -2 1% /", 1000 << 10),
        (f"{HEADER} none 0 0 0 - /dev/shm", 0),
        (f"{HEADER}", None),
        ("", None),
    ],
)
def test_the_size_of_dev_shm_is_read_behind_whatever_the_file_system_is_called(
    said: str, size: int | None
) -> None:
    """Its name may hold blanks and numbers, and the header is anybody's language."""
    assert facts_of(f"shm={said}").shm_bytes == size


@pytest.mark.parametrize(
    ("lines", "size", "locks_all"),
    [
        (("memlock=8192", "capabilities=00000000a80425fb"), 8 << 20, False),
        (("memlock=8192", "capabilities=00000000a80465fb"), 8 << 20, True),
        (("memlock=8192", "capabilities=0000000000000000"), 8 << 20, False),
        (("memlock=unlimited", "capabilities=0000000000000000"), None, True),
        (("memlock=unlimited",), None, True),
        (("memlock=8192",), 8 << 20, None),
        (("memlock=", "capabilities=0000000000000000"), None, None),
        (("memlock=", "capabilities=none"), None, None),
        ((), None, None),
    ],
)
def test_locked_memory_is_bound_by_its_limit_unless_the_account_is_above_it(
    lines: tuple[str, ...], size: int | None, locks_all: bool | None
) -> None:
    """Nothing is concluded from half an answer."""
    facts = facts_of(*lines)

    assert (facts.memlock_bytes, facts.locks_all_memory) == (size, locks_all)


def test_root_is_uid_0_and_not_unknown() -> None:
    """Nor is one open file none."""
    facts = facts_of("uid=0", "nofile=1048576")

    assert (facts.uid, facts.open_files) == (0, 1048576)
    assert (facts_of("uid=", "nofile=unlimited").uid, facts_of("nofile=unlimited").open_files) == (
        None,
        None,
    )


@pytest.mark.parametrize(
    ("said", "interfaces"),
    [
        ("/sys/class/net/eth0 /sys/class/net/lo /sys/class/net/net1", ("eth0", "net1")),
        ("/sys/class/net/bond0 /sys/class/net/bonding_masters", ("bond0",)),
        ("/sys/class/net/*", ()),
        ("", ()),
    ],
)
def test_interfaces_are_those_that_lead_outside(said: str, interfaces: tuple[str, ...]) -> None:
    """A bond's list of names is no interface."""
    assert facts_of(f"interfaces={said}").interfaces == interfaces
