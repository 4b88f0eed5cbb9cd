"""A daemon that is gone while ranks below it live: Hydra does not notice, and they go on for ever.

What agents tell decides, who see the processes of the run. A host is lost where its daemon was
seen, is gone now and has left live ranks, for longer than an orderly end passes through that state.
A worker that is cut off tells nothing new, so what it told last is no sign; see `lost_hosts`.

Source: MPICH 4.0.2 and 5.0.2 and Intel MPI 2021.19, kill -9 of hydra_pmi_proxy on one of two hosts:
not noticed within 30 s, measured 2026-11-30.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.run_reports import HostPresence

__all__ = ["DAEMON_GRACE_S", "DaemonWatch", "daemon_lost"]

DAEMON_GRACE_S = 3.0
_LOOK_S = 0.5


class DaemonWatch:
    """What is known of the daemons of one run.

    Args:
        grace_s: for how long ranks may outlive their daemon.
    """

    def __init__(self, *, grace_s: float = DAEMON_GRACE_S) -> None:
        self._grace_s = grace_s
        self._seen: set[str] = set()
        self._gone_since_s: dict[str, float] = {}

    def take(self, presence: Iterable[HostPresence], *, at_s: float) -> dict[str, float]:
        """Return the hosts whose daemon is lost, with the time since when it is gone.

        Args:
            presence: of the hosts that can tell now; one that is not among them is as it was never
                seen without its daemon.
        """
        since_s: dict[str, float] = {}
        for host in presence:
            if host.daemons or host.had_daemons:
                self._seen.add(host.host)
            if host.ranks and not host.daemons and host.host in self._seen:
                since_s[host.host] = self._gone_since_s.get(host.host, at_s)
        self._gone_since_s = since_s
        return {name: s for name, s in since_s.items() if at_s - s >= self._grace_s}


async def daemon_lost(
    look: Callable[[], Iterable[HostPresence]], *, grace_s: float | None = DAEMON_GRACE_S
) -> Alarm:
    """Return that daemons are gone whose ranks go on, once that is so; else never.

    It begins with the program, which must not be one that starts its mpiruns itself: what one of
    them leaves behind is no sign of how the next one is.

    Args:
        look: returns what of the run is where, as far as agents tell it.
        grace_s: for how long ranks may outlive their daemon; None for ever.
    """
    if grace_s is None:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")
    clock = asyncio.get_running_loop().time
    watch, began_s = DaemonWatch(grace_s=grace_s), clock()
    while not (lost := watch.take(look(), at_s=clock())):
        await asyncio.sleep(_LOOK_S)
    return _alarm(lost, began_s=began_s, now_s=clock())


def _alarm(lost: dict[str, float], *, began_s: float, now_s: float) -> Alarm:
    is_one = len(lost) == 1
    clause = f"{'is' if is_one else 'are'} gone and {'its' if is_one else 'their'} ranks go on"
    losses = tuple(
        HostLoss(
            host=name,
            why="its MPI daemon is gone and its ranks go on",
            after_s=now_s - began_s,
            noticed_after_s=now_s - since_s,
        )
        for name, since_s in lost.items()
    )
    return Alarm(
        kind=AlarmKind.WORKERS_LOST,
        why=f"the MPI daemon{'' if is_one else 's'} on {fold_names(tuple(lost))} {clause}",
        losses=losses,
    )
