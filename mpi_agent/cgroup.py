"""What the kernel accounts for this container: its memory, and how often it had to wait for CPUs.

A container sees its own control group at the root of the mount, in the second version of cgroups
as in the first. Where a file is missing, or there is no limit, the answer is None.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files" and "CPU Interface
Files", cgroup-v1/memory.rst, "Memory Resource Controller", and scheduler/sched-bwc.rst, of 6.18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CGROUP_ROOT",
    "CpuAccount",
    "MemoryAccount",
    "cpu_account",
    "limit_in_bytes",
    "memory_account",
]

CGROUP_ROOT = Path("/sys/fs/cgroup")

_NO_LIMIT_BYTES = 1 << 60
"""More than any machine has. The first version says "no limit" with the largest number of pages,
9223372036854771712 where a page has 4 KiB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccount:
    """The memory of this container; None is what nothing tells.

    Attributes:
        limit_bytes: None too without a limit.
        used_bytes: now, with the cache of files.
        most_used_bytes: at a time, since the container began. The second version tells it since
            Linux 5.19.
        kills: processes that were killed for want of memory since the container began. The first
            version tells it since Linux 4.13.
    """

    limit_bytes: int | None = None
    used_bytes: int | None = None
    most_used_bytes: int | None = None
    kills: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAccount:
    """How often this container used up its CPU limit, since it began.

    Attributes:
        periods: in which something wanted to run under the limit, mostly of 0.1 s each; 0 without
            a limit, and where nothing tells it.
        throttled: those of them in which it had to wait for the next one.
    """

    periods: int = 0
    throttled: int = 0

    def since(self, before: CpuAccount) -> CpuAccount:
        """Return what came to pass after another look."""
        return CpuAccount(
            periods=max(0, self.periods - before.periods),
            throttled=max(0, self.throttled - before.throttled),
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def memory_account(
    root: Path = CGROUP_ROOT, *, read: Callable[[Path], str] = _read
) -> MemoryAccount:
    """Return the account of the controller that is there, the second version's first.

    Args:
        read: returns a file's text, empty where there is none.
    """
    limit, events = read(root / "memory.max"), read(root / "memory.events")
    if limit or events:
        return MemoryAccount(
            limit_bytes=limit_in_bytes(limit),
            used_bytes=_number(read(root / "memory.current")),
            most_used_bytes=_number(read(root / "memory.peak")),
            kills=_row(events, "oom_kill"),
        )
    first = root / "memory"
    return MemoryAccount(
        limit_bytes=limit_in_bytes(read(first / "memory.limit_in_bytes")),
        used_bytes=_number(read(first / "memory.usage_in_bytes")),
        most_used_bytes=_number(read(first / "memory.max_usage_in_bytes")),
        kills=_row(read(first / "memory.oom_control"), "oom_kill"),
    )


def cpu_account(root: Path = CGROUP_ROOT, *, read: Callable[[Path], str] = _read) -> CpuAccount:
    """Return the account of the controller that is there, the second version's first.

    In the second version the file is there without a limit too, and lacks what counts then.

    Args:
        read: see `memory_account`.
    """
    text = read(root / "cpu.stat") or read(root / "cpu" / "cpu.stat")
    return CpuAccount(
        periods=_row(text, "nr_periods") or 0, throttled=_row(text, "nr_throttled") or 0
    )


def limit_in_bytes(text: str) -> int | None:
    """Return the limit that `memory.max` or `memory.limit_in_bytes` holds; None for no limit."""
    number = _number(text)
    return None if number is None or number >= _NO_LIMIT_BYTES else number


def _row(text: str, name: str) -> int | None:
    """Return the number behind a name in a file of such pairs."""
    rows = (line.split() for line in text.splitlines())
    return next((_number(row[1]) for row in rows if row[:1] == [name] and row[1:]), None)


def _number(text: str) -> int | None:
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() else None
