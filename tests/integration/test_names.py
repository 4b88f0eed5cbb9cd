"""Names asked of a real name server."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns import Lookup, NameResolver
from tests.waiting import wait_until
from tests.workers import free_address

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("dnsmasq") is None, reason="dnsmasq is not installed"),
    pytest.mark.skipif(os.getuid() != 0, reason="port 53 needs root"),
]
DOMAIN = "svc.corp.internal"


class NameServer:
    """A dnsmasq of our own that knows what its hosts file says, and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.hosts = directory / "hosts"
        self.hosts.write_text("")
        self.resolv_conf = directory / "resolv.conf"
        self.address, _ = free_address()
        self.resolv_conf.write_text(
            f"search default.{DOMAIN} {DOMAIN} corp.internal\n"
            f"nameserver {self.address}\noptions ndots:5\n"
        )
        self._log = (directory / "log").open("w+")
        self.process = subprocess.Popen(
            [
                *("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts"),
                *("--bind-interfaces", f"--listen-address={self.address}", "--port=53"),
                *(f"--addn-hosts={self.hosts}", "--local=/#/", "--log-queries"),
                *("--log-facility=-", "--pid-file=", "--user=root", "--conf-file=/dev/null"),
            ],
            stderr=self._log,
            stdout=self._log,
        )

    def publish(self, name: str, address: str) -> None:
        """Make a name known, as CoreDNS does when its pod becomes Ready."""
        with self.hosts.open("a") as stream:
            stream.write(f"{address} {name}\n")
        self.process.send_signal(1)

    def asked(self) -> str:
        """Return the log of questions."""
        return Path(self._log.name).read_text()

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(timeout=10)
        self._log.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NameServer]:
    """Provide a name server that is up."""
    made = NameServer(tmp_path)
    try:
        wait_until("dnsmasq", lambda: "started" in made.asked())
        yield made
    finally:
        made.close()


def look_up(resolver: NameResolver, name: str) -> Lookup:
    """Ask once."""
    return asyncio.run(resolver.look_up(name))


def test_a_name_of_the_operator_resolves_in_a_cluster_with_another_domain(
    server: NameServer,
) -> None:
    """Completed with the search entry that answers, found once and kept."""
    server.publish(f"pi-worker-0.pi.default.{DOMAIN}", "10.1.0.7")
    server.publish(f"pi-worker-1.pi.default.{DOMAIN}", "10.1.0.8")
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    wait_until("the name", lambda: bool(look_up(resolver, "pi-worker-0.pi.default.svc").addresses))

    second = look_up(resolver, "pi-worker-1.pi.default.svc")

    assert second.addresses == ("10.1.0.8",)
    assert f"pi-worker-1.pi.default.svc.default.{DOMAIN}" not in server.asked()
    assert "pi-worker-1.pi.default.svc is" not in server.asked()


def test_a_name_that_is_missing_heals_when_it_is_published(server: NameServer) -> None:
    """Nothing of the "no" is remembered."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    missing = look_up(resolver, "pi-worker-0.pi.default.svc")

    server.publish(f"pi-worker-0.pi.default.{DOMAIN}", "10.1.0.7")

    assert missing.obstacle is Obstacle.NAME_MISSING
    assert "NXDOMAIN" in missing.detail or "no address" in missing.detail
    wait_until("the name", lambda: bool(look_up(resolver, "pi-worker-0.pi.default.svc").addresses))


def test_a_replaced_pod_is_found_at_its_new_address(server: NameServer) -> None:
    """Every question is asked anew."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    server.publish(f"w-0.{DOMAIN}", "10.1.0.7")
    wait_until("the old", lambda: look_up(resolver, "w-0").addresses == ("10.1.0.7",))

    server.hosts.write_text("")
    server.publish(f"w-0.{DOMAIN}", "10.1.0.9")

    wait_until("the new", lambda: look_up(resolver, "w-0").addresses == ("10.1.0.9",))


def test_a_name_server_that_is_down_is_another_no_than_a_missing_name(
    server: NameServer,
) -> None:
    """The remedy is another one."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    server.process.terminate()
    server.process.wait(timeout=10)

    assert look_up(resolver, "w-0").obstacle is Obstacle.NAME_SERVER
