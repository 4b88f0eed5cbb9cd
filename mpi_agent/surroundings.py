"""What is around a launch, as far as defaults depend on it: networks, devices, directories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mpi_agent.command.network import network_of
from mpi_agent.command.plan import Surroundings
from mpi_agent.container import has_rdma, own_address_towards, process_vm_readv_works
from mpi_agent.job.host_facts import HostFacts, shared_directories
from mpi_agent.wait.host_facts import DIRECTORIES

__all__ = ["session_directory", "surroundings_of"]

_USUAL_DIRECTORY = Path("/tmp")


def surroundings_of(
    addresses: Mapping[str, str | None], facts: Mapping[str, HostFacts]
) -> Surroundings:
    """Return what was found out about this container and the hosts that are reached by ssh.

    Args:
        addresses: of those hosts, by name; None where one is not known.
        facts: of the hosts that told any.
    """
    known = [address for address in addresses.values() if address is not None]
    own = own_address_towards(known[0]) if known else None
    is_complete = bool(known) and len(known) == len(addresses) and own is not None
    return Surroundings(
        network=network_of([*known, own[0]]) if own is not None and is_complete else None,
        launcher_address=own[0] if own is not None else None,
        launcher_interface=own[1] if own is not None else None,
        has_rdma=has_rdma() or any(_may_have_rdma(facts.get(name)) for name in addresses),
        process_vm_readv_works=process_vm_readv_works(),
        session_directory=session_directory(facts),
    )


def _may_have_rdma(host: HostFacts | None) -> bool:
    """Return False only for a host that has told that it has none.

    The usual launcher has no RDMA device where its workers have, so its own answer says nothing
    of theirs.
    """
    return host is None or host.has_rdma is not False


def session_directory(
    facts: Mapping[str, HostFacts], *, usual: Path = _USUAL_DIRECTORY
) -> str | None:
    """Return a directory that is writable everywhere where the usual one is not; None where it is.

    Everywhere means this container too, in which mpirun keeps its files. Where no host has told
    anything, what this container has must do.
    """
    if _is_writable(usual) and all(str(usual) in host.directories for host in facts.values()):
        return None
    candidates = shared_directories(facts.values()) if facts else DIRECTORIES
    return next((path for path in candidates if _is_writable(Path(path))), None)


def _is_writable(directory: Path) -> bool:
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)
