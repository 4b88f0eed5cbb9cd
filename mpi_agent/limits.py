"""What this process may do and take: resource limits, capabilities, whether it leaves a core dump.

Limits are raised before anything is started, because an ssh server's sessions and ranks inherit
them; nothing is ever lowered.

Source: getrlimit(2), prctl(2), capabilities(7), Linux man-pages 6.03.
"""

from __future__ import annotations

import ctypes
import math
import resource
from pathlib import Path

__all__ = ["effective_capabilities", "forbid_core_dumps", "raise_limits"]

_MOST_OPEN_FILES = 1 << 20
"""More are not asked for: programs that close every possible number when they start a child would
do so a thousand million times, where a container engine sets no limit.

Source: fs.nr_open is 1048576 by default (Linux, admin-guide/sysctl/fs.rst); containerd's unit file
had LimitNOFILE=infinity until 2.0, which systemd takes for 1073741816 (containerd/containerd 8924).
"""

_LIMITS = {
    "memlock": (resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY),
    "nofile": (resource.RLIMIT_NOFILE, _MOST_OPEN_FILES),
    "stack": (resource.RLIMIT_STACK, resource.RLIM_INFINITY),
    "core": (resource.RLIMIT_CORE, resource.RLIM_INFINITY),
}
"""Each with the most that is asked for; names as in limits.conf(5).

An unlimited stack is what Fortran programs with large local arrays need, and what HPC sites set;
it concerns a process's first thread. For the others glibc takes the limit as their stack's size,
but 2 MB where there is none, so with an infinite hard value they have less than with the usual soft
one of 8 MB. OpenMP programs say what their threads need by OMP_STACKSIZE, which wins over both.

Source: glibc 2.36 on x86-64, default stack of a thread by pthread_attr_getstacksize: 8192 KB under
`ulimit -s 8192`, 2048 KB under `ulimit -s unlimited`; so have the threads of gcc 12's libgomp, and
8192 KB with OMP_STACKSIZE=8M; measured 2026-11-30.
"""

_CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_RESOURCE": 24,
    "CAP_AUDIT_WRITE": 29,
}
"""By their bits; those that somebody here asks for.

Source: Linux, include/uapi/linux/capability.h.
"""

_STATUS = Path("/proc/self/status")
_PR_SET_DUMPABLE = 4


def raise_limits() -> tuple[str, ...]:
    """Raise the soft limits to the hard ones; return a note on each that could not be raised."""
    notes = (_raise_limit(name, limit, most) for name, (limit, most) in _LIMITS.items())
    return tuple(note for note in notes if note)


def _raise_limit(name: str, limit: int, most: int) -> str:
    soft, hard = resource.getrlimit(limit)
    wanted = min(hard, most, key=_size)
    if _size(soft) >= _size(wanted):
        return ""
    try:
        resource.setrlimit(limit, (wanted, hard))
    except (OSError, ValueError) as error:
        return f"cannot raise the {name} limit from {soft} to {_size(wanted)}: {error}"
    return ""


def _size(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit


def forbid_core_dumps() -> None:
    """Keep this process's memory, with its keys, out of core dumps and from other accounts' view.

    What it starts is as before: the kernel forgets it with every program. Nothing but root can read
    our environment in /proc then, not even we.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def effective_capabilities(status: Path = _STATUS) -> frozenset[str]:
    """Return what this process may do beyond its account, as far as somebody here asks for it.

    Root in a container has few; none where nothing tells it.
    """
    try:
        lines = status.read_text(errors="replace").splitlines()
        mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return frozenset()
    return frozenset(name for name, bit in _CAPABILITIES.items() if mask >> bit & 1)
