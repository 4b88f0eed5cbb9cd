"""Names of hosts: under which absolute forms they are asked, and which Service lists them.

In Kubernetes a pod's name is `<pod>.<service>[.<namespace>.svc[.<cluster domain>]]`, and the search
list of resolv.conf tells the cluster domain.

Source: Kubernetes documentation, "DNS for Services and Pods"; resolv.conf(5), "search", "ndots".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpi_agent.job.readiness import Obstacle
from mpi_agent.ssh.trust import is_address

__all__ = [
    "Lookup",
    "absolute_names",
    "addresses_by_name",
    "cluster_form",
    "completed",
    "is_trouble",
    "most_telling",
    "parent_of",
    "searches_cluster",
    "service_of",
    "to_report",
]

_MOST_TELLING_FIRST = (
    Obstacle.NAME_SERVER_FAILED,
    Obstacle.NAME_SERVER_SILENT,
    Obstacle.NAME_EMPTY,
    Obstacle.NAME_UNKNOWN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The answer for one name; obstacle and detail are set exactly when no address came.

    Attributes:
        rest_s: seconds for which asking again would bring the same "no", from a cache.
        absolute: the form that answered, with its trailing dot; None for a literal address or a
            line of /etc/hosts. Of a "no", the form that it is about.
        notes: what is odd about an answer.
    """

    addresses: tuple[str, ...]
    obstacle: Obstacle | None = None
    detail: str = ""
    rest_s: float = 0.0
    absolute: str | None = None
    notes: tuple[str, ...] = ()


def absolute_names(name: str, search: tuple[str, ...], ndots: int) -> tuple[str, ...]:
    """Return the absolute forms under which a name is asked, in order.

    A name that ends in `.svc` is completed by the search list alone: no cluster owns the top-level
    domain `svc`, and an upstream "no such domain" may be cached for a day.

    Source: resolv.conf(5), "search" and "ndots".
    """
    if name.endswith("."):
        return (name,)
    by_search = tuple(f"{name}.{entry.rstrip('.')}." for entry in search if entry.strip("."))
    if name.endswith(".svc") and by_search:
        return by_search
    as_it_is = (f"{name}.",)
    return as_it_is + by_search if name.count(".") >= ndots else by_search + as_it_is


def searches_cluster(search: Iterable[str]) -> bool:
    """Return whether a search list is one that the kubelet wrote for `ClusterFirst`."""
    return any(".svc." in f".{entry}." for entry in search)


def cluster_form(name: str, search: Iterable[str]) -> str | None:
    """Return the one absolute form under which a cluster would know a name; None for no cluster."""
    entries = [f".{entry.strip('.')}." for entry in search if ".svc." in f".{entry.strip('.')}."]
    if not entries:
        return None
    if ".svc." in name:
        return f"{name.rstrip('.')}."
    if name.endswith(".svc"):
        return f"{name}.{entries[0].partition('.svc.')[2]}"
    return f"{name}{entries[0]}"


def service_of(name: str) -> str | None:
    """Return the name of the Service that would list a host, None for a name of another shape.

    `host.example.com` has another shape: its domain is nobody's Service.
    """
    labels = name.rstrip(".").split(".")
    if len(labels) == 2 or (len(labels) >= 4 and labels[3] == "svc"):
        return parent_of(name)
    return None


def parent_of(name: str) -> str:
    """Return a name without its first label; empty for a name of one label."""
    return name.partition(".")[2]


def completed(label: str, parent: str, suffix: str) -> str:
    """Return the absolute form of a first label below a parent domain, which may be empty."""
    return f"{label}.{parent}{suffix}" if parent else f"{label}{suffix}"


def is_trouble(lookup: Lookup) -> bool:
    """Return whether the name server, and not the name, is what is wrong."""
    return lookup.obstacle in (Obstacle.NAME_SERVER_FAILED, Obstacle.NAME_SERVER_SILENT)


def most_telling(noes: Iterable[Lookup]) -> Lookup:
    """Return the "no" that says most: trouble of the server, then a name without addresses.

    Among equals it is the first.
    """
    return min(noes, key=_rank)


def to_report(name: str, noes: Sequence[Lookup], search: Iterable[str]) -> Lookup:
    """Return the "no" to tell of those that came for a name's forms.

    Where a name says of itself that it is a cluster's, the "no" for its form in the cluster is the
    whole truth: a cluster without internet has an upstream server that fails on all others.
    """
    likeliest = cluster_form(name, search)
    own = [no for no in noes if no.absolute == likeliest]
    if own and ".svc." in f"{name}.":
        return own[0]
    return most_telling([*own, *noes])


def _rank(no: Lookup) -> int:
    assert no.obstacle is not None, "an answer is no no"
    return _MOST_TELLING_FIRST.index(no.obstacle)


def addresses_by_name(hosts_text: str) -> dict[str, tuple[str, ...]]:
    """Return the addresses that /etc/hosts gives for each name, in lower case.

    Source: hosts(5); glibc compares without regard to case (nss/nss_files/files-hosts.c).
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in hosts_text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address):
            for name in {name.lower() for name in names}:
                found[name] = (*found.get(name, ()), address)
    return found
