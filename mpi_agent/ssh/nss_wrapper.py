"""OpenSSH's programs under a uid without a passwd entry, as OpenShift gives one to each namespace.

They all refuse such a uid. The library libnss_wrapper, loaded into them alone, shows them the
system's accounts and one more; /etc/passwd itself is never written. Sessions and ranks do not have
the library: sshd gives them an environment of its own making.

Source: nss_wrapper(1) 1.1.11; OpenSSH 9.2, "No user exists for uid 1000650000"; ssh, sshd and
ssh-keygen tried with it under that uid, in group 0, without capabilities; 2026-11-30.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.state import StateDirectory

__all__ = [
    "SHELL",
    "find_nss_wrapper",
    "nss_wrapper_variables",
    "render_group",
    "render_passwd",
    "write_accounts",
]

SHELL = "/bin/sh"
_PASSWD, _GROUP = Path("/etc/passwd"), Path("/etc/group")
_PASSWD_NAME, _GROUP_NAME = "passwd", "group"
_PLACES = (
    "/usr/lib/{machine}-linux-*",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/local/lib64",
    "/usr/local/lib",
)
_LIBRARY = "libnss_wrapper.so*"


def find_nss_wrapper(root: Path = Path("/")) -> str | None:
    """Return the library's path, None where it is not installed."""
    machine = os.uname().machine
    for place in _PLACES:
        pattern = f"{place.format(machine=machine)}/{_LIBRARY}".lstrip("/")
        for found in sorted(root.glob(pattern)):
            return str(found)
    return None


def write_accounts(account: Account, state: StateDirectory) -> None:
    """Write the files that `nss_wrapper_variables` names.

    Raises:
        StateDirectoryError: they cannot be written.
    """
    state.write(_PASSWD_NAME, os.fsencode(render_passwd(_read(_PASSWD), account)))
    state.write(_GROUP_NAME, os.fsencode(render_group(_read(_GROUP), account.gid)))


def nss_wrapper_variables(
    library: str, state: StateDirectory, preloaded: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return what one of OpenSSH's programs must find in its environment.

    Args:
        preloaded: value of LD_PRELOAD, which is kept.
    """
    return (
        ("LD_PRELOAD", ":".join(part for part in (library, preloaded) if part)),
        ("NSS_WRAPPER_PASSWD", str(state.file(_PASSWD_NAME))),
        ("NSS_WRAPPER_GROUP", str(state.file(_GROUP_NAME))),
    )


def render_passwd(existing: str, account: Account) -> str:
    """Return passwd(5) with an entry for the account."""
    home = str(account.home or "/")
    fields = (
        account.name,
        "x",
        str(account.uid),
        str(account.gid),
        "",
        "/" if set(home) & set(":\n") else home,
        SHELL,
    )
    return "\n".join((*_lines(existing), ":".join(fields), ""))


def render_group(existing: str, gid: int) -> str:
    """Return group(5) with an entry for a gid, unless it has one."""
    lines = tuple(_lines(existing))
    if any(line.split(":")[2:3] == [str(gid)] for line in lines):
        return "\n".join((*lines, ""))
    return "\n".join((*lines, f"gid-{gid}:x:{gid}:", ""))


def _lines(existing: str) -> Iterable[str]:
    return (line for line in existing.splitlines() if line.strip())


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
