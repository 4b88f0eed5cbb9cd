"""Which network joins the launcher and its hosts, judged by their addresses alone.

A pod's own interface tells nothing: many clusters give it one address with a mask of 32 bits.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from mpi_agent.job.hosts import fold_names

__all__ = ["network_of", "shared_addresses"]

_WIDEST_BITS = 8
_NEVER = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv4Network("169.254.0.0/16"))


def network_of(addresses: Sequence[str]) -> str | None:
    """Return the smallest IPv4 network, as CIDR, to which all of these addresses belong.

    None where there is no address, where one is not IPv4, and where the network would be too wide
    to leave anything out: wider than 8 bits, or with loopback or link-local addresses in it.
    """
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    except ValueError:
        return None
    if not numbers:
        return None
    bits = 32 - (min(numbers) ^ max(numbers)).bit_length()
    if bits < _WIDEST_BITS:
        return None
    network = ipaddress.IPv4Network((numbers[0], bits), strict=False)
    return None if any(network.overlaps(other) for other in _NEVER) else str(network)


def shared_addresses(addresses: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each address that several hosts have.

    Args:
        addresses: by the hosts' names, in host order.
    """
    names_at: dict[str, list[str]] = {}
    for name, address in addresses.items():
        names_at.setdefault(address, []).append(name)
    return tuple(
        f"{address} is the address of {len(names)} hosts: {fold_names(tuple(names))}"
        for address, names in names_at.items()
        if len(names) > 1
    )
