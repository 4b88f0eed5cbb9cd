"""Drives probes up the ladder until every host is ready, the rest are refused, or time is up.

One deadline, one budget of probes, no probe after the deadline, no task left when it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mpi_agent.job.events import EventSink, HostAdvanced, WaitProgressed
from mpi_agent.job.readiness import HostReadiness, ProbeResult, ReadinessReport
from mpi_agent.wait.ladder import advance, is_wait_over
from mpi_agent.wait.pace import pause_after
from mpi_agent.wait.report import progress_line

__all__ = ["Gate", "Probe"]

PROGRESS_PAUSE_S = 10.0
_LONGEST_NAP_S = 1.0


class Probe(Protocol):
    """Asks one host how far it has come; returns "no", never raises it."""

    async def probe(self, host: str) -> ProbeResult:
        """Return the answer."""


class Gate:
    """Lets the launch through once every host is ready.

    Args:
        now_s: the monotonic clock.
        parallel: probes in flight at most.
        jitter: returns a number between 0 and 1.
    """

    def __init__(
        self,
        *,
        probe: Probe,
        now_s: Callable[[], float],
        emit: EventSink,
        parallel: int,
        jitter: Callable[[], float],
    ) -> None:
        self._probe = probe
        self._now_s = now_s
        self._emit = emit
        self._parallel = parallel
        self._jitter = jitter
        self._hosts: dict[str, HostReadiness] = {}
        self._flights: dict[asyncio.Task[ProbeResult], str] = {}

    async def wait(self, names: tuple[str, ...], timeout_s: float | None) -> ReadinessReport:
        """Return where every host stood at the end, in the order of `names`.

        Args:
            timeout_s: seconds from now until the deadline, None for no limit.
        """
        started_at_s = self._now_s()
        self._hosts = {name: HostReadiness(host=name) for name in names}
        next_progress_at_s = started_at_s + PROGRESS_PAUSE_S
        try:
            while True:
                now_s = self._now_s()
                report = self._report(started_at_s, timeout_s)
                out_of_time = timeout_s is not None and now_s - started_at_s >= timeout_s
                if out_of_time or is_wait_over(report.hosts, now_s):
                    return report
                if now_s >= next_progress_at_s:
                    self._emit(WaitProgressed(report=report, line=progress_line(report)))
                    next_progress_at_s = now_s + PROGRESS_PAUSE_S
                self._start_due_probes(now_s)
                await self._take_answers(self._nap_s(now_s, started_at_s, timeout_s))
        finally:
            await self._end_flights()

    def _report(self, started_at_s: float, timeout_s: float | None) -> ReadinessReport:
        return ReadinessReport(
            hosts=tuple(self._hosts.values()),
            elapsed_s=self._now_s() - started_at_s,
            timeout_s=timeout_s,
        )

    def _start_due_probes(self, now_s: float) -> None:
        room = self._parallel - len(self._flights)
        in_flight = set(self._flights.values())
        due = [
            host
            for host in self._hosts.values()
            if not host.is_ready and host.host not in in_flight and host.next_probe_at_s <= now_s
        ]
        due.sort(key=lambda host: host.next_probe_at_s)
        for host in due[:room]:
            task = asyncio.create_task(self._probe.probe(host.host), name=f"probe {host.host}")
            self._flights[task] = host.host

    def _nap_s(self, now_s: float, started_at_s: float, timeout_s: float | None) -> float:
        """Return how long nothing but an answer can matter."""
        in_flight = set(self._flights.values())
        moments = [
            host.next_probe_at_s
            for host in self._hosts.values()
            if not host.is_ready and host.host not in in_flight
        ]
        if len(self._flights) >= self._parallel:
            moments = []
        if timeout_s is not None:
            moments.append(started_at_s + timeout_s)
        return max(0.001, min([*(m - now_s for m in moments), _LONGEST_NAP_S]))

    async def _take_answers(self, nap_s: float) -> None:
        if not self._flights:
            await asyncio.sleep(nap_s)
            return
        done, _ = await asyncio.wait(
            self._flights, timeout=nap_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            self._take_answer(self._flights.pop(task), task.result())

    def _take_answer(self, name: str, result: ProbeResult) -> None:
        missing = sum(not host.is_ready for host in self._hosts.values())
        pause_s = pause_after(result.obstacle, missing=missing, jitter=self._jitter())
        before = self._hosts[name]
        self._hosts[name] = after = advance(before, result, pause_s=pause_s)
        if after.stage > before.stage:
            self._emit(HostAdvanced(host=after))

    async def _end_flights(self) -> None:
        for task in self._flights:
            task.cancel()
        await asyncio.gather(*self._flights, return_exceptions=True)
        self._flights.clear()
