"""A real sshd as an operator's plain image has it: no agent, and the job's own key as its host key.

Every name is then believed of it, so it can stand in for any worker; and its configuration can be
as wrong as a test needs it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.ssh.trust import SshTarget
from tests.waiting import wait_until
from tests.workers import LIMIT_S, JobKeys, free_address, require_program

__all__ = ["SKIPS_BASHRC", "PlainSshd", "running_sshd"]

SKIPS_BASHRC = {"SHLVL": "1"}
"""what `mpi-agent worker` sets too; without it bash reads an account's ~/.bashrc at every login"""

_PRIVILEGE_SEPARATION = Path("/run/sshd")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSshd:
    """A running sshd; it listens on one port of several loopback addresses."""

    addresses: tuple[str, ...]
    port: int
    log: Path
    popen: subprocess.Popen[bytes]

    def target(self, name: str, number: int = 0) -> SshTarget:
        """Return one of its addresses as the place of a host."""
        return SshTarget(name=name, address=self.addresses[number], port=self.port)

    @property
    def targets(self) -> tuple[SshTarget, ...]:
        """A host `w-0`, `w-1` and so on at each of its addresses."""
        return tuple(self.target(f"w-{number}", number) for number in range(len(self.addresses)))


@contextlib.contextmanager
def running_sshd(
    keys: JobKeys,
    root: Path,
    *lines: str,
    addresses: int = 1,
    environ: Mapping[str, str] = SKIPS_BASHRC,
) -> Iterator[PlainSshd]:
    """Give an sshd that is up.

    Args:
        lines: of sshd_config, before ours; the first value of a keyword counts.
        environ: what every session has.
    """
    sshd = require_program("sshd")
    if os.getuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="sshd-", dir=root))
    directory.chmod(0o755)
    host_key = directory / "host_key"
    host_key.write_bytes(keys.private_path.read_bytes())
    host_key.chmod(0o600)
    first, port = free_address()
    listens_on = (first, *(free_address()[0] for _ in range(addresses - 1)))
    config, log = directory / "sshd_config", directory / "log"
    own = (
        f"Port {port}",
        *(f"ListenAddress {address}" for address in listens_on),
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {keys.directory / 'authorized_keys'}",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        *_variable_lines(environ),
    )
    config.write_text("\n".join([*lines, *own, ""]))
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=stream
        )
    try:
        wait_until(
            "sshd listens",
            lambda: (
                log.read_text().count("Server listening") == addresses or popen.poll() is not None
            ),
        )
        assert popen.poll() is None, log.read_text()
        yield PlainSshd(addresses=listens_on, port=port, log=log, popen=popen)
    finally:
        popen.terminate()
        popen.wait(LIMIT_S)


def _variable_lines(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for all: only the first one counts."""
    if not environ:
        return ()
    return ("SetEnv " + " ".join(f'"{name}={value}"' for name, value in environ.items()),)
