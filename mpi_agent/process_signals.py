"""Signals to processes that may be gone, or belong to another account, and how some all end.

Neither is an error: what the job left behind goes away while it is looked at, and an agent that may
not signal a process must still be able to end all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpi_agent.process_table import stat_of

__all__ = ["Ended", "end_processes", "is_sent"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.2
_KILL_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the processes went that were told to end.

    Attributes:
        count: how many there were.
        killed: how many of them are gone, and did not end by themselves.
        left: how many are still there; we may not signal them, or the kernel holds them.
    """

    count: int
    killed: int
    left: int = 0

    @property
    def gone(self) -> int:
        """How many are not there any more."""
        return self.count - self.left


def is_sent(send: Callable[[int, int], None], pid: int, signal_number: int) -> bool:
    """Send a signal; return False when nobody is there, or nobody whom we may signal.

    Args:
        send: `os.kill` or `os.killpg`.

    Source: kill(2), Linux man-pages 6.03, EPERM. Root without CAP_KILL may not signal another
    account, such as the child of OpenSSH's sshd (9.2) that speaks with a client who is not in yet.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, signal_number)
        return True
    return False


async def end_processes(find: Callable[[], Sequence[int]], *, grace_s: float) -> Ended:
    """End what is found: TERM, and KILL for what is left after the grace period.

    What appears meanwhile gets the same.

    Args:
        find: the pids of those live processes that have to end; asked again and again.
    """
    targets = _Targets(find)
    await targets.signal_until_gone(signal.SIGTERM, grace_s)
    got_kill = await targets.signal_until_gone(signal.SIGKILL, _KILL_LIMIT_S)
    left = targets.left()
    return Ended(count=targets.count, killed=len(got_kill - left), left=len(left))


class _Targets:
    """Processes that have to end, each by its pid and the start with which it was first seen."""

    def __init__(self, find: Callable[[], Sequence[int]]) -> None:
        self._find = find
        self._started_at_s: dict[int, float] = {}

    @property
    def count(self) -> int:
        """How many there were until now."""
        return len(self._started_at_s)

    def left(self) -> set[int]:
        """Return the pids of those that are found now, live, and what they were."""
        found = (stat for pid in self._find() if (stat := stat_of(pid)) and not stat.is_zombie)
        return {
            stat.pid
            for stat in found
            if self._started_at_s.setdefault(stat.pid, stat.started_at_s) == stat.started_at_s
        }

    async def signal_until_gone(self, signal_number: int, limit_s: float) -> set[int]:
        """Send each one a signal once, until none is left or the limit is over; return who got it.

        What we may not signal is waited for all the same: it may go when others do.
        """
        deadline_s = time.monotonic() + limit_s
        signalled: set[int] = set()
        pause_s = _FIRST_PAUSE_S
        while left := self.left():
            new = left - signalled
            signalled |= {pid for pid in new if is_sent(os.kill, pid, signal_number)}
            if (rest_s := deadline_s - time.monotonic()) <= 0:
                break
            await asyncio.sleep(min(pause_s, rest_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return signalled
