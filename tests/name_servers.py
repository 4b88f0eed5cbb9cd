"""Name servers for tests: a real dnsmasq, and one that says what dnsmasq cannot be made to say."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import socketserver
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from tests.waiting import wait_until
from tests.workers import free_address

__all__ = [
    "Answer",
    "Dnsmasq",
    "HandClock",
    "Question",
    "Rule",
    "ScriptedServer",
    "Silence",
    "needs_port_53",
    "running_dnsmasq",
    "running_server",
    "wildcard",
    "write_resolv_conf",
]

CLUSTER_ZONE = "svc.corp.internal."
SEARCH = ("default.svc.corp.internal", "svc.corp.internal", "corp.internal")
_PORT = 53

needs_port_53 = pytest.mark.skipif(os.getuid() != 0, reason="port 53 needs root")


class HandClock:
    """A monotonic clock that stands still until it is set forward."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self._now_s

    def pass_s(self, seconds: float) -> None:
        """Set it forward."""
        self._now_s += seconds


def write_resolv_conf(
    path: Path, *servers: str, search: tuple[str, ...] = SEARCH, options: str = "ndots:5"
) -> Path:
    """Write a resolv.conf like a pod's; return its path."""
    lines = [f"nameserver {server}" for server in servers]
    if search:
        lines.append("search " + " ".join(search))
    path.write_text("\n".join([*lines, f"options {options}", ""]))
    return path


class Dnsmasq:
    """A dnsmasq of our own that knows what its hosts file says, and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.address, _ = free_address()
        self.hosts = directory / "hosts"
        self.hosts.write_text("")
        self.resolv_conf = write_resolv_conf(directory / "resolv.conf", self.address)
        self._log = (directory / "log").open("w+")
        self.process = subprocess.Popen(
            [
                *("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts"),
                *("--bind-interfaces", f"--listen-address={self.address}", f"--port={_PORT}"),
                *(f"--addn-hosts={self.hosts}", "--local=/#/", "--log-queries"),
                *("--log-facility=-", "--pid-file=", "--user=root", "--conf-file=/dev/null"),
            ],
            stderr=self._log,
            stdout=self._log,
        )

    def publish(self, name: str, address: str) -> None:
        """Make a name known and list it under its Service, as CoreDNS does for a ready pod."""
        with self.hosts.open("a") as stream:
            stream.write(f"{address} {name} {name.partition('.')[2]}\n")
        self.process.send_signal(1)

    def asked(self) -> str:
        """Return the log of questions."""
        return Path(self._log.name).read_text()

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(timeout=10)
        self._log.close()


@contextlib.contextmanager
def running_dnsmasq(directory: Path) -> Iterator[Dnsmasq]:
    """Give a dnsmasq that is up; skip the test where it is not installed."""
    if shutil.which("dnsmasq") is None:
        pytest.skip("dnsmasq is not installed")
    made = Dnsmasq(directory)
    try:
        wait_until("dnsmasq is up", lambda: "started" in made.asked())
        yield made
    finally:
        made.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question as it came; the name without its trailing dot."""

    name: str
    kind: str
    over_tcp: bool
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a rule makes the server say.

    Attributes:
        ttl_s: of the SOA record that comes with a "no"; None for no such record.
        truncated: True to cut it short, as a datagram that is too small does.
    """

    addresses: tuple[str, ...] = ()
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    ttl_s: int | None = None
    truncated: bool = False


class Silence(Enum):
    """What a rule returns for a question that stays without an answer."""

    KEPT = "kept"


Rule = Callable[[Question], Answer | Silence | None]
"""asked before the records; None leaves the question to the next rule, and to the records"""


class ScriptedServer:
    """The authority of two zones, the cluster's and the root, or a cache of them.

    Attributes:
        records: addresses by name, in absolute form without trailing dots.
        rules: exceptions, asked first.
        questions: every question that came, in order.
        no_ttl_s: the whole TTL of a "no".
        cached_zones: zones whose "no" counts down, and is repeated until its end.
    """

    def __init__(self, address: str, now_s: Callable[[], float]) -> None:
        self.address = address
        self.records: dict[str, tuple[str, ...]] = {}
        self.rules: list[Rule] = []
        self.questions: list[Question] = []
        self.no_ttl_s = 86400
        self.cached_zones: set[str] = set()
        self._now_s = now_s
        self._denied_until_s: dict[tuple[str, str], float] = {}

    def publish(self, name: str, address: str) -> None:
        """Make a name known and list it under its Service, as CoreDNS does for a ready pod."""
        service = name.partition(".")[2]
        self.records[name] = (address,)
        self.records[service] = (*self.records.get(service, ()), address)

    def asked(self, part: str = "") -> list[Question]:
        """Return the questions for names in which `part` occurs."""
        return [question for question in self.questions if part in question.name]

    def answer(self, question: Question) -> Answer | Silence:
        """Return what is said to one question, by the rules or else by the records."""
        self.questions.append(question)
        for rule in self.rules:
            if (ruled := rule(question)) is not None:
                return ruled
        return self._by_cache(question) or self._by_records(question)

    def _by_cache(self, question: Question) -> Answer | None:
        left_s = self._denied_until_s.get((question.name, question.kind), 0.0) - self._now_s()
        return Answer(rcode=dns.rcode.NXDOMAIN, ttl_s=int(left_s)) if left_s > 0 else None

    def _by_records(self, question: Question) -> Answer:
        addresses = self.records.get(question.name, ())
        of_kind = tuple(a for a in addresses if (":" in a) == (question.kind == "AAAA"))
        if addresses:
            return Answer(addresses=of_kind, ttl_s=self.no_ttl_s)
        if zone_of(question.name) in self.cached_zones:
            until_s = self._now_s() + self.no_ttl_s
            self._denied_until_s[(question.name, question.kind)] = until_s
        return Answer(rcode=dns.rcode.NXDOMAIN, ttl_s=self.no_ttl_s)


def zone_of(name: str) -> str:
    """Return the zone a name is in."""
    return CLUSTER_ZONE if f"{name}.".endswith(f".{CLUSTER_ZONE}") else "."


def wildcard(domain: str, address: str) -> Rule:
    """Return a rule by which every name under a domain has an A record."""

    def rule(question: Question) -> Answer | None:
        if not question.name.endswith(f".{domain}"):
            return None
        return Answer(addresses=(address,) if question.kind == "A" else ())

    return rule


@contextlib.contextmanager
def running_server(
    address: str | None = None, *, now_s: Callable[[], float] = time.monotonic
) -> Iterator[ScriptedServer]:
    """Give a scripted server that listens on port 53 of a loopback address."""
    server = ScriptedServer(address or free_address()[0], now_s)
    with _udp_listener(server) as udp, _tcp_listener(server) as tcp:
        threads = [threading.Thread(target=each.serve_forever, args=(0.02,)) for each in (udp, tcp)]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            udp.shutdown()
            tcp.shutdown()
            for thread in threads:
                thread.join()


def _udp_listener(server: ScriptedServer) -> socketserver.UDPServer:
    class OnDatagram(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            wire, listening = self.request
            if reply := _reply(server, wire, over_tcp=False):
                listening.sendto(reply, self.client_address)

    class Listener(socketserver.UDPServer):
        address_family = _family(server.address)
        max_packet_size = 65535

    return Listener((server.address, _PORT), OnDatagram)


def _tcp_listener(server: ScriptedServer) -> socketserver.TCPServer:
    class OnConnection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            (length,) = struct.unpack("!H", self.rfile.read(2))
            if reply := _reply(server, self.rfile.read(length), over_tcp=True):
                self.wfile.write(struct.pack("!H", len(reply)) + reply)

    class Listener(socketserver.TCPServer):
        address_family = _family(server.address)
        allow_reuse_address = True

    return Listener((server.address, _PORT), OnConnection)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _reply(server: ScriptedServer, wire: bytes, *, over_tcp: bool) -> bytes | None:
    """Return the message that answers a message, None for silence."""
    request = dns.message.from_wire(wire)
    asked = request.question[0]
    kind = dns.rdatatype.to_text(asked.rdtype)
    name = asked.name.to_text(omit_final_dot=True)
    answer = server.answer(Question(name=name, kind=kind, over_tcp=over_tcp, at_s=time.monotonic()))
    if isinstance(answer, Silence):
        return None
    response = dns.message.make_response(request)
    response.set_rcode(answer.rcode)
    if answer.truncated and not over_tcp:
        response.flags |= dns.flags.TC
    elif answer.addresses:
        response.answer = [dns.rrset.from_text(asked.name, 30, "IN", kind, *answer.addresses)]
    elif answer.ttl_s is not None:
        response.authority = [_start_of_authority(name, answer.ttl_s)]
    return response.to_wire(max_size=65535)


def _start_of_authority(name: str, ttl_s: int) -> dns.rrset.RRset:
    """Return a SOA record as a cache sends it: what is left of the "no" is the record's own TTL."""
    fields = "ns.invalid. hostmaster.invalid. 1 7200 1800 86400 86400"
    return dns.rrset.from_text(zone_of(name), ttl_s, "IN", "SOA", fields)
