"""Commands in a world of their own: a mount namespace with other files in /etc, a network of IPv6.

Each needs root, and skips by name where it cannot be had.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workers import require_program

__all__ = ["Machine", "in_own_etc", "ipv6_network"]


def in_own_etc(**files: Path) -> tuple[str, ...]:
    """Return what to put before a command for which these files stand in /etc.

    Args:
        files: by their names there; `resolv_conf` stands for `resolv.conf`.
    """
    unshare = require_program("unshare")
    if not _may_unshare():
        pytest.skip("a mount namespace needs root and CAP_SYS_ADMIN")
    mounts = "".join(
        f"mount --bind '{path}' '/etc/{name.replace('_', '.')}' && " for name, path in files.items()
    )
    return (unshare, "--mount", "sh", "-c", f'{mounts}exec "$@"', "sh")


@functools.cache
def _may_unshare() -> bool:
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "true"], capture_output=True, check=False
    )
    return os.getuid() == 0 and tried.returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A network namespace with one IPv6 address, and IPv4 on loopback alone, as such a pod has.

    Attributes:
        enter: what to put before a command that is to run there.
    """

    name: str
    address: str
    enter: tuple[str, ...]


@contextlib.contextmanager
def ipv6_network(root: Path, *names: str) -> Iterator[tuple[Machine, ...]]:
    """Give machines on one network of IPv6; each knows the others by name, and itself by hostname.

    The names `<name>.pi` stand in the /etc/hosts of all.
    """
    ip = require_program("ip")
    if not _may_unshare():
        pytest.skip("network namespaces need root and CAP_SYS_ADMIN")
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this kernel has IPv6 switched off")
    hosts = root / "hosts-of-the-network"
    addresses = {name: f"fd77::{number}" for number, name in enumerate(names, start=1)}
    lines = (f"{address} {name}.pi {name}\n" for name, address in addresses.items())
    hosts.write_text("127.0.0.1 localhost\n::1 localhost\n" + "".join(lines))
    spaces = {name: f"mpi-agent-{os.getpid()}-{name}" for name in (*names, "switch")}
    with contextlib.ExitStack() as stack:
        for space in spaces.values():
            _run(ip, "netns", "add", space)
            stack.callback(_run, ip, "netns", "del", space)
        _run(ip, "-n", spaces["switch"], "link", "add", "bridge", "type", "bridge")
        _run(ip, "-n", spaces["switch"], "link", "set", "bridge", "up")
        for name, address in addresses.items():
            _plug_in(ip, spaces[name], spaces["switch"], name, address)
        yield tuple(
            Machine(
                name=name,
                address=address,
                enter=(
                    *(ip, "netns", "exec", spaces[name], "unshare", "--uts", "sh", "-c"),
                    f"mount --bind '{hosts}' /etc/hosts && hostname {name} && exec \"$@\"",
                    "sh",
                ),
            )
            for name, address in addresses.items()
        )


def _plug_in(ip: str, space: str, switch: str, name: str, address: str) -> None:
    """Connect a namespace with the switch; no wait for duplicates of its address."""
    ends = ("link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", space)
    _run(ip, "-n", switch, *ends)
    _run(ip, "-n", switch, "link", "set", name, "master", "bridge", "up")
    _run(ip, "-n", space, "link", "set", "lo", "up")
    _run(ip, "-n", space, "link", "set", "eth0", "up")
    _run(ip, "-n", space, "address", "add", f"{address}/64", "dev", "eth0", "nodad")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)
