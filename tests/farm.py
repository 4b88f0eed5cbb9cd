"""Hosts of a job on this machine, as pods are: each its own network, processes, /tmp and /dev/shm.

Every host is a process of this machine with namespaces of its own, and so is the switch between
them. On a worker an sshd or `mpi-agent worker` is process 1, so what a session leaves behind ends
with it. The launcher keeps the processes of the machine: a program started there gets signals as
any other does. The kernel ends the hosts when the tests are gone, however those ended.

Only the root of the farm is shared by the hosts and the tests: what a host writes elsewhere in /tmp
or /run no other host sees, and what the tests write there while the farm is up may be missed by the
hosts. Needs root, and skips by name where that or a program is missing.
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

from benchmarks.names import SERVICE, worker_name
from tests.farm_files import FarmFiles, FarmOptions, Server
from tests.farm_host import ENDS_WITH_THE_TESTS, FarmHost
from tests.workers import LIMIT_S, JobKeys, require_program

__all__ = ["Farm", "FarmHost", "FarmOptions", "Server", "running_farm"]

_PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "ssh", "ssh-keygen", "sshd")
_SWITCH_SCRIPT = """\
ip link add switch type bridge
ip link set switch up
echo up
exec sleep infinity
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """Hosts that are up: a launcher, and workers that serve ssh.

    Attributes:
        root: the directory that all hosts share with the tests.
        key: the job's private key, as ssh takes it.
        ssh_config: what stands in /etc/ssh/ssh_config of every host, as in the operator's image.
        ssh_port: of every worker.
        switch: the process that holds the network between the hosts.
    """

    launcher: FarmHost
    workers: tuple[FarmHost, ...]
    root: Path
    key: Path
    ssh_config: Path
    ssh_port: int
    switch: int

    def cut_off(self, host: FarmHost) -> None:
        """Lose every packet to and from a host from now on; no connection is told."""
        _run_ip(self.switch, f"link set {host.cable} nomaster")

    def plug_in(self, host: FarmHost) -> None:
        """End what `cut_off` did."""
        _run_ip(self.switch, f"link set {host.cable} master switch")

    def hostfile(self, line: str = "{name} slots=1") -> Path:
        """Write a hostfile with a line for each worker; `{name}` and `{address}` are filled in."""
        lines = (line.format(name=host.name, address=host.address) for host in self.workers)
        path = self.root / "hostfile"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


@contextlib.contextmanager
def running_farm(
    keys: JobKeys, root: Path, size: int, options: FarmOptions | None = None
) -> Iterator[Farm]:
    """Give a launcher and `size` workers, `pi-worker-<i>.pi.default.svc`.

    Args:
        root: an empty directory.
    """
    for program in _PROGRAMS:
        require_program(program)
    if not _may_make_hosts():
        pytest.skip("hosts need root, network namespaces and overlay mounts")
    names = (f"pi-launcher.{SERVICE}", *(worker_name(number) for number in range(size)))
    files = FarmFiles(root, keys, names, options or FarmOptions())
    files.write()
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(_running_switch())
        hosts = tuple(FarmHost(number, files) for number in range(len(names)))
        for host in hosts:
            stack.callback(host.destroy)
            host.create()
        _connect(switch, hosts, files.options)
        server = files.options.server
        for worker in hosts[1:]:
            worker.start(server)
        for worker in hosts[1:] if server is not Server.NONE else ():
            worker.wait_until_serving()
        yield Farm(
            launcher=hosts[0],
            workers=hosts[1:],
            root=root,
            key=root / "job_key",
            ssh_config=files.ssh_config,
            ssh_port=files.options.ssh_port,
            switch=switch,
        )


@functools.cache
def _may_make_hosts() -> bool:
    tried = subprocess.run(
        [
            *("unshare", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"),
            *("sh", "-euc"),
            "mount -t tmpfs tmpfs /run && mkdir /run/upper /run/work && "
            "mount -t overlay overlay -o lowerdir=/tmp,upperdir=/run/upper,workdir=/run/work /tmp",
        ],
        capture_output=True,
        check=False,
    )
    return os.getuid() == 0 and tried.returncode == 0


@contextlib.contextmanager
def _running_switch() -> Iterator[int]:
    """Give the process that holds the network between the hosts."""
    with subprocess.Popen(
        [*ENDS_WITH_THE_TESTS, "unshare", "--net", "sh", "-euc", _SWITCH_SCRIPT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"up\n"
            yield holder.pid
        finally:
            holder.kill()


def _connect(switch: int, hosts: tuple[FarmHost, ...], options: FarmOptions) -> None:
    lines = []
    for host in hosts:
        host.wait_until_made()
        is_launcher = host is hosts[0]
        interface = options.launcher_interface if is_launcher else options.worker_interface
        far_end = f"peer name {interface} netns {host.pid}"
        lines += [f"link add {host.cable} type veth {far_end}"]
        lines += [f"link set {host.cable} master switch up"]
    _run_ip(switch, *lines)
    for host in hosts:
        host.set_up_network()


def _run_ip(switch: int, *lines: str) -> None:
    """Let ip(8) work on the network between the hosts."""
    subprocess.run(
        ["nsenter", f"--target={switch}", "--net", "ip", "-batch", "-"],
        input="".join(f"{line}\n" for line in lines).encode(),
        timeout=LIMIT_S,
        check=True,
    )
