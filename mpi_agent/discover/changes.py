"""What has changed when a source is read again, and what of it counts.

A hostfile tells who is expected, so the job follows it up and down. A discover script tells only
who runs at the moment: a host that it no longer lists is still expected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpi_agent.job.hosts import DiscoveredHosts, HostList

__all__ = ["HostChange", "change_between", "with_all_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChange:
    """The job's hosts after a change; both names are empty where only slots are others."""

    hosts: HostList
    added: tuple[str, ...]
    removed: tuple[str, ...]


def change_between(before: HostList, after: HostList) -> HostChange | None:
    """Return what is new, None when nothing is."""
    if after.hosts == before.hosts:
        return None
    old, new = frozenset(before.names), frozenset(after.names)
    return HostChange(
        hosts=after,
        added=tuple(name for name in after.names if name not in old),
        removed=tuple(name for name in before.names if name not in new),
    )


def with_all_of(before: DiscoveredHosts, now: DiscoveredHosts) -> DiscoveredHosts:
    """Return what a source tells now, with the hosts that it told before and leaves out."""
    listed = {entry.name for entry in now.entries}
    missing = tuple(entry for entry in before.entries if entry.name not in listed)
    return replace(now, entries=(*now.entries, *missing))
