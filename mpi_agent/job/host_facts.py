"""What one host has: GPUs, CPUs, memory, limits, places for temporary files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["HostFacts", "shared_directories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a session of the job finds on a host; a rank there finds the same.

    Attributes:
        gpus: that a program would see; None where it cannot be told.
        cpu_limit: of the container, in CPUs; None where there is none or nothing tells it.
        cpus: that the kernel would let a program run on; None where it cannot be told.
        directories: with short paths, writable, the most wanted one first.
        has_ssh_config: the launcher's ssh configuration is a readable file there too.
        has_rdma: there is an RDMA device, of any maker; None where it cannot be told.
        uid: of the account; None where it cannot be told.
        memory_limit_bytes: of the container; None where there is none or nothing tells it.
        shm_bytes: size of /dev/shm; None where it cannot be told.
        memlock_bytes: that one process may lock; None where there is no limit, or nothing tells it.
        locks_all_memory: there is no limit, or the account is above it; None where nothing tells.
        open_files: that one process may have; None where there is no limit or nothing tells it.
        interfaces: of the network, without loopback.
        has_leftovers: processes of some run are there; whose it is, their run's id tells.
        launchers: those that began a run there, of any job, as `RunId.launcher` has them; none
            where no agent tells it.
    """

    gpus: int | None = None
    cpu_limit: float | None = None
    cpus: int | None = None
    directories: tuple[str, ...] = ()
    has_ssh_config: bool = False
    has_rdma: bool | None = None
    uid: int | None = None
    memory_limit_bytes: int | None = None
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    locks_all_memory: bool | None = None
    open_files: int | None = None
    interfaces: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    has_leftovers: bool = False

    def __post_init__(self) -> None:
        if self.gpus is not None and self.gpus < 0:
            raise ValueError(f"{self.gpus} GPUs are less than none")
        if self.cpus is not None and self.cpus < 1:
            raise ValueError(f"{self.cpus} CPUs are less than one")
        if self.cpu_limit is not None and self.cpu_limit <= 0:
            raise ValueError(f"a limit of {self.cpu_limit:g} CPUs leaves nothing to run on")


def shared_directories(facts: Iterable[HostFacts]) -> tuple[str, ...]:
    """Return the directories that every host has, in the first one's order; none of no hosts."""
    first, *others = [host.directories for host in facts] or [()]
    return tuple(path for path in first if all(path in other for other in others))
