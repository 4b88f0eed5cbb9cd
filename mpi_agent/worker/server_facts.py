"""Reads what the choice of the ssh server depends on: files, capabilities, the account's shell."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.errors import SshdConfigError
from mpi_agent.limits import effective_capabilities
from mpi_agent.ssh.nss_wrapper import find_nss_wrapper
from mpi_agent.worker.backend import ServerFacts
from mpi_agent.worker.openssh import find_sshd

__all__ = ["gather_server_facts", "login_shell", "make_chroot_directory"]

_NO_SHELLS = frozenset({"nologin", "false"})
_FALLBACK = "/bin/sh"
_SHADOW = Path("/etc/shadow")
_FIRST_FREE_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_CHROOT_DIRECTORY = Path("/run/sshd")


def gather_server_facts(account: Account) -> ServerFacts:
    """Return what is so in this container; nothing is changed in it."""
    return ServerFacts(
        uid=account.uid,
        has_passwd_entry=account.has_passwd_entry,
        shell_takes_commands=_takes_commands(_shell_in_passwd(account)),
        is_locked=_is_locked(account.name),
        has_chroot_directory=_can_have_chroot_directory(account.uid),
        capabilities=effective_capabilities(),
        nss_wrapper=None if account.has_passwd_entry else find_nss_wrapper(),
        sshd=find_sshd(),
        first_free_port=_first_free_port(),
    )


def make_chroot_directory() -> None:
    """Make the directory that sshd as root changes to, where it is missing.

    Raises:
        SshdConfigError: it cannot be made.
    Source: OpenSSH 9.2 on Debian: "Missing privilege separation directory: /run/sshd".
    """
    try:
        _CHROOT_DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise SshdConfigError(
            f'cannot make "{_CHROOT_DIRECTORY}", which OpenSSH\'s server needs as root:'
            f" {error.strerror}",
            hint="make it in the image, or `mpi-agent worker --sshd builtin` needs none",
        ) from error


def login_shell(account: Account) -> str:
    """Return the shell that runs an account's commands: its own, /bin/sh where it cannot."""
    shell = _shell_in_passwd(account)
    return shell if _takes_commands(shell) else _FALLBACK


def _shell_in_passwd(account: Account) -> str:
    """Return the account's shell; an empty one means /bin/sh, as in passwd(5)."""
    try:
        return pwd.getpwuid(account.uid).pw_shell or _FALLBACK
    except KeyError:
        return _FALLBACK


def _takes_commands(shell: str) -> bool:
    return os.access(shell, os.X_OK) and os.path.basename(shell) not in _NO_SHELLS


def _is_locked(name: str) -> bool:
    """Return whether sshd would call an account locked; only root can read it, or need it.

    Source: OpenSSH 9.2 on Linux, LOCKED_PASSWD_PREFIX is "!": `*`, `*LK*` and `x` are let in.
    """
    with contextlib.suppress(OSError):
        for line in _SHADOW.read_text(errors="replace").splitlines():
            fields = line.split(":")
            if fields[0] == name and len(fields) > 1:
                return fields[1].startswith("!")
    return False


def _can_have_chroot_directory(uid: int) -> bool:
    """Return whether the directory that sshd as root changes to is there, or could be made."""
    if _CHROOT_DIRECTORY.is_dir():
        return True
    above = next(parent for parent in _CHROOT_DIRECTORY.parents if parent.exists())
    return uid == 0 and os.access(above, os.W_OK | os.X_OK)


def _first_free_port() -> int:
    try:
        return int(_FIRST_FREE_PORT.read_text())
    except (OSError, ValueError):
        return 1024
