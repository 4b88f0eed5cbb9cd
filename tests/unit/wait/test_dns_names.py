"""Under which absolute names a host is asked."""

from __future__ import annotations

import pytest

from mpi_agent.wait.dns import absolute_names, addresses_in_hosts_file

SEARCH = ("default.svc.corp.internal", "svc.corp.internal", "corp.internal")


def test_an_operators_name_is_only_asked_where_a_cluster_can_own_it() -> None:
    """`....svc.` belongs to nobody, and its "no" may be cached upstream for a day."""
    names = absolute_names("w-0.pi.default.svc", SEARCH, ndots=5)

    assert names == tuple(f"w-0.pi.default.svc.{entry}." for entry in SEARCH)


@pytest.mark.parametrize(
    ("name", "ndots", "first"),
    [
        ("w-0", 5, "w-0.default.svc.corp.internal."),
        ("w-0.pi", 1, "w-0.pi."),
        ("w-0.pi.", 5, "w-0.pi."),
    ],
)
def test_the_order_is_that_of_the_resolver(name: str, ndots: int, first: str) -> None:
    """A name with enough dots is tried as it is first."""
    assert absolute_names(name, SEARCH, ndots)[0] == first


def test_without_a_search_list_the_name_itself_is_asked() -> None:
    """Outside of a cluster there is nothing to complete it with."""
    assert absolute_names("w-0.pi.default.svc", (), ndots=1) == ("w-0.pi.default.svc.",)


def test_the_hosts_file_counts() -> None:
    """As it does for ssh."""
    text = "127.0.0.1 localhost\n10.0.0.7 w-0.pi.default.svc w-0 # me\nfd00::7 w-0\n"

    assert addresses_in_hosts_file(text, "w-0") == ("10.0.0.7", "fd00::7")
    assert addresses_in_hosts_file(text, "me") == ()
