"""When the wait says how far it is: seldom, and only if there is something to say.

A line comes at most every ten seconds, when who is missing or why has changed, or when time is
short. An unchanged wait still says one line every two minutes, so that a silent log means an
agent that is gone.
"""

from __future__ import annotations

from mpi_agent.job.readiness import Obstacle, ReadinessReport

__all__ = ["Progress"]

PAUSE_S = 10.0
UNCHANGED_PAUSE_S = 120.0
SHORT_TIME_S = 30.0
LOOK_PAUSE_S = 1.0


class Progress:
    """Remembers what was told last, and when.

    Args:
        started_at_s: monotonic time at which the wait began.
    """

    def __init__(self, started_at_s: float) -> None:
        self._told_at_s = started_at_s
        self._looked_at_s = started_at_s
        self._told: frozenset[tuple[str, Obstacle | None]] | None = None

    def next_at_s(self) -> float:
        """Return the moment before which a look is in vain; a look costs time in a large job."""
        return max(self._told_at_s + PAUSE_S, self._looked_at_s + LOOK_PAUSE_S)

    def is_due(self, report: ReadinessReport) -> bool:
        """Return whether to tell this report now; if so, remember it as told."""
        silent_s = report.at_s - self._told_at_s
        if silent_s < PAUSE_S:
            return False
        self._looked_at_s = report.at_s
        state = frozenset((host.host, host.obstacle) for host in report.laggards)
        left_s = None if report.timeout_s is None else report.timeout_s - report.elapsed_s
        is_short = left_s is not None and left_s <= SHORT_TIME_S
        if state == self._told and not is_short and silent_s < UNCHANGED_PAUSE_S:
            return False
        self._told, self._told_at_s = state, report.at_s
        return True
