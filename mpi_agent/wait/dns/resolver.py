"""Does a host's name resolve, as mpirun's ssh will see it; and if not, which kind of "no" is it.

The order is libc's: a literal address, /etc/hosts, then the name servers of resolv.conf with its
search list. Addresses are never remembered, because a replaced pod comes back at a new one. What
is remembered: where a domain's names are found (`wait.dns.forms`), which "no" a cache would only
repeat (`wait.dns.negative`), and what the job's Service lists (`wait.dns.service`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mpi_agent.job.readiness import Obstacle
from mpi_agent.ssh.trust import is_address
from mpi_agent.wait.dns.crowd import OneForAll, Turns
from mpi_agent.wait.dns.forms import Forms
from mpi_agent.wait.dns.lookup import (
    Lookup,
    addresses_by_name,
    is_trouble,
    searches_cluster,
    service_of,
)
from mpi_agent.wait.dns.name_server import NameServers
from mpi_agent.wait.dns.resolv_conf import parse_resolv_conf
from mpi_agent.wait.dns.service import ServiceView, held_up, seen, told

__all__ = ["Lookup", "NameResolver"]

_LIMIT_S = 5.0
_SERVICE_LIMIT_S = 1.5
_MOST_LOOK_UPS_AT_ONCE = 100
"""each has up to two sockets open; a container may have no more than 1,024 descriptors"""
_MISSING = (Obstacle.NAME_UNKNOWN, Obstacle.NAME_EMPTY)


class NameResolver:
    """Asks for host names, thousands at once if need be.

    Args:
        now_s: the monotonic clock by which a "no" rests and a Service holds its pods up.
        limit_s: the longest that one look-up may take, under whatever forms.
    """

    def __init__(
        self,
        *,
        hosts_file: Path = Path("/etc/hosts"),
        resolv_conf: Path = Path("/etc/resolv.conf"),
        now_s: Callable[[], float] = time.monotonic,
        limit_s: float = _LIMIT_S,
    ) -> None:
        settings = parse_resolv_conf(_text_of(resolv_conf))
        self._hosts = _HostsFile(hosts_file)
        self._forms = Forms(settings, NameServers(settings, limit_s=limit_s), now_s=now_s)
        self._search = settings.search
        self._now_s = now_s
        self._limit_s = limit_s
        self._turns = Turns(_MOST_LOOK_UPS_AT_ONCE, patience_s=limit_s)
        self._services: dict[str, ServiceView] = {}
        self._services_asked: OneForAll[ServiceView] = OneForAll()

    def searches_cluster(self) -> bool:
        """Return whether the search list is one that the kubelet writes for `ClusterFirst`.

        Without it, as on the host's network, the short names of a cluster mean nothing.
        """
        return searches_cluster(self._search)

    async def look_up(self, name: str) -> Lookup:
        """Return the addresses of a host, or which kind of "no" came; never raises for "no"."""
        if is_address(name):
            return Lookup(addresses=(name.strip("[]"),))
        if addresses := self._hosts.addresses_of(name):
            return Lookup(addresses=addresses)
        if not await self._turns.take():
            return _nobody_served(name)
        served = False
        try:
            lookup = await self._ask(name)
            served = not is_trouble(lookup)
            return lookup
        finally:
            self._turns.give_back(served=served)

    async def _ask(self, name: str) -> Lookup:
        """Ask for the host's Service where it has one, then for the host."""
        until_s = asyncio.get_running_loop().time() + self._limit_s
        view = await self._view_of_service(name)
        if view is not None and (held := held_up(view, self._now_s())) is not None:
            return _with_words(held, view=None)
        return _with_words(await self._forms.look_up(name, until_s=until_s), view)

    async def _view_of_service(self, name: str) -> ServiceView | None:
        """Return what a host's Service says, asked anew where that is due; None for no Service."""
        service = service_of(name) if self.searches_cluster() else None
        if service is None:
            return None
        view = self._services.get(service)
        if view is None or view.is_due(self._now_s()):
            return await self._services_asked.ask(service, lambda: self._ask_service(service))
        return view

    async def _ask_service(self, service: str) -> ServiceView:
        limit_s = min(self._limit_s, _SERVICE_LIMIT_S)
        until_s = asyncio.get_running_loop().time() + limit_s
        lookup = await self._forms.look_up_service(service, until_s=until_s)
        earlier = self._services.get(service)
        view = seen(service, lookup, earlier=earlier, asked_at_s=self._now_s())
        self._services[service] = view
        return view


class _HostsFile:
    """/etc/hosts, read again when it has changed: the kubelet writes it while the pod starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._addresses: dict[str, tuple[str, ...]] = {}

    def addresses_of(self, name: str) -> tuple[str, ...]:
        """Return the addresses that the file gives for a name now."""
        try:
            status = self._path.stat()
        except OSError:
            return ()
        seen_now = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen_now != self._seen:
            self._addresses = addresses_by_name(_text_of(self._path))
            self._seen = seen_now
        return self._addresses.get(name.lower(), ())


def _nobody_served(name: str) -> Lookup:
    return Lookup(
        addresses=(),
        obstacle=Obstacle.NAME_SERVER_SILENT,
        detail=f'"{name}" was not asked for: no name server answers for any name',
    )


def _with_words(lookup: Lookup, view: ServiceView | None) -> Lookup:
    """Return a "no" whose sentence also says how long it rests and what the Service says."""
    if lookup.obstacle not in _MISSING:
        return lookup
    detail = lookup.detail
    if lookup.rest_s > 0:
        detail += f", may still be cached for {math.ceil(lookup.rest_s)} s"
    if view is not None and (words := told(view)):
        detail += f"; {words}"
    return replace(lookup, detail=detail)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
