"""The cluster's name server, as far as a job sees it: a dnsmasq that knows what was published."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Mapping

import dns.exception
import dns.message
import dns.query

from benchmarks.namespaces import CLUSTER_DOMAIN, NAME_SERVER, ROOT, end, wait_until

SERVICE = "pi.default.svc"


def worker_name(index: int) -> str:
    """Return a worker's name as the operator writes it into the hostfile."""
    return f"pi-worker-{index}.{SERVICE}"


class NameServer:
    """A dnsmasq that stands for the cluster's: it knows what was published, and nothing else."""

    def __init__(self) -> None:
        self._edition = 0
        self._hosts = ROOT / "names"
        self._hosts.touch()
        self._popen = subprocess.Popen(
            [
                *("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root"),
                *("--bind-interfaces", f"--listen-address={NAME_SERVER}", "--local=/#/"),
                *(f"--addn-hosts={self._hosts}", "--pid-file=", "--conf-file=/dev/null"),
                *("--log-facility=-",),
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def publish(self, addresses: Mapping[str, str]) -> float:
        """Make exactly these names known, and the Service's; return since when they are."""
        self._edition += 1
        edition = f"edition-{self._edition}.{CLUSTER_DOMAIN}"
        lines = [
            f"{address} {name}.{CLUSTER_DOMAIN} {SERVICE}.{CLUSTER_DOMAIN}\n"
            for name, address in addresses.items()
        ]
        self._hosts.write_text("".join([*lines, f"{NAME_SERVER} {edition}\n"]))
        wait_until("dnsmasq answers", lambda: _knows(edition) is not None)
        self._popen.send_signal(signal.SIGHUP)
        return wait_until("dnsmasq has read the names", lambda: bool(_knows(edition)))

    def close(self) -> None:
        """End it."""
        end(self._popen)


def _knows(name: str) -> bool | None:
    """Return whether the name server has an address for a name; None when it does not answer."""
    try:
        question = dns.message.make_query(name, "A")
        return bool(dns.query.udp(question, NAME_SERVER, timeout=1).answer)
    except (dns.exception.DNSException, OSError):
        return None


@contextlib.contextmanager
def name_server() -> Iterator[NameServer]:
    """Give a name server that knows no name yet."""
    server = NameServer()
    try:
        yield server
    finally:
        server.close()
