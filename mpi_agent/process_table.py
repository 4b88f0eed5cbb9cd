"""The kernel's table of processes, as far as it is told to us: parent, group, start, environment.

A process that goes away while it is looked at is simply not there, nor is one that the kernel
hides from us. Everything is read from /proc by us: psutil asks for more than is needed here, which
counts where a worker looks again and again, and it fails where a process is hidden.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ProcessKey", "ProcessStat", "environ_of", "every_stat", "stat_of", "value_in"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessKey:
    """One process: a pid whose start changed is somebody else's."""

    pid: int
    started_at_s: float


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What the kernel says of one process.

    Attributes:
        group: of the process; its leader's pid.
        started_at_s: seconds after the machine's start.
        is_zombie: it has ended, and its parent has not asked how.
        wait_status: how it ended, as `wait` would tell; 0 while it lives, and where the kernel does
            not let us know.
        cpu_s: used until now, with that of its children that have ended.
        memory_bytes: resident.
    """

    pid: int
    parent: int
    group: int
    started_at_s: float
    is_zombie: bool
    wait_status: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0


def every_stat() -> Iterator[ProcessStat]:
    """Yield all processes that we can see."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := stat_of(int(name))) is not None:
            yield stat


def stat_of(pid: int) -> ProcessStat | None:
    """Return what the kernel says of a process; None for one that is gone or hidden.

    Source: proc(5), Linux man-pages 6.03, "/proc/[pid]/stat": the name in parentheses may hold
    blanks and parentheses itself; field 52, since Linux 3.5, is 0 where we may not trace it; and
    "Mount options": with hidepid=1 the pids of other accounts are listed, and nothing below them
    can be opened. A main thread that has ended before others is shown as a zombie too, with more
    than one thread (field 20; Linux 6.18, seen 2026-11-30).
    """
    try:
        line = _read(f"/proc/{pid}/stat")
    except PermissionError:
        return None
    if not line:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        started_at_s=int(fields[19]) / _TICKS_PER_S,
        is_zombie=fields[0] in (b"Z", b"X") and int(fields[17]) <= 1,
        wait_status=int(fields[49]) if len(fields) > 49 else 0,
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def environ_of(pid: int) -> bytes | None:
    """Return the environment that a process was started with; None where we may not read it.

    It is `NAME=VALUE` entries with a zero byte behind each, empty for a process that is gone, and
    anything at all for one that wrote its title over it.
    """
    try:
        return _read(f"/proc/{pid}/environ")
    except PermissionError:
        return None


def value_in(environ: bytes, name: str) -> bytes:
    """Return the value of a variable; empty where it is not set."""
    _, found, rest = (b"\0" + environ).partition(f"\0{name}=".encode())
    return rest.partition(b"\0")[0] if found else b""


def _read(path: str) -> bytes:
    """Return a file below /proc; empty for a process that is gone.

    Raises:
        PermissionError: we may not read it.
    """
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.readall()
    except (FileNotFoundError, ProcessLookupError):
        return b""
