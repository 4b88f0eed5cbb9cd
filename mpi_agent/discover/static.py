"""Hosts that the user listed on the command line: `--hosts a:2,b:2` or mpirun's own `-H`."""

from __future__ import annotations

from mpi_agent.discover.hostfile import merge_repeated, parse_hostfile
from mpi_agent.job.hosts import DiscoveredHosts

__all__ = ["parse_host_list"]


def parse_host_list(text: str, *, place: str) -> DiscoveredHosts:
    """Return the hosts of a comma-separated list, in the user's order.

    Raises:
        HostSourceInvalidError: an item is not `NAME` or `NAME:SLOTS`; names the item.
    """
    items = "\n".join(text.split(","))
    entries, notes = merge_repeated(parse_hostfile(items, place=place, unit="item"))
    return DiscoveredHosts(entries=entries, source=place, notes=notes)
