"""What counts when a source is read again."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.discover.changes import change_between, with_all_of
from mpi_agent.job.hosts import DiscoveredHosts, HostEntry
from tests.builders import a_host_list


def listed(*names: str) -> DiscoveredHosts:
    """Return what a source lists."""
    entries = tuple(HostEntry(name=name) for name in names)
    return DiscoveredHosts(entries=entries, source="discover_hosts.sh")


def test_the_same_hosts_are_no_change() -> None:
    """However often they are read; the source may call itself otherwise."""
    assert change_between(a_host_list(2), replace(a_host_list(2), source="elsewhere")) is None


def test_a_change_tells_who_came_and_who_went() -> None:
    """In the order of the list in which each stands."""
    before, after = a_host_list(2), a_host_list(4)

    up, down = change_between(before, after), change_between(after, before)

    assert up is not None
    assert down is not None
    assert (up.hosts, up.added, up.removed) == (after, after.names[2:], ())
    assert (down.hosts, down.added, down.removed) == (before, (), after.names[2:])


def test_other_slots_change_the_job_without_naming_anybody() -> None:
    """The plan is another one."""
    change = change_between(a_host_list(2), a_host_list(2, slots=4))

    assert change is not None
    assert (change.added, change.removed) == ((), ())


def test_who_is_no_longer_listed_stays_behind_those_who_are() -> None:
    """With the entry as it was read first."""
    merged = with_all_of(listed("a", "b"), listed("c", "b"))

    assert [entry.name for entry in merged.entries] == ["c", "b", "a"]
