"""Looks at a source again and again while the job is waited for, and tells what has changed.

A source that cannot be understood for a moment is told once, and the hosts known before stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mpi_agent.discover.changes import HostChange, change_between
from mpi_agent.discover.readers import Reader
from mpi_agent.errors import DiscoveryError
from mpi_agent.job.events import EventSink, HostsChanged, Noted
from mpi_agent.job.hosts import DiscoveredHosts, HostList

__all__ = ["Follower"]


class Follower:
    """Follows the hosts that a source names.

    Args:
        hosts: those that are known so far.
        to_host_list: makes the job's hosts of what the source tells; may raise DiscoveryError.
        notes: sentences of the source that were told already.
    """

    def __init__(
        self,
        reader: Reader,
        hosts: HostList,
        *,
        to_host_list: Callable[[DiscoveredHosts], HostList],
        notes: tuple[str, ...],
        emit: EventSink,
    ) -> None:
        self._reader = reader
        self._hosts = hosts
        self._to_host_list = to_host_list
        self._told = set(notes)
        self._emit = emit
        self._is_in_trouble = False

    async def follow(self, take: Callable[[HostList], None]) -> None:
        """Hand over the hosts after each change; never returns."""
        while True:
            change = await self.next_change()
            self._emit(HostsChanged(hosts=change.hosts, added=change.added, removed=change.removed))
            take(change.hosts)

    async def next_change(self) -> HostChange:
        """Return the next change, once there is one."""
        while True:
            await asyncio.sleep(self._reader.pause_s)
            change = await self._look()
            if change is not None:
                return change

    async def _look(self) -> HostChange | None:
        try:
            found = await self._reader.read_if_new()
            if found is None:
                return None
            hosts = self._to_host_list(found)
        except DiscoveryError as error:
            self._tell_trouble(error)
            return None
        self._is_in_trouble = False
        self._tell_notes(found)
        change = change_between(self._hosts, hosts)
        self._hosts = hosts
        return change

    def _tell_trouble(self, error: DiscoveryError) -> None:
        if not self._is_in_trouble:
            self._is_in_trouble = True
            self._emit(Noted(text=f"{error.summary}; the hosts known before are waited for"))

    def _tell_notes(self, found: DiscoveredHosts) -> None:
        for note in found.notes:
            if note not in self._told:
                self._told.add(note)
                self._emit(Noted(text=note))
