"""Asks the name servers of resolv.conf one question, over UDP and, where that is cut short, TCP.

dnspython writes and reads the messages. Its resolver is not used: it knows neither `attempts` nor
`use-vc`, does not notice that nobody listens on port 53 because its sockets are not connected,
measures by the wall clock, and opens as many sockets at once as there are questions (2,000 names
with 1,024 file descriptors: 1,492 came back as failures of the name server; dnspython 2.9.2).

Each question has a socket of its own. Two questions from one port can meet in the connection
tracking of the kernel, which then drops one of them.

Source: kubernetes/kubernetes issue 56903, "DNS intermittent delays of 5s"; resolv.conf(5),
"single-request-reopen".
"""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import dataclass
from enum import Enum

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns.resolv_conf import ResolverSettings

__all__ = ["NameServers", "RecordKind", "Reply"]

_PORT = 53
_LARGEST_DATAGRAM_BYTES = 65535
_SILENCE_S = 10.0
"""for how long a server that did not answer is asked last"""


class RecordKind(Enum):
    """The two kinds of addresses, in the order in which they are told."""

    A = "A"
    AAAA = "AAAA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of one question; obstacle and detail are set exactly when no address came.

    Attributes:
        zone: owner of the SOA record in a "no", empty when there was none.
        ttl_s: for how long a cache may repeat the "no".
    """

    addresses: tuple[str, ...] = ()
    obstacle: Obstacle | None = None
    detail: str = ""
    zone: str = ""
    ttl_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """A server that gave no usable answer; `text` continues the words "name server <address>"."""

    server: str
    obstacle: Obstacle
    text: str
    may_pass: bool = False


class NameServers:
    """The servers of one resolv.conf, asked in turn until one gives a usable answer.

    Args:
        limit_s: the longest that a question may take; every server gets a share of it.
    """

    def __init__(self, settings: ResolverSettings, *, limit_s: float) -> None:
        self._settings = settings
        self._patience_s = min(settings.timeout_s, limit_s / max(1, len(settings.servers)))
        self._silent_until_s: dict[str, float] = {}

    async def ask(self, absolute: str, kind: RecordKind, *, until_s: float) -> Reply:
        """Return the addresses of an absolute name, or which kind of "no" came.

        Args:
            until_s: time of the event loop at which the question is given up.
        """
        name = absolute.rstrip(".")
        if asyncio.get_running_loop().time() >= until_s:
            late = f'"{name}" was not asked for: the time for asking is over'
            return Reply(obstacle=Obstacle.NAME_SERVER_SILENT, detail=late)
        try:
            query = self._query(absolute, kind)
        except dns.exception.DNSException as error:
            detail = f'"{name}" cannot be asked for: {error}'
            return Reply(obstacle=Obstacle.NAME_UNKNOWN, detail=detail)
        troubles: list[_Trouble] = []
        try:
            async with asyncio.timeout_at(until_s):
                message = await self._ask_in_turn(query, troubles)
        except TimeoutError:
            message = None
        return self._no_reply(name, troubles) if message is None else _reply(name, message)

    def _query(self, absolute: str, kind: RecordKind) -> dns.message.QueryMessage:
        query = dns.message.make_query(absolute, kind.value)
        if self._settings.extended:
            query.use_edns(0)
        return query

    async def _ask_in_turn(
        self, query: dns.message.QueryMessage, troubles: list[_Trouble]
    ) -> dns.message.Message | None:
        """Return the first usable answer, None for none; only a silent server is asked again."""
        hopeless: set[str] = set()
        for server in self._servers_in_turn() * self._settings.attempts:
            if server in hopeless:
                continue
            answer = await self._try(server, query)
            if not isinstance(answer, _Trouble):
                return answer
            troubles.append(answer)
            if not answer.may_pass:
                hopeless.add(server)
        return None

    def _servers_in_turn(self) -> tuple[str, ...]:
        """Return the servers in the order of resolv.conf, those that were silent of late last."""
        servers = list(self._settings.servers)
        if self._settings.rotates:
            random.shuffle(servers)
        now_s = asyncio.get_running_loop().time()
        return tuple(sorted(servers, key=lambda s: self._silent_until_s.get(s, now_s) > now_s))

    async def _try(
        self, server: str, query: dns.message.QueryMessage
    ) -> dns.message.Message | _Trouble:
        """Return a server's answer, or why there is none; remember that it was silent."""
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await _exchange(server, query, tcp_only=self._settings.tcp_only)
        except TimeoutError:
            self._silent_until_s[server] = asyncio.get_running_loop().time() + _SILENCE_S
            silence = Obstacle.NAME_SERVER_SILENT
            return _Trouble(server=server, obstacle=silence, text="is silent", may_pass=True)
        self._silent_until_s.pop(server, None)
        return answer

    def _no_reply(self, name: str, troubles: list[_Trouble]) -> Reply:
        """Return what is said when no server gave a usable answer."""
        obstacles = {trouble.obstacle for trouble in troubles}
        texts = [f"name server {trouble.server} {trouble.text}" for trouble in troubles]
        if not texts:
            texts = [f"name server {server} is silent" for server in self._settings.servers]
        reasons = ", ".join(dict.fromkeys(texts)) or "no name server is configured"
        return Reply(
            obstacle=Obstacle.NAME_SERVER_FAILED
            if Obstacle.NAME_SERVER_FAILED in obstacles
            else Obstacle.NAME_SERVER_SILENT,
            detail=f'no answer for "{name}": {reasons}',
        )


async def _exchange(
    server: str, query: dns.message.QueryMessage, *, tcp_only: bool
) -> dns.message.Message | _Trouble:
    """Return what a server answers, or why that is of no use."""
    failed, silent = Obstacle.NAME_SERVER_FAILED, Obstacle.NAME_SERVER_SILENT
    try:
        answer = None if tcp_only else await _by_udp(server, query)
        if answer is None:
            answer = await dns.asyncquery.tcp(query, server, port=_PORT)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        return _Trouble(server=server, obstacle=silent, text=f"cannot be reached ({reason})")
    except dns.exception.DNSException as error:
        return _Trouble(server=server, obstacle=failed, text=f"sent no DNS answer ({error})")
    if answer.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        return answer
    code = dns.rcode.to_text(answer.rcode())
    return _Trouble(server=server, obstacle=failed, text=f"failed ({code})")


async def _by_udp(server: str, query: dns.message.QueryMessage) -> dns.message.Message | None:
    """Return the answer to a datagram, None when it was cut short.

    The socket is connected: only the server is heard, and its closed port is an error at once.
    """
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        asking.connect((server, _PORT))
        asking.send(query.to_wire())
        while True:
            wire = await loop.sock_recv(asking, _LARGEST_DATAGRAM_BYTES)
            try:
                answer = dns.message.from_wire(wire, raise_on_truncation=True)
            except dns.message.Truncated:
                return None
            if query.is_response(answer):
                return answer


def _reply(name: str, message: dns.message.Message) -> Reply:
    """Return what a usable answer says."""
    try:
        addresses = _addresses_in(message)
    except dns.exception.DNSException as error:
        detail = f'the answer for "{name}" contradicts itself: {error}'
        return Reply(obstacle=Obstacle.NAME_SERVER_FAILED, detail=detail)
    if addresses:
        return Reply(addresses=addresses)
    zone, ttl_s = _negative_ttl(message)
    if message.rcode() == dns.rcode.NXDOMAIN:
        obstacle, detail = Obstacle.NAME_UNKNOWN, f'"{name}" does not exist (NXDOMAIN)'
    else:
        obstacle, detail = Obstacle.NAME_EMPTY, f'"{name}" exists and has no address'
    return Reply(obstacle=obstacle, detail=detail, zone=zone, ttl_s=ttl_s)


def _addresses_in(message: dns.message.Message) -> tuple[str, ...]:
    """Return the addresses at the end of the chain of aliases.

    Raises:
        DNSException: the chain is endless, or a name that does not exist has records.
    """
    assert isinstance(message, dns.message.QueryMessage)
    return tuple(
        record.address
        for record in message.resolve_chaining().answer or ()
        if isinstance(record, dns.rdtypes.IN.A.A | dns.rdtypes.IN.AAAA.AAAA)
    )


def _negative_ttl(message: dns.message.Message) -> tuple[str, int]:
    """Return the zone of a "no" and how long a cache may repeat it.

    Source: RFC 2308 section 5, "the minimum of the minimum field of the SOA record and the TTL of
    the SOA itself".
    """
    for records in message.authority:
        for record in records:
            if isinstance(record, dns.rdtypes.ANY.SOA.SOA):
                return records.name.to_text(), min(records.ttl, record.minimum)
    return "", 0
