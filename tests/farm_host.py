"""One host of a farm: a process with namespaces of its own, its server, its commands."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.farm_files import FarmFiles, Server
from tests.waiting import wait_until
from tests.workers import LIMIT_S, environment_for

__all__ = ["ENDS_WITH_THE_TESTS", "FarmHost"]

ENDS_WITH_THE_TESTS = ("setpriv", "--pdeathsig", "KILL")

_SERVING_LIMIT_S = 180.0
"""80 agents start in 20 s on 2 cores that do nothing else."""

# Arguments: first label, directory of the host, root of the farm, mode of /tmp. It is told when its
# cable is plugged in, and then what to become. UCX looks for interfaces in /sys, so that has to be
# of this network too.
_SCRIPT = """\
hostname "$1"
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/root /run/cgroup /run/overlay/tmp /run/overlay/work
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
mount --bind "$3" /run/root
mount -t overlay overlay -o lowerdir=/tmp,upperdir=/run/overlay/tmp,workdir=/run/overlay/work /tmp
mkdir -p "$3"
mount --bind /run/root "$3"
mount -o "remount,bind,$4" /tmp
mount -t tmpfs tmpfs /dev/shm
mount --bind "$2/hosts" /etc/hosts
mount --bind "$3/ssh_config" /etc/ssh/ssh_config
mount --bind "$3/resolv.conf" /etc/resolv.conf
echo made
read -r plugged
ip -batch "$2/network"
echo up
read -r server
eval "exec $server"
"""
_NAMESPACES = ("--net", "--uts", "--ipc", "--mount")
_NAMESPACES_OF_PROCESSES = ("--pid", "--fork", "--kill-child", "--mount-proc")


class FarmHost:
    """A host of the farm: the launcher, which is number 0, or a worker, which serves ssh."""

    def __init__(self, number: int, files: FarmFiles) -> None:
        self.name = files.names[number]
        self.address = files.address(number)
        self.directory = files.directory(number)
        self.cable = f"h{number}"
        self._number = number
        self._files = files
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def short_name(self) -> str:
        """Its own host name."""
        return self.name.partition(".")[0]

    @property
    def pid(self) -> int:
        """The process that holds its namespaces, as the tests number it."""
        assert self._holder is not None, f"{self.name} is gone"
        return self._holder.pid

    @property
    def enter(self) -> tuple[str, ...]:
        """The words before a command that is to run there, in `/`.

        On the launcher the command itself is then a child of whoever started it; on a worker it is
        a child of nsenter, which passes no signal on.
        """
        words = ("nsenter", f"--target={self.pid}", *_NAMESPACES)
        if self._number == 0:
            return words
        return (*words, f"--pid=/proc/{self.pid}/ns/pid_for_children")

    @property
    def log(self) -> Path:
        """What the host and its server wrote."""
        return self.directory / "log"

    def inside(self, path: str) -> Path:
        """Return the way from the tests to what has this absolute path on the host."""
        return Path(f"/proc/{self.pid}/root{path}")

    def run(
        self, *argv: str, environ: Mapping[str, str] | None = None, limit_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        return subprocess.run(
            [*self.enter, *argv],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def create(self) -> None:
        """Begin to make the host; `wait_until_made` tells when it is."""
        read_only = self._number - 1 in self._files.options.read_only_tmp
        namespaces = (*_NAMESPACES, *(_NAMESPACES_OF_PROCESSES if self._number else ()))
        script = ("sh", "-euc", _SCRIPT, "sh", self.short_name, str(self.directory))
        with self.log.open("ab") as log:
            self._holder = subprocess.Popen(
                [
                    *(*ENDS_WITH_THE_TESTS, "unshare", *namespaces, *script),
                    *(str(self._files.root), "ro" if read_only else "rw"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_for(None),
            )

    def wait_until_made(self) -> None:
        """Wait until its cable can be plugged in."""
        self._expect(b"made\n")

    def set_up_network(self) -> None:
        """Bring up the interface at the end of its cable, and everything else."""
        self._tell("plugged")
        self._expect(b"up\n")

    def start(self, server: Server) -> None:
        """Let a worker become its server; `wait_until_serving` tells when it is one."""
        root, options = self._files.root, self._files.options
        if server is Server.AGENT:
            given = {**options.session_variables, **options.own_variables.get(self._number - 1, {})}
            variables = (f"{name}={value}" for name, value in given.items())
            agent = ("env", *variables, sys.executable, "-m", "mpi_agent", "worker")
            port = ("--ssh-port", str(options.ssh_port), "--grace", "3s")
            own = ("--worker-name", self.short_name, "--ssh-key", str(root / "job_key"))
            self._tell(shlex.join((*agent, *port, *own)) + " >&2")
        elif server is Server.SSHD:
            self._tell(f"/usr/sbin/sshd -D -e -f {shlex.quote(str(root / 'sshd_config'))}")

    def wait_until_serving(self) -> None:
        """Wait until its server said that it listens."""
        ready = self.inside("/run/mpi-agent/ready")
        wait_until(
            f"{self.name} serves",
            lambda: (
                ready.exists()
                or b"Server listening" in self.log.read_bytes()
                or not self.is_alive()
            ),
            limit_s=_SERVING_LIMIT_S,
        )
        assert self.is_alive(), self.log.read_text(errors="replace")

    def is_alive(self) -> bool:
        """Return whether the host is there."""
        return self._holder is not None and self._holder.poll() is None

    def processes(self) -> tuple[psutil.Process, ...]:
        """Return every process in its network, as the tests number them."""
        network = os.readlink(f"/proc/{self.pid}/ns/net")
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{process.pid}/ns/net") == network:
                    found.append(process)
        return tuple(found)

    def destroy(self) -> None:
        """End the host and all its processes at once, as a lost pod ends."""
        if self._holder is None:
            return
        if self._number == 0 and self.is_alive():
            for process in self.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._holder.kill()
        self._holder.wait(LIMIT_S)
        for stream in (self._holder.stdin, self._holder.stdout):
            if stream is not None:
                stream.close()
        self._holder = None

    def _tell(self, line: str) -> None:
        assert self._holder is not None
        assert self._holder.stdin is not None
        self._holder.stdin.write(f"{line}\n".encode())
        self._holder.stdin.flush()

    def _expect(self, line: bytes) -> None:
        assert self._holder is not None
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        assert said == line, f"{self.name}: {self.log.read_text(errors='replace')}"
