"""Which hosts a program does not use: it goes on when one of them is lost.

That must be known, not merely unseen. The start is over, so that no daemon and no rank is still to
come; and the host's agent, which tells when either is there, was heard for some time after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["HadNothing", "IdleHosts"]

HadNothing = Callable[[str, float], bool]
"""Returns whether a host's agent was heard after a time, and never told of ranks, nor of a daemon
that is still there."""
_LOOK_S = 5.0
"""in which an agent has looked at its host twice"""


class IdleHosts:
    """What is known of hosts without a part of the program.

    Args:
        had_nothing: asks what an agent told.
        may_begin_late: ranks may come anywhere at any time: the program starts them itself.
    """

    def __init__(self, had_nothing: HadNothing, *, may_begin_late: bool) -> None:
        self._had_nothing = had_nothing
        self._may_begin_late = may_begin_late
        self._known_from_s: float | None = None

    def start_is_over(self) -> None:
        """Note that all ranks are there, or were."""
        self._known_from_s = asyncio.get_running_loop().time() + _LOOK_S

    def is_idle(self, host: str) -> bool:
        """Return whether it is known that nothing of the program runs on a host."""
        if self._may_begin_late or self._known_from_s is None:
            return False
        return self._had_nothing(host, self._known_from_s)
