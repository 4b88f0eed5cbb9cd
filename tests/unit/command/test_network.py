"""Which network joins some addresses."""

from __future__ import annotations

import pytest

from mpi_agent.command.network import network_of, shared_addresses


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (("10.1.0.2",), "10.1.0.2/32"),
        (("10.1.0.2", "10.1.0.3"), "10.1.0.2/31"),
        (("10.1.0.2", "10.1.3.200", "10.1.1.7"), "10.1.0.0/22"),
        (("10.1.0.2", "10.200.0.2"), "10.0.0.0/8"),
        (("10.1.0.2", "10.1.0.2"), "10.1.0.2/32"),
    ],
)
def test_the_network_is_the_smallest_with_all_addresses(
    addresses: tuple[str, ...], network: str
) -> None:
    """In many clusters the mask of a pod's interface has 32 bits."""
    assert network_of(addresses) == network


@pytest.mark.parametrize(
    "addresses",
    [
        (),
        ("10.1.0.2", "fd77::2"),
        ("::ffff:10.1.0.2",),
        ("10.1.0.2", "192.168.0.2"),
        ("10.1.0.2", "11.1.0.2"),
        ("127.0.0.2", "127.0.0.3"),
        ("169.254.1.1", "169.254.1.2"),
        ("169.0.0.1", "169.255.0.1"),
        ("10.1.0.2", "pi-worker-0"),
    ],
)
def test_a_network_that_says_nothing_is_none(addresses: tuple[str, ...]) -> None:
    """Too wide, of loopback or link-local addresses, or not of IPv4 alone."""
    assert network_of(addresses) is None


def test_an_address_of_several_hosts_is_told_with_their_names() -> None:
    """Behind one node's address, or two names of one pod."""
    addresses = {"pi-worker-0": "10.1.0.2", "pi-worker-1": "10.1.0.2", "pi-worker-2": "10.1.0.3"}

    assert shared_addresses(addresses) == ("10.1.0.2 is the address of 2 hosts: pi-worker-[0-1]",)
    assert shared_addresses({"a": "10.1.0.2", "b": "10.1.0.3"}) == ()
