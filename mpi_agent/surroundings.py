"""What is around a launch, as far as defaults depend on it: networks, devices, directories."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mpi_agent.command.network import network_of
from mpi_agent.command.plan import Surroundings
from mpi_agent.container import has_rdma, own_address_towards, reads_other_processes
from mpi_agent.job.host_facts import HostFacts, shared_directories

__all__ = ["surroundings_of"]

_USUAL_DIRECTORY = "/tmp"


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
        has_rdma=has_rdma(),
        reads_other_processes=reads_other_processes(),
        session_directory=_session_directory(facts),
    )


def _session_directory(facts: Mapping[str, HostFacts]) -> str | None:
    """Return a directory that is writable everywhere where /tmp is not; None where it is."""
    if all(_USUAL_DIRECTORY in host.directories for host in facts.values()):
        return None
    shared = shared_directories(facts.values())
    return next((path for path in shared if os.access(path, os.W_OK)), None)
