"""Notices hosts that are lost while the program runs, and tells which and why.

It is the launcher's own way to notice: no MPI's launcher notices a silent loss by itself.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19: a worker whose packets
were dropped, or whose processes were all stopped, was not noticed within 125 s; measured 2026-11.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from mpi_agent.job.alarms import Alarm
from mpi_agent.job.events import EventSink
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.run.host_probe import probe_host
from mpi_agent.run.host_watch import HostWatch, NameLookup, Probe
from mpi_agent.run.liveness import Patience
from mpi_agent.run.open_files import room_for_channels
from mpi_agent.run.watched_worker import Heard

__all__ = ["LostHosts"]

_MOST_PROBES = 512
_FEWEST_PROBES = 32


class LostHosts:
    """Looks after the hosts of one run.

    Args:
        hosts: as the wait found them; those without an address are passed over.
        worker_timeout_s: silence after which one is lost; None for never.
        heard: what the channel to a host tells; None where there is none.
        is_idle: whether it is known of a host that nothing of the program runs there.
        look_up: finds where a name leads to now; None where nobody can.
        gone: is told of each host that is lost.
        jitter: returns a number between 0 and 1, by which looks at hosts are spread.
    """

    def __init__(
        self,
        hosts: Sequence[HostReadiness],
        *,
        worker_timeout_s: float | None,
        emit: EventSink,
        heard: Callable[[str], Heard | None] = lambda _: None,
        is_idle: Callable[[str], bool] = lambda _: False,
        look_up: NameLookup | None = None,
        gone: Callable[[str], None] = lambda _: None,
        probe: Probe = probe_host,
        room: Callable[[int], int] = room_for_channels,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._known = tuple(h for h in hosts if h.address is not None and h.port is not None)
        self._patience = Patience(timeout_s=worker_timeout_s) if worker_timeout_s else None
        self._emit = emit
        self._heard = heard
        self._is_idle = is_idle
        self._look_up = look_up
        self._gone = gone
        self._probe = probe
        self._room = room
        self._jitter = jitter

    async def noticed(self) -> Alarm:
        """Return which hosts are lost, once some are; else never. It begins with the program.

        Where nothing of the program ran that is noted, and no reason to end it.
        """
        if self._patience is None or not self._known:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets that event")
        room = self._room(len(self._known) + _MOST_PROBES) - len(self._known)
        watch = HostWatch(
            self._known,
            self._patience,
            emit=self._emit,
            heard=self._heard,
            is_idle=self._is_idle,
            gone=self._gone,
            look_up=self._look_up,
            probe=self._probe,
            most_probes=max(_FEWEST_PROBES, min(_MOST_PROBES, room)),
            jitter=self._jitter,
        )
        try:
            return await watch.until_lost()
        finally:
            await watch.close()
