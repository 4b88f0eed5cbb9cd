"""How many files this process may have open: a channel is one, and a job may have 1,000 workers.

A container often has a soft limit of 1024 and a much higher hard one. Only this process's own soft
limit is raised, and only once the program has been started: mpirun, and the ranks that it starts on
this host, keep the limits that the container was given.

Source: getrlimit(2), Linux man-pages 6.03: limits are inherited at fork(2), so a child that runs
already keeps its own; systemd 240, NEWS: 1024 soft and 524288 hard for what it starts.
"""

from __future__ import annotations

import contextlib
import os
import resource

__all__ = ["room_for_channels"]

_OTHERS = 256
"""beside the channels: probes after a failed start, name servers, the log, files that are read"""


def room_for_channels(count: int) -> int:
    """Return how many of so many channels can be open at a time, at least one.

    The soft limit is raised if they need it. What is open already is not counted again.
    """
    wanted = _open_now() + _OTHERS + count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return count
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):  # then it is as it was
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return max(1, count - max(0, wanted - soft))


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return _OTHERS
