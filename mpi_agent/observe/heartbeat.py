"""Whether the agent's event loop still turns: it must say so now and then.

Pages are served by other threads, so that they would answer for a loop that hangs. The limit is
long, because a liveness probe that fails ends the ranks too: an agent beside ranks that take all
of the container's CPU time may get none for seconds.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["STUCK_AFTER_S", "Heartbeat"]

STUCK_AFTER_S = 30.0
_BEATS = 6


class Heartbeat:
    """The time of the loop's last turn.

    Args:
        now_s: the monotonic clock.
        limit_s: of silence, after which the loop is stuck.
    """

    def __init__(self, *, now_s: Callable[[], float], limit_s: float = STUCK_AFTER_S) -> None:
        self._now_s = now_s
        self._limit_s = limit_s
        self._last_s = now_s()

    @property
    def pause_s(self) -> float:
        """How often the loop should say that it turns: several times within the limit."""
        return self._limit_s / _BEATS

    def beat(self) -> None:
        """Note that the loop turns."""
        self._last_s = self._now_s()

    @property
    def failure(self) -> str | None:
        """Why the agent does not live, None when it does."""
        silence_s = self._now_s() - self._last_s
        if silence_s <= self._limit_s:
            return None
        return f"the agent has been stuck for {silence_s:.0f} s"
