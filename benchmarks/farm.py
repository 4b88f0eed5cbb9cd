"""Hosts to wait for and to launch on, with real sshds, on this machine.

`light_farm` gives many names, each with a loopback address, all served by one sshd: for waiting.
`namespace_hosts` gives hosts with network, host name, /tmp and /dev/shm of their own: for mpirun.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.names import SERVICE, name_server, worker_name
from benchmarks.namespaces import ROOT, end, run, wait_until

# Arguments: name, address, directory of the host. /tmp shows the machine's (a virtual environment
# may lie there), and what is written stays with the host.
_HOST_SCRIPT = """\
hostname "$1"
printf '127.0.0.1 localhost\\n%s %s\\n' "$2" "$1" >"$3/hosts"
mount --bind "$3/hosts" /etc/hosts
mount -t overlay overlay -o "lowerdir=/tmp,upperdir=$3/tmp,workdir=$3/work" /tmp
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
ip addr add "$2/16" dev eth0
ip link set eth0 up
echo up
exec sleep infinity
"""


def write_hostfile(hosts: tuple[str, ...]) -> Path:
    """Write a hostfile with one slot a host; return its path."""
    path = ROOT / f"hostfile-{len(hosts)}"
    path.write_text("".join(f"{host} slots=1\n" for host in hosts))
    return path


@contextlib.contextmanager
def light_farm(size: int) -> Iterator[dict[str, str]]:
    """Give names and addresses, to be published, on each of which an sshd answers."""
    sshd = _start_sshd()
    try:
        wait_until("sshd listens", lambda: _listens("self"))
        yield {worker_name(i): f"127.1.{i // 250}.{i % 250 + 1}" for i in range(size)}
    finally:
        end(sshd)


def _start_sshd(*entrance: str) -> subprocess.Popen[bytes]:
    sshd = ("/usr/sbin/sshd", "-D", "-f", f"{ROOT}/sshd_config", "-E", f"{ROOT}/sshd.log")
    return subprocess.Popen([*entrance, *sshd])


def _listens(pid: int | str) -> bool:
    """Return whether anybody listens on port 22 in the network namespace of a process.

    Nobody is dialled for it: state 0A of /proc/net/tcp is LISTEN.
    """
    return any(
        fields[1].endswith(":0016") and fields[3] == "0A"
        for fields in map(str.split, Path(f"/proc/{pid}/net/tcp").read_text().splitlines())
    )


class NamespaceHost:
    """A host with network, host name, /tmp and /dev/shm of its own, and an sshd when asked."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"10.77.{1 + number // 250}.{number % 250 + 1}"
        self._link = f"h{number}"
        self._sshd: subprocess.Popen[bytes] | None = None
        directory = ROOT / self._link
        for part in ("tmp", "work"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        run(
            f"ip netns add {self._link}",
            f"ip link add {self._link} type veth peer name eth0 netns {self._link}",
            f"ip link set {self._link} master pods0 up",
        )
        self._holder = subprocess.Popen(
            [
                *f"ip netns exec {self._link} unshare --mount --uts --ipc sh -euc".split(),
                *(_HOST_SCRIPT, "sh", name.partition(".")[0], self.address, str(directory)),
            ],
            stdout=subprocess.PIPE,
        )

    @property
    def entrance(self) -> tuple[str, ...]:
        """The words before a command that is to run on this host."""
        return ("nsenter", f"--target={self._holder.pid}", "--net", "--uts", "--ipc", "--mount")

    def wait_until_up(self) -> None:
        """Wait until its network and directories are there."""
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"up\n":
            raise RuntimeError(f"{self.name} did not come up")

    def start_sshd(self) -> float:
        """Start its sshd; return when it began to listen, on the monotonic clock."""
        self._sshd = _start_sshd(*self.entrance)
        return wait_until(f"{self.name} listens", lambda: _listens(self._holder.pid))

    def stop_sshd(self) -> None:
        """End its sshd: connections are refused again."""
        if self._sshd is not None:
            end(self._sshd)
            self._sshd = None

    def close(self) -> None:
        """End it and everything on it."""
        self.stop_sshd()
        end(self._holder)
        if self._holder.stdout is not None:
            self._holder.stdout.close()
        run(f"ip netns del {self._link}")


@contextlib.contextmanager
def namespace_hosts(*names: str) -> Iterator[tuple[NamespaceHost, ...]]:
    """Give hosts that are up, without sshd and not published."""
    with contextlib.ExitStack() as stack:
        hosts = []
        for number, name in enumerate(names):
            hosts.append(NamespaceHost(name, number))
            stack.callback(hosts[-1].close)
        for host in hosts:
            host.wait_until_up()
        yield tuple(hosts)


@contextlib.contextmanager
def full_farm(size: int) -> Iterator[tuple[NamespaceHost, tuple[str, ...]]]:
    """Give a launcher and the names of ready workers, all of them known to the name server."""
    names = tuple(worker_name(i) for i in range(size))
    with name_server() as server, namespace_hosts(f"pi-launcher.{SERVICE}", *names) as hosts:
        server.publish({host.name: host.address for host in hosts})
        for worker in hosts[1:]:
            worker.start_sshd()
        yield hosts[0], names
