"""The files of a farm: addresses and names of its hosts, and what ssh and sshd read there."""

from __future__ import annotations

import enum
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.workers import LIMIT_S, JobKeys, require_program

__all__ = ["FarmFiles", "FarmOptions", "Server"]

_EXTRA_ADDRESS = "172.17.0.1/16"
# What Debian's own says, with what the operator's base image changes in it.
# Source: kubeflow/mpi-operator, build/base/Dockerfile.
_SSH_CONFIG = """\
Host *
    SendEnv LANG LC_*
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    IdentityFile {key}
    LogLevel ERROR
"""
# SHLVL keeps bash from reading the machine's own ~/.bashrc at every login.
_SSHD_CONFIG = """\
Port {port}
HostKey {root}/host_key
HostCertificate {root}/host_key-cert.pub
AuthorizedKeysFile {root}/job_key.pub
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
MaxStartups 4000
UseDNS no
PidFile none
PrintMotd no
SetEnv {variables}
LogLevel INFO
"""


class Server(enum.Enum):
    """What answers on the ssh port of a worker."""

    SSHD = "OpenSSH's sshd"
    AGENT = "mpi-agent worker"
    NONE = "nothing until `start` is called"


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmOptions:
    """In what the hosts differ from plain ones.

    Attributes:
        server: on the workers; 45 MB and half a second of CPU each with `AGENT`.
        knows_launcher: whether workers can resolve the launcher's name.
        only_ipv6: no IPv4 but on loopback.
        prefix_length: of the IPv4 address; every host is in 10.77.0.0/16 and has a route there.
        launcher_interface: name of the launcher's interface.
        worker_interface: name of every worker's interface.
        extra_interface: a second one, with 172.17.0.1/16 on every host, beside which the usual one
            has the default route, as a pod's has; None for no such thing.
        read_only_tmp: numbers of the workers whose /tmp cannot be written.
        sshd_lines: of sshd_config, in front of the usual ones; the first value of a keyword counts.
        session_variables: what every session has beside SHLVL; an agent has it in its container.
        own_variables: what the containers of single workers have too, by the workers' numbers; for
            agents alone.
        ssh_port: of every worker.
    """

    server: Server = Server.SSHD
    knows_launcher: bool = True
    only_ipv6: bool = False
    prefix_length: int = 16
    launcher_interface: str = "eth0"
    worker_interface: str = "eth0"
    extra_interface: str | None = None
    read_only_tmp: Collection[int] = ()
    sshd_lines: Collection[str] = ()
    session_variables: Mapping[str, str] = field(default_factory=dict)
    own_variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    ssh_port: int = 22


class FarmFiles:
    """What lies in the root of a farm; host number 0 is the launcher."""

    def __init__(
        self, root: Path, keys: JobKeys, names: tuple[str, ...], options: FarmOptions
    ) -> None:
        self.root = root
        self.options = options
        self.ssh_config = root / "ssh_config"
        self.names = names
        self._keys = keys

    def address(self, number: int) -> str:
        """Return the address of a host."""
        if self.options.only_ipv6:
            return f"fd77::{number + 1:x}"
        return f"10.77.{1 + number // 250}.{number % 250 + 1}"

    def directory(self, number: int) -> Path:
        """Return the directory of a host, for its hosts file, log and state."""
        return self.root / f"host-{number}"

    def write(self) -> None:
        """Write everything before the first host starts."""
        key = self.root / "job_key"
        key.write_bytes(self._keys.private_path.read_bytes())
        key.chmod(0o600)
        (self.root / "job_key.pub").write_text(self._keys.public)
        self.ssh_config.write_text(_SSH_CONFIG.format(key=key))
        variables = {"SHLVL": "1", **self.options.session_variables}
        lines = " ".join(f'"{name}={value}"' for name, value in variables.items())
        sshd_config = _SSHD_CONFIG.format(
            root=self.root, port=self.options.ssh_port, variables=lines
        )
        own = "".join(f"{line}\n" for line in self.options.sshd_lines)
        (self.root / "sshd_config").write_text(own + sshd_config)
        # Nobody is there, which is told at once; a name server of the machine is out of reach.
        (self.root / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        self._make_host_key(key)
        for number in range(len(self.names)):
            self.directory(number).mkdir()
            (self.directory(number) / "hosts").write_text(self._hosts(number))
            (self.directory(number) / "network").write_text(self._network(number))

    def _make_host_key(self, job_key: Path) -> None:
        """Make one host key for all; the certificate names no host and so stands for every one."""
        keygen, host_key = require_program("ssh-keygen"), str(self.root / "host_key")
        validity = ("-V", "-1h:+1d")
        for arguments in (
            ("-t", "ed25519", "-N", "", "-C", "host", "-f", host_key),
            ("-s", str(job_key), "-h", "-I", "farm", *validity, f"{host_key}.pub"),
        ):
            subprocess.run([keygen, "-q", *arguments], check=True, timeout=LIMIT_S)

    def _hosts(self, number: int) -> str:
        """Return a host's /etc/hosts, with what a cluster's name server would know.

        Workers know short names too: the operator gives the search domain to them alone.
        """
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        for other, name in enumerate(self.names):
            if other == 0 and number and not self.options.knows_launcher:
                continue
            short = f" {name.partition('.')[0]}" if number or number == other else ""
            lines += [f"{self.address(other)} {name}{short}"]
        return "".join(f"{line}\n" for line in lines)

    def _network(self, number: int) -> str:
        """Return what ip(8) is to do on a host."""
        options = self.options
        interface = options.worker_interface if number else options.launcher_interface
        lines = ["link set lo up", f"link set {interface} up"]
        if options.only_ipv6:
            lines += [f"addr add {self.address(number)}/64 dev {interface} nodad"]
        else:
            lines += [f"addr add {self.address(number)}/{options.prefix_length} dev {interface}"]
            if options.prefix_length > 16:
                lines += [f"route add 10.77.0.0/16 dev {interface}"]
        if options.extra_interface is not None:
            lines += [
                f"link add {options.extra_interface} type veth peer name extra-end",
                f"addr add {_EXTRA_ADDRESS} dev {options.extra_interface}",
                f"link set {options.extra_interface} up",
                "link set extra-end up",
                f"route add default dev {interface}",
            ]
        return "".join(f"{line}\n" for line in lines)
