"""Waiting for a condition, with a limit: what these tests do instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

_PERIOD_S = 0.02

T = TypeVar("T")


def wait_until(what: str, condition: Callable[[], T], *, limit_s: float) -> T:
    """Return the condition's first true value.

    Raises:
        TimeoutError: it stayed false for the whole limit; says what was waited for.
    """
    deadline_s = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"cannot see that {what} within {limit_s:.0f} s")
        time.sleep(_PERIOD_S)
    return value
