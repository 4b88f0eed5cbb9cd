"""Under which absolute names a host is asked, and which "no" is told."""

from __future__ import annotations

import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns.lookup import (
    Lookup,
    absolute_names,
    addresses_by_name,
    cluster_form,
    completed,
    most_telling,
    parent_of,
    searches_cluster,
    service_of,
    to_report,
)

SEARCH = ("default.svc.corp.internal", "svc.corp.internal", "corp.internal")


def a_no(obstacle: Obstacle, absolute: str = "w-0.pi.") -> Lookup:
    """Return a "no" of one kind."""
    return Lookup(addresses=(), obstacle=obstacle, detail="why", absolute=absolute)


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
    text = "127.0.0.1 localhost\n10.0.0.7 w-0.pi.default.svc W-0 # me\nfd00::7 w-0 w-0\n"

    addresses = addresses_by_name(text)

    assert addresses["w-0"] == ("10.0.0.7", "fd00::7")
    assert "me" not in addresses


def test_what_is_no_line_of_a_hosts_file_is_skipped() -> None:
    """A half-written file must not give a host the wrong address."""
    assert addresses_by_name("\n# all\n10.0.0 w-0\n10.0.0.7\n") == {}


@pytest.mark.parametrize(
    ("search", "claim"),
    [
        (("default.svc.cluster.local", "svc.cluster.local", "cluster.local"), True),
        (("svc.cluster.local.",), True),
        (("cluster.local",), False),
        (("mysvc.example.com",), False),
        ((), False),
    ],
)
def test_a_cluster_is_searched_where_an_entry_has_the_label_svc(
    search: tuple[str, ...], claim: bool
) -> None:
    """The kubelet writes such entries, nobody else does."""
    assert searches_cluster(search) is claim


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("w-0.pi.default.svc", "w-0.pi.default.svc.corp.internal."),
        ("w-0.pi.default.svc.corp.internal", "w-0.pi.default.svc.corp.internal."),
        ("w-0.pi", "w-0.pi.default.svc.corp.internal."),
        ("pi", "pi.default.svc.corp.internal."),
    ],
)
def test_the_search_list_tells_the_clusters_form_of_a_name(name: str, form: str) -> None:
    """However short the name is."""
    assert cluster_form(name, SEARCH) == form


def test_without_a_cluster_there_is_no_such_form() -> None:
    """On the host's network."""
    assert cluster_form("w-0.pi", ("corp.internal",)) is None


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("w-0.pi", "pi"),
        ("w-0.pi.default.svc", "pi.default.svc"),
        ("w-0.pi.default.svc.cluster.local", "pi.default.svc.cluster.local"),
        ("w-0", None),
        ("w-0.example.com", None),
        ("a.b.c.d.e", None),
    ],
)
def test_a_pods_name_tells_its_service(name: str, service: str | None) -> None:
    """A machine's domain is nobody's Service."""
    assert service_of(name) == service


def test_a_first_label_is_exchanged_in_a_domain_or_without_one() -> None:
    """So a name beside a host's own is made."""
    assert completed("x", parent_of("w-0.pi"), ".example.") == "x.pi.example."
    assert completed("x", parent_of("w-0"), ".example.") == "x.example."


def test_trouble_of_the_server_says_more_than_a_missing_name() -> None:
    """And among equals the first form does."""
    unknown, other = a_no(Obstacle.NAME_UNKNOWN), a_no(Obstacle.NAME_UNKNOWN, "w-0.")
    empty, failed = a_no(Obstacle.NAME_EMPTY), a_no(Obstacle.NAME_SERVER_FAILED)

    assert most_telling([unknown, empty, failed]) is failed
    assert most_telling([unknown, empty]) is empty
    assert most_telling([unknown, other]) is unknown


def test_a_clusters_name_is_judged_by_its_form_in_the_cluster() -> None:
    """What fails elsewhere is nobody's trouble."""
    name = "w-0.pi.default.svc"
    failed = a_no(Obstacle.NAME_SERVER_FAILED, f"{name}.example.")
    unknown = a_no(Obstacle.NAME_UNKNOWN, f"{name}.corp.internal.")

    assert to_report(name, [failed, unknown], SEARCH) is unknown


def test_a_name_that_may_be_anywhere_is_judged_by_all_forms() -> None:
    """A machine's name is asked upstream; there it fails."""
    failed = a_no(Obstacle.NAME_SERVER_FAILED, "w-0.pi.")
    unknown = a_no(Obstacle.NAME_UNKNOWN, "w-0.pi.default.svc.corp.internal.")

    assert to_report("w-0.pi", [unknown, failed], SEARCH) is failed
