"""What the kernel accounts for this container: how much memory it may have, has, and had at most.

A container sees its own control group at the root of the mount, in the second version of cgroups
as in the first. Where a file is missing, or there is no limit, the answer is None.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files", and
cgroup-v1/memory.rst, "Memory Resource Controller", of 6.18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CGROUP_ROOT", "MemoryAccount", "limit_in_bytes", "memory_account"]

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
            kills=_kills(events),
        )
    first = root / "memory"
    return MemoryAccount(
        limit_bytes=limit_in_bytes(read(first / "memory.limit_in_bytes")),
        used_bytes=_number(read(first / "memory.usage_in_bytes")),
        most_used_bytes=_number(read(first / "memory.max_usage_in_bytes")),
        kills=_kills(read(first / "memory.oom_control")),
    )


def limit_in_bytes(text: str) -> int | None:
    """Return the limit that `memory.max` or `memory.limit_in_bytes` holds; None for no limit."""
    number = _number(text)
    return None if number is None or number >= _NO_LIMIT_BYTES else number


def _kills(text: str) -> int | None:
    rows = (line.split() for line in text.splitlines())
    return next((_number(row[1]) for row in rows if row[:1] == ["oom_kill"] and row[1:]), None)


def _number(text: str) -> int | None:
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() else None
