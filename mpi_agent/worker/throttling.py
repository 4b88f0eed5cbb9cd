"""Whether a run was held back by this container's CPU limit, as its launcher is told at its end.

The kernel counts since the container began, so a run's part is what came to pass between its begin
and its end. Of runs that go on at the same time each is told all of it.

A little of it is nothing: a program that starts, loads and compiles runs into any limit now and
then. Ranks that wait for each other all wait for the one that was held back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from mpi_agent.cgroup import CpuAccount, cpu_account
from mpi_agent.ssh.worker_words import Line, Throttled

__all__ = ["Throttling", "is_noticeable"]

_LEAST_SHARE = 0.05
_LEAST_PERIODS = 20
"""two seconds, with the kernel's own period of 0.1 s"""


class Throttling:
    """The open runs of this worker.

    Args:
        read: returns the account of the container as it is now.
    """

    def __init__(self, read: Callable[[], CpuAccount] = cpu_account) -> None:
        self._read = read
        self._before: dict[str, CpuAccount] = {}

    def begin(self, run_id: str) -> None:
        """Note that a run begins; one that is known already goes on."""
        self._before.setdefault(run_id, self._read())

    def last_words(self, run_id: str) -> tuple[Line, ...]:
        """Return what the launcher of a run that ends is told, once."""
        before = self._before.pop(run_id, None)
        if before is None:
            return ()
        held_back = self._read().since(before)
        if not is_noticeable(held_back):
            return ()
        return (Throttled(periods=held_back.periods, throttled=held_back.throttled),)

    def keep(self, run_ids: Collection[str]) -> None:
        """Forget other runs."""
        self._before = {run_id: one for run_id, one in self._before.items() if run_id in run_ids}


def is_noticeable(held_back: CpuAccount) -> bool:
    """Return whether a CPU limit may have slowed a run down."""
    is_often = held_back.throttled >= _LEAST_SHARE * held_back.periods
    return is_often and held_back.throttled >= _LEAST_PERIODS
