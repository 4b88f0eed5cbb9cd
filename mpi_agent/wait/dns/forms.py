"""Asks for a name under its absolute forms, until one has addresses.

Where names of a domain are found is remembered, so that the other forms are asked no more. A
wildcard record would poison that: it answers for every name, also for those that are still to come
under another search entry. So a search entry is remembered only after a name that nobody has
was asked for under it, once for each domain, and did not resolve.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns.crowd import OneForAll
from mpi_agent.wait.dns.lookup import (
    Lookup,
    absolute_names,
    cluster_form,
    completed,
    is_trouble,
    most_telling,
    parent_of,
    to_report,
)
from mpi_agent.wait.dns.name_server import NameServers, RecordKind, Reply
from mpi_agent.wait.dns.negative import Denial, Denials
from mpi_agent.wait.dns.resolv_conf import ResolverSettings

__all__ = ["Forms"]

_LAGGARD_S = 0.1
"""how long the second kind of address may take once the first has decided"""
_WILDCARD_LIMIT_S = 1.0
_TROUBLE_REST_S = 10.0
"""how long a form is left alone on which a server fails that answers for other forms"""


class Forms:
    """Asks name servers for names as they stand in a hostfile; remembers no address.

    Args:
        now_s: the monotonic clock by which a "no" rests.
    """

    def __init__(
        self, settings: ResolverSettings, servers: NameServers, *, now_s: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._kinds = tuple(RecordKind) if settings.asks_ipv6 else (RecordKind.A,)
        self._now_s = now_s
        self._denials = Denials()
        self._resting: dict[str, tuple[Lookup, float]] = {}
        self._suffixes: dict[str, str] = {}
        self._wildcards: dict[str, tuple[str, ...]] = {}
        self._wildcards_unknown_until_s: dict[str, float] = {}
        self._nobodies: dict[str, str] = {}
        self._wildcards_asked: OneForAll[tuple[str, ...] | None] = OneForAll()

    async def look_up(self, name: str, *, until_s: float) -> Lookup:
        """Return the addresses of the first form that has any, or the most telling "no".

        Args:
            until_s: time of the event loop at which asking ends.
        """
        return await self._ask_forms(name, self._forms_of(name), until_s)

    async def look_up_service(self, service: str, *, until_s: float) -> Lookup:
        """Return the addresses of a Service, asked for where the cluster would know it.

        Its pods' names are found under the same search entry.
        """
        form = cluster_form(service, self._settings.search) or f"{service}."
        lookup = await self._ask_forms(service, (form,), until_s)
        suffix = form[len(service) :]
        if lookup.addresses and self._suffixes.get(parent_of(service)) == suffix:
            self._suffixes.setdefault(service, suffix)
        return lookup

    def _forms_of(self, name: str) -> tuple[str, ...]:
        """Return the forms to ask; the known one alone, where a domain's names have one.

        Names without a domain, as on a rack, may each be found under another search entry.
        """
        known = self._suffixes.get(parent_of(name))
        if known is not None and parent_of(name):
            return (name + known,)
        forms = absolute_names(name, self._settings.search, self._settings.ndots)
        return tuple(sorted(forms, key=lambda form: form != f"{name}{known}"))

    async def _ask_forms(self, name: str, forms: tuple[str, ...], until_s: float) -> Lookup:
        noes: list[Lookup] = []
        for absolute in forms:
            answer = await self._ask_unless_resting(absolute, until_s)
            if answer.addresses:
                return await self._found(name, answer, until_s)
            if is_trouble(answer) and not all(map(is_trouble, noes)):
                self._resting.setdefault(absolute, (answer, self._now_s() + _TROUBLE_REST_S))
            noes.append(answer)
        no = to_report(name, noes, self._settings.search)
        return replace(no, rest_s=min(no.rest_s for no in noes))

    async def _ask_unless_resting(self, absolute: str, until_s: float) -> Lookup:
        """Return a form's answer, or the "no" that a cache would only repeat."""
        if absolute in self._resting:
            no, rests_until_s = self._resting[absolute]
            if rests_until_s > (now_s := self._now_s()):
                return replace(no, rest_s=rests_until_s - now_s)
            del self._resting[absolute]
        answer = await self._ask(absolute, self._kinds, until_s)
        if answer.rest_s > 0:
            self._resting[absolute] = (answer, self._now_s() + answer.rest_s)
        return answer

    async def _ask(self, absolute: str, kinds: Iterable[RecordKind], until_s: float) -> Lookup:
        """Ask for each kind of address at once; a laggard does not hold up what is decided."""
        async with asyncio.TaskGroup() as group:
            asked = {
                group.create_task(self._servers.ask(absolute, kind, until_s=until_s)): kind
                for kind in kinds
            }
            done, pending = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                decided = any(_decides(asked[task], task.result()) for task in done)
                await asyncio.wait(pending, timeout=_LAGGARD_S if decided else None)
            replies = {asked[task]: task.result() for task in asked if task.done()}
            for task in pending:
                task.cancel()
        return self._joined(absolute, replies)

    def _joined(self, absolute: str, replies: Mapping[RecordKind, Reply]) -> Lookup:
        """Return one answer for both kinds, A before AAAA."""
        in_order = [(kind, replies[kind]) for kind in RecordKind if kind in replies]
        if addresses := tuple(a for _, reply in in_order for a in reply.addresses):
            return Lookup(addresses=addresses, absolute=absolute)
        noes = [
            Lookup(
                addresses=(),
                obstacle=reply.obstacle,
                detail=reply.detail,
                rest_s=self._rest_of(f"{absolute} {kind.value}", reply),
                absolute=absolute,
            )
            for kind, reply in in_order
        ]
        if any(_decides(kind, reply) for kind, reply in in_order):
            noes = [no for no in noes if not is_trouble(no)]
        return replace(most_telling(noes), rest_s=min(no.rest_s for no in noes))

    def _rest_of(self, question: str, reply: Reply) -> float:
        denial = Denial(zone=reply.zone, ttl_s=reply.ttl_s, at_s=self._now_s())
        return self._denials.rest_of(question, denial)

    async def _found(self, name: str, answer: Lookup, until_s: float) -> Lookup:
        """Remember where the domain's names are found, unless every name is found there."""
        assert answer.absolute is not None, "no form has answered"
        parent, suffix = parent_of(name), answer.absolute[len(name) :]
        kinds = {RecordKind.AAAA if ":" in a else RecordKind.A for a in answer.addresses}
        wildcard = await self._wildcard_at(parent, suffix, kinds, until_s)
        if not wildcard:
            if wildcard is not None:
                self._suffixes[parent] = suffix
            return answer
        self._suffixes.pop(parent, None)
        pattern, addresses = completed("*", parent, suffix).rstrip("."), ", ".join(wildcard)
        note = f'"{pattern}" is a wildcard record: every name under it resolves to {addresses}'
        return replace(answer, notes=(note,))

    async def _wildcard_at(
        self, parent: str, suffix: str, kinds: Iterable[RecordKind], until_s: float
    ) -> tuple[str, ...] | None:
        """Return to what every name of a domain resolves, None when that could not be asked.

        Args:
            kinds: those of which an address was found.
        """
        pattern = completed("*", parent, suffix)
        if pattern in self._wildcards:
            return self._wildcards[pattern]
        if self._now_s() < self._wildcards_unknown_until_s.get(pattern, 0.0):
            return None

        async def ask() -> tuple[str, ...] | None:
            label = self._nobodies.setdefault(pattern, secrets.token_hex(4))
            nobody = completed(f"mpi-agent-no-such-host-{label}", parent, suffix)
            limit_s = asyncio.get_running_loop().time() + _WILDCARD_LIMIT_S
            answer = await self._ask(nobody, kinds, min(until_s, limit_s))
            if is_trouble(answer):
                self._wildcards_unknown_until_s[pattern] = self._now_s() + _TROUBLE_REST_S
            else:
                self._wildcards[pattern] = answer.addresses
            return self._wildcards.get(pattern)

        return await self._wildcards_asked.ask(pattern, ask)


def _decides(kind: RecordKind, reply: Reply) -> bool:
    """Return whether a reply for one kind of addresses settles the question for both.

    A name that does not exist has no records of any kind; but servers are known that say so of
    AAAA alone.

    Source: RFC 8020 section 2; RFC 4074 section 4.2, "Return Name Error".
    """
    denied = kind is RecordKind.A and reply.obstacle is Obstacle.NAME_UNKNOWN
    return bool(reply.addresses) or denied
