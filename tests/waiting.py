"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]

_PAUSE_S = 0.02


def wait_until(
    claim: str,
    check: Callable[[], bool],
    *,
    limit_s: float = 30.0,
    pause_s: float = _PAUSE_S,
) -> None:
    """Return once `check()` is true.

    Args:
        pause_s: between two looks; longer where a look is work for what is looked at.

    Raises:
        AssertionError: it was not within the limit; the text holds the claim.
    """
    deadline_s = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < deadline_s, f"not within {limit_s:g} s: {claim}"
        time.sleep(pause_s)
