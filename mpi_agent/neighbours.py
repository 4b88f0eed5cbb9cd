"""What a sidecar sees of the containers next door, and why it may see nothing.

The containers of a pod share their processes only with `shareProcessNamespace: true`. Then PID 1
is the pod's own, and everybody's name, parent and uid can be read; an environment, which tells the
number of a rank, can be read by the same uid and group with no fewer capabilities, or with
SYS_PTRACE.

Source: proc(5), ptrace(2), "Ptrace access mode checking", Linux man-pages 6.03; Kubernetes
documentation, "Share Process Namespace between Containers in a Pod".
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mpi_agent.cgroup import MemoryAccount, memory_account

__all__ = [
    "Neighbour",
    "find_ssh_server",
    "is_listened_on",
    "look_around",
    "memory_next_door",
    "why_ranks_are_unseen",
]

_SSH_SERVERS = ("sshd", "dropbear")
_SOCKETS = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_UNTRUSTED_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES = 64 << 10
_STARTERS = ("orted", "prte", "hydra_", "mpirun", "mpiexec")
"""How the names begin of what starts ranks: daemons, and a launcher that has ranks beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One visible process, ours included.

    Attributes:
        parent: its pid; 0 for one that was put into this PID namespace from outside.
        is_readable: its environment may be read.
    """

    pid: int
    parent: int
    uid: int
    gid: int
    name: str
    is_readable: bool = True


def look_around() -> tuple[Neighbour, ...]:
    """Return every process that can be seen, without zombies and threads of the kernel."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    return tuple(found for pid in pids if (found := _neighbour(pid)) is not None)


def is_listened_on(port: int) -> bool:
    """Return whether somebody in this network namespace listens on a port, without asking him.

    Source: Linux, /proc/net/tcp: number, local address with the port behind `:` in hexadecimal
    digits, remote address, state; 0A is TCP_LISTEN (include/net/tcp_states.h).
    """
    end = f":{port:04X}"
    for name in _SOCKETS:
        try:
            with open(name) as stream:
                rows = (row.split(maxsplit=4) for row in stream)
                if any(row[3] == _LISTENS and row[1].endswith(end) for row in rows):
                    return True
        except OSError:  # no IPv6 here
            continue
    return False


def find_ssh_server(neighbours: tuple[Neighbour, ...]) -> int | None:
    """Return the pid of the first ssh server that can be seen."""
    return next((n.pid for n in neighbours if n.name.startswith(_SSH_SERVERS)), None)


def memory_next_door(pid: int) -> MemoryAccount:
    """Return the account of the container in which a process runs, as that container sees it.

    Its files can be read where its environment can.
    """
    return memory_account(read=partial(_read_next_door, pid))


def why_ranks_are_unseen(
    neighbours: tuple[Neighbour, ...], *, own_pid: int, own_uid: int, own_gid: int
) -> str | None:
    """Return why ranks may run next door that are not seen; None where nothing hides them."""
    by_pid = {neighbour.pid: neighbour for neighbour in neighbours}
    if _is_alone(by_pid, own_pid):
        return (
            "the PID namespace is not shared, so ranks are not seen;"
            " set shareProcessNamespace: true in the pod's spec"
        )
    hidden = [n for n in by_pid.values() if _may_hide_a_rank(n, by_pid)]
    if not hidden:
        return None
    whose = ", ".join(str(uid) for uid in sorted({n.uid for n in hidden}))
    uids = sorted({n.uid for n in hidden} - {own_uid})
    gids = sorted({n.gid for n in hidden} - {own_gid})
    unseen = (
        f"uid {own_uid} may not read the environment of processes of uid {whose},"
        " so their ranks are not seen"
    )
    if uids:
        return f"{unseen}; run the sidecar as uid {uids[0]}, or as root with SYS_PTRACE"
    if gids:
        return f"{unseen}; run the sidecar in their group, with runAsGroup: {gids[0]}"
    return f"{unseen}; give the sidecar the capabilities that they have, or SYS_PTRACE"


def _is_alone(by_pid: Mapping[int, Neighbour], own_pid: int) -> bool:
    """Return whether only processes of our own container are visible.

    Its first process is PID 1 then, and it started us, or is us. Whatever was put in from outside,
    by `kubectl exec`, does not count, nor what we started.
    """
    ours = {pid for pid, _ in _line_of(own_pid, by_pid)}
    if 1 not in ours:
        return False
    for pid in by_pid.keys() - ours:
        line = [ancestor for ancestor, _ in _line_of(pid, by_pid)]
        if line[-1] == 1 and own_pid not in line:
            return False
    return True


def _may_hide_a_rank(neighbour: Neighbour, by_pid: Mapping[int, Neighbour]) -> bool:
    """Return whether a process that we may not read was started by a login, or starts ranks.

    An ssh server itself hides its environment from everybody, and has no rank.
    """
    if neighbour.is_readable or neighbour.name.startswith(_SSH_SERVERS):
        return False
    return any(
        ancestor.name.startswith((*_SSH_SERVERS, *_STARTERS))
        for _, ancestor in _line_of(neighbour.pid, by_pid)
    )


def _line_of(pid: int, by_pid: Mapping[int, Neighbour]) -> Iterator[tuple[int, Neighbour]]:
    """Yield a process and its ancestors, as far as they are visible."""
    seen: set[int] = set()
    while (neighbour := by_pid.get(pid)) is not None and pid not in seen:
        yield pid, neighbour
        seen.add(pid)
        pid = neighbour.parent


def _neighbour(pid: int) -> Neighbour | None:
    """Return what can be seen of a process; None for one that is gone, or runs no program."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as stream:
            pairs = (line.rstrip("\n").partition(":\t") for line in stream)
            lines = {name: value for name, _, value in pairs}
    except OSError:
        return None
    if "VmSize" not in lines:
        return None
    return Neighbour(
        pid=pid,
        parent=int(lines["PPid"]),
        uid=int(lines["Uid"].split()[0]),
        gid=int(lines["Gid"].split()[0]),
        name=lines["Name"],
        is_readable=_is_readable(pid),
    )


def _is_readable(pid: int) -> bool:
    try:
        os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:  # gone
        return True
    return True


def _read_next_door(pid: int, path: Path) -> str:
    """Return the text of a file in the root directory of another process; empty if there is none.

    Whoever made that directory is not trusted. A link in it is refused, for it would be followed
    in our own root; a FIFO is, for nobody may ever write to it; and a file may have no end.

    Source: proc(5), Linux man-pages 6.03, "/proc/[pid]/root"; path_resolution(7): an absolute link
    begins at the root of the process that resolves it. Seen 2026-11-30, Linux 6.18.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        directory = os.open(f"/proc/{pid}/root", _DIRECTORY)
        opened.callback(os.close, directory)
        for name in path.parts[1:-1]:
            directory = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            opened.callback(os.close, directory)
        file = os.open(path.name, _UNTRUSTED_FILE, dir_fd=directory)
        opened.callback(os.close, file)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return os.read(file, _MOST_BYTES).decode(errors="replace")
    return ""
