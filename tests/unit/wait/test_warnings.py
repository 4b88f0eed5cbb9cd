"""What is said of hosts that have too little of something."""

from __future__ import annotations

import pytest

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.wait.warnings import host_warnings

MIB = 1 << 20


def with_rdma(**values: int | bool) -> HostFacts:
    """Return a host with an RDMA device and 8 MiB that may be locked, unless told otherwise."""
    told = {"memlock_bytes": 8 * MIB, "locks_all_memory": False, "uid": 0} | values
    return HostFacts(has_rdma=True, **told)  # type: ignore[arg-type]


def test_hosts_that_tell_nothing_are_not_warned_of() -> None:
    """Neither are no hosts."""
    assert host_warnings({"w-0": HostFacts(), "w-1": HostFacts(has_rdma=True)}) == ()
    assert host_warnings({}) == ()


def test_a_small_dev_shm_is_named_with_the_manifest_lines_that_help() -> None:
    """Once for all hosts with the same size."""
    facts = {f"w-{n}": HostFacts(shm_bytes=64 * MIB) for n in range(3)}
    enough = HostFacts(shm_bytes=256 * MIB)

    (warning,) = host_warnings({**facts, "w-3": enough})

    assert warning.startswith("/dev/shm has 64 MiB on w-[0-2], too little for many programs: ")
    assert "volumeMounts: [{name: shm, mountPath: /dev/shm}]" in warning
    assert "volumes: [{name: shm, emptyDir: {medium: Memory}}]" in warning


def test_two_sizes_are_two_sentences() -> None:
    """The smaller one may have another reason."""
    facts = {"w-0": HostFacts(shm_bytes=64 * MIB), "w-1": HostFacts(shm_bytes=64 << 10)}

    first, second = host_warnings(facts)

    assert "64 MiB on w-0" in first
    assert "64 KiB on w-1" in second


def test_root_is_told_the_capability_that_lifts_the_limit_on_locked_memory() -> None:
    """It counts for root at once."""
    (warning,) = host_warnings({"w-0": with_rdma(uid=0), "w-1": with_rdma(uid=0)})

    assert "may lock 8 MiB of memory on w-[0-1]" in warning
    assert "capabilities: {add: [IPC_LOCK]}" in warning


def test_others_are_told_to_raise_the_nodes_limit_and_nothing_of_a_capability() -> None:
    """To them it does not come through."""
    (warning,) = host_warnings({"w-0": with_rdma(uid=1000)})

    assert "LimitMEMLOCK=infinity" in warning
    assert "IPC_LOCK" not in warning


@pytest.mark.parametrize(
    "host",
    [
        with_rdma(locks_all_memory=True),
        with_rdma(memlock_bytes=1 << 30),
        HostFacts(has_rdma=False, memlock_bytes=8 * MIB, locks_all_memory=False, uid=0),
        HostFacts(memlock_bytes=8 * MIB, locks_all_memory=False, uid=0),
        HostFacts(has_rdma=True, memlock_bytes=8 * MIB, uid=0),
    ],
    ids=["no limit", "enough", "no device", "perhaps a device", "perhaps no limit"],
)
def test_locked_memory_is_a_matter_of_rdma_and_of_a_limit_that_counts(host: HostFacts) -> None:
    """Whoever has no such device needs none, and whoever may lock all is not bound."""
    assert host_warnings({"w-0": host}) == ()
