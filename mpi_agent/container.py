"""What this container has: names, addresses, the account it runs under, what it may do.

Both sides use it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import pwd
import resource
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Account",
    "container_identity",
    "ensure_identity",
    "has_rdma",
    "interface_of_pod",
    "is_own_address",
    "most_open_files",
    "own_account",
    "own_address_towards",
    "own_addresses",
    "own_names",
    "own_python",
    "pod_namespace",
    "process_vm_readv_works",
    "real_program",
]

_SHIM_MARKER = b"mpi-agent shim"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_RESOLV_CONF = Path("/etc/resolv.conf")
_HOSTS_FILE = Path("/etc/hosts")
_ROUTES = Path("/proc/net/route")
_RDMA_DEVICES = Path("/sys/class/infiniband")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FIRST_PROCESS = Path("/proc/1/stat")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_ANY_PORT = 9
_IDENTITY_DIGITS = 16


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


def container_identity() -> str:
    """Return what is the same in all processes of this container, and another after its restart.

    Where a pod shares its process namespace, its containers are one: PID 1 is the pod's there, and
    stays.

    Source: Linux: random/boot_id is made at each boot, field 22 of /proc/PID/stat is the start
    after it (proc(5)), and the inode of a namespace tells it from others (namespaces(7)).
    """
    started = _read_or_empty(_FIRST_PROCESS).rpartition(")")[2].split()[19:20]
    try:
        namespace = str(_PID_NAMESPACE.stat().st_ino)
    except OSError:
        namespace = ""
    words = (_read_or_empty(_BOOT_ID).strip(), *started, namespace)
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:_IDENTITY_DIGITS]


def own_addresses() -> tuple[str, ...]:
    """Return the addresses of this container's interfaces, loopback and link-local left out."""
    found = (address for addresses in _interfaces().values() for address in addresses)
    return tuple(a for a in found if not a.startswith(("127.", "169.254.", "fe80:")) and a != "::1")


def is_own_address(address: str) -> bool:
    """Return whether we may listen on an address: one of this container's, or one of all."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((address, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


def own_address_towards(address: str) -> tuple[str, str] | None:
    """Return the address and the interface from which packets to an address would leave.

    None where there is no way to it. No packet is sent: a UDP socket only chooses its route.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as chooser:
            chooser.connect((address, _ANY_PORT))
            own: str = chooser.getsockname()[0]
    except OSError:
        return None
    interface = next((name for name, owned in _interfaces().items() if own in owned), None)
    return None if interface is None else (own, interface)


def interface_of_pod() -> str | None:
    """Return the interface of the default route, or the only one that is not loopback.

    None where there are several to choose from.
    """
    routes = _default_routes(_read_or_empty(_ROUTES))
    if len(routes) == 1:
        return routes.pop()
    outside = [
        name
        for name, addresses in _interfaces().items()
        if any(not address.startswith("127.") and address != "::1" for address in addresses)
    ]
    return outside[0] if not routes and len(outside) == 1 else None


def _interfaces() -> dict[str, tuple[str, ...]]:
    """Return the addresses of every interface that has some."""
    import psutil

    found = {
        name: tuple(
            address.address.partition("%")[0]
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
        )
        for name, addresses in psutil.net_if_addrs().items()
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def _default_routes(table: str) -> set[str]:
    """Return the interfaces of the default routes that the kernel prefers.

    Source: Linux, /proc/net/route: Iface, Destination, Gateway, Flags, RefCnt, Use, Metric, Mask.
    """
    rows = [line.split() for line in table.splitlines()[1:]]
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "0" * 8]
    return {name for metric, name in routes if metric == min(routes)[0]}


def has_rdma() -> bool:
    """Return whether there is an RDMA device, of any maker."""
    try:
        return any(_RDMA_DEVICES.iterdir())
    except OSError:
        return False


def process_vm_readv_works() -> bool:
    """Return whether the system call works here with which ranks copy from each other.

    True also where it cannot be found out. A container's seccomp profile may forbid it even for
    one's own memory, which is what is tried.

    Source: process_vm_readv(2); Docker's default profile, moby profiles/seccomp/default.json, which
    allows it without CAP_SYS_PTRACE since Linux 4.8 only. A profile answers EPERM, a kernel without
    it ENOSYS.
    """
    word = ctypes.create_string_buffer(8)
    copy = ctypes.create_string_buffer(8)
    source, target = (
        (ctypes.c_void_p * 2)(ctypes.addressof(memory), len(memory)) for memory in (word, copy)
    )
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):
        return True
    read.restype = ctypes.c_ssize_t
    length = ctypes.c_ulong
    done = read(os.getpid(), target, length(1), source, length(1), length(0))
    return done >= 0 or ctypes.get_errno() not in {errno.EPERM, errno.ENOSYS}


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


def own_python() -> tuple[str, ...]:
    """Return the words that start our Python for a module of ours, as isolated as this process is.

    The environment and the current directory are the user's: a `types.py` there would run in place
    of Python's own, in a process that holds the job's key. In our images -I shuts both out. Where
    this process itself was started without it, PYTHONPATH may be what leads to us, so it stays.
    """
    return (sys.executable, "-I" if sys.flags.isolated else "-P")


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
