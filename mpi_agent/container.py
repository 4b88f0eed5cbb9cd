"""What this container has: names, addresses, the account it runs under. Both sides use it."""

from __future__ import annotations

import os
import pwd
import resource
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Account",
    "ensure_identity",
    "most_open_files",
    "own_account",
    "own_addresses",
    "own_names",
    "pod_namespace",
    "real_program",
]

_SHIM_MARKER = b"mpi-agent shim"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_RESOLV_CONF = Path("/etc/resolv.conf")
_HOSTS_FILE = Path("/etc/hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account this process runs under.

    Attributes:
        has_passwd_entry: False under an arbitrary uid, which OpenSSH's programs refuse.
        home: absent when neither the passwd entry nor HOME tells one.
    """

    name: str
    uid: int
    gid: int
    has_passwd_entry: bool
    home: Path | None


def own_account() -> Account:
    """Return the account of this process; a uid without a passwd entry gets a name from the uid."""
    uid, gid = os.getuid(), os.getgid()
    home = os.environ.get("HOME")
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(
            name=f"uid-{uid}",
            uid=uid,
            gid=gid,
            has_passwd_entry=False,
            home=Path(home) if home else None,
        )
    return Account(
        name=entry.pw_name,
        uid=uid,
        gid=gid,
        has_passwd_entry=True,
        home=Path(entry.pw_dir or home or "/"),
    )


def ensure_identity() -> None:
    """Set LOGNAME and HOME where nothing tells them for this uid: libraries and mpirun ask.

    Source: asyncssh 2.24 and Open MPI 5.0.7 ("Unable to get the user home directory") end under a
    uid without a passwd entry whose HOME is unset or empty; seen 2026-11-30.
    """
    account = own_account()
    if not account.has_passwd_entry:
        os.environ.setdefault("LOGNAME", account.name)
    if not os.environ.get("HOME"):
        os.environ["HOME"] = str(account.home or "/tmp")


def own_names() -> tuple[str, ...]:
    """Return the names this container knows of itself, the short one first.

    Source: the kubelet writes `ADDRESS POD.SUBDOMAIN.NAMESPACE.svc.DOMAIN POD` into /etc/hosts
    when the pod has a subdomain; Kubernetes documentation, "DNS for Services and Pods".
    """
    short = socket.gethostname()
    names = {short: None}
    for line in _read_or_empty(_HOSTS_FILE).splitlines():
        fields = line.partition("#")[0].split()
        if short in fields[1:]:
            names.update(dict.fromkeys(n for n in fields[1:] if n.split(".")[0] == short))
    return tuple(names)


def own_addresses() -> tuple[str, ...]:
    """Return the addresses of this container's interfaces, loopback and link-local left out."""
    import psutil

    found = (
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    )
    return tuple(a for a in found if not a.startswith(("127.", "169.254.", "fe80:")) and a != "::1")


def pod_namespace() -> str | None:
    """Return the Kubernetes namespace of this pod, None where nothing tells it.

    Source: the service account's mount, else the first search entry of resolv.conf, which the
    kubelet writes as `NAMESPACE.svc.DOMAIN`.
    """
    if name := _read_or_empty(_NAMESPACE_FILE).strip():
        return name
    for line in _read_or_empty(_RESOLV_CONF).splitlines():
        fields = line.split()
        if fields[:1] == ["search"]:
            for entry in fields[1:]:
                labels = entry.split(".")
                if len(labels) > 2 and labels[1] == "svc":
                    return labels[0]
    return None


def most_open_files() -> int:
    """Return how many files and sockets this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def real_program(path: Path) -> Path:
    """Return the program itself, or the one behind our shim: `<name>.real`, beside it.

    In our images mpirun and sshd are shims that lead to the agent.
    """
    try:
        with path.open("rb") as stream:
            is_shim = _SHIM_MARKER in stream.read(512)
    except OSError:
        return path
    return path.with_name(path.name + ".real") if is_shim else path


def _read_or_empty(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
