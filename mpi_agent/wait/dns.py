"""Does a host's name resolve, as mpirun's ssh will see it; and if not, which kind of "no" is it.

The order is libc's: a literal address, /etc/hosts, then the name servers of resolv.conf with its
search list. Every question is asked anew, because a replaced pod comes back at a new address.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver

from mpi_agent.job.readiness import Obstacle
from mpi_agent.ssh.trust import is_address

__all__ = ["Lookup", "NameResolver", "absolute_names", "addresses_in_hosts_file"]

_LOOKUP_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The answer to one question; obstacle and detail are set exactly when no address came."""

    addresses: tuple[str, ...]
    obstacle: Obstacle | None = None
    detail: str = ""


def absolute_names(name: str, search: tuple[str, ...], ndots: int) -> tuple[str, ...]:
    """Return the absolute forms under which a name is asked, in order.

    A name that ends in `.svc` is completed by the search list alone: no cluster owns the top-level
    domain `svc`, and an upstream "no such domain" may be cached for a day.

    Source: resolv.conf(5), "search" and "ndots".
    """
    if name.endswith("."):
        return (name,)
    completed = tuple(f"{name}.{entry.rstrip('.')}." for entry in search if entry.strip("."))
    if name.endswith(".svc") and completed:
        return completed
    as_it_is = (f"{name}.",)
    return as_it_is + completed if name.count(".") >= ndots else completed + as_it_is


def addresses_in_hosts_file(text: str, name: str) -> tuple[str, ...]:
    """Return the addresses that /etc/hosts gives for a name."""
    found = []
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if name in fields[1:]:
            found.append(fields[0])
    return tuple(found)


class NameResolver:
    """Asks for host names; remembers which search entry answered and asks with that one first."""

    def __init__(
        self,
        *,
        hosts_file: Path = Path("/etc/hosts"),
        resolv_conf: Path = Path("/etc/resolv.conf"),
    ) -> None:
        self._hosts_file = hosts_file
        self._suffix: str | None = None
        self._resolver: dns.asyncresolver.Resolver | None = None
        self._refusal = ""
        try:
            self._resolver = dns.asyncresolver.Resolver(str(resolv_conf))
        except (dns.resolver.NoResolverConfiguration, OSError) as error:
            self._refusal = f"no name server is configured: {error}"

    async def look_up(self, name: str) -> Lookup:
        """Return the addresses of a host, or which kind of "no" came."""
        if is_address(name):
            return Lookup(addresses=(name.strip("[]"),))
        if addresses := addresses_in_hosts_file(self._hosts_text(), name):
            return Lookup(addresses=addresses)
        if self._resolver is None:
            return _no(Obstacle.NAME_SERVER, self._refusal)
        refusal: Lookup | None = None
        give_up_at_s = asyncio.get_running_loop().time() + _LOOKUP_LIMIT_S
        for absolute in self._forms_of(name, self._resolver):
            answer = await self._ask(self._resolver, absolute)
            if answer.addresses:
                self._suffix = absolute[len(name) :]
                return answer
            if refusal is None or answer.obstacle is Obstacle.NAME_SERVER:
                refusal = answer
            if asyncio.get_running_loop().time() >= give_up_at_s:
                break
        return refusal or _no(Obstacle.NAME_MISSING, f'"{name}" is no name to ask for')

    def _forms_of(self, name: str, resolver: dns.asyncresolver.Resolver) -> tuple[str, ...]:
        search = tuple(entry.to_text() for entry in resolver.search)
        ndots = resolver.ndots if resolver.ndots is not None else 1
        forms = absolute_names(name, search, ndots)
        if self._suffix is None:
            return forms
        return tuple(sorted(forms, key=lambda form: form != name + (self._suffix or "")))

    async def _ask(self, resolver: dns.asyncresolver.Resolver, absolute: str) -> Lookup:
        answers = await asyncio.gather(
            *(self._ask_type(resolver, absolute, kind) for kind in ("A", "AAAA"))
        )
        addresses = tuple(address for answer in answers for address in answer.addresses)
        return Lookup(addresses=addresses) if addresses else answers[0]

    async def _ask_type(
        self, resolver: dns.asyncresolver.Resolver, absolute: str, kind: str
    ) -> Lookup:
        name = absolute.rstrip(".")
        try:
            answer = await resolver.resolve(
                dns.name.from_text(absolute), kind, lifetime=_LOOKUP_LIMIT_S
            )
        except dns.resolver.NXDOMAIN:
            return _no(Obstacle.NAME_MISSING, f'"{name}" does not exist (NXDOMAIN)')
        except dns.resolver.NoAnswer:
            return _no(Obstacle.NAME_MISSING, f'"{name}" exists and has no address')
        except dns.resolver.NoNameservers:
            return _no(Obstacle.NAME_SERVER, f'the name server failed on "{name}" (SERVFAIL)')
        except dns.exception.Timeout:
            return _no(Obstacle.NAME_SERVER, f'no name server answered for "{name}" in time')
        except (dns.exception.DNSException, OSError) as error:
            return _no(Obstacle.NAME_SERVER, f'the name server failed on "{name}": {error}')
        return Lookup(addresses=tuple(record.to_text() for record in answer))

    def _hosts_text(self) -> str:
        try:
            return self._hosts_file.read_text(errors="replace")
        except OSError:
            return ""


def _no(obstacle: Obstacle, detail: str) -> Lookup:
    return Lookup(addresses=(), obstacle=obstacle, detail=detail)
