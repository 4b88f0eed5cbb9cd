"""Drives probes up the ladder until enough hosts are ready, some are refused, or time is up.

One deadline, one budget of probes, no probe after the deadline, no task left when it returns.
Apart from one copy of the list of hosts for whoever listens, an answer costs a time that does not
grow with the job, so a wait for thousands stays linear.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from mpi_agent.job.events import EventSink, HostAdvanced, ProbeEnded, WaitProgressed, WaitStarted
from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult, ReadinessReport, Stage
from mpi_agent.wait.ladder import advance, can_still_succeed
from mpi_agent.wait.pace import pause_after
from mpi_agent.wait.progress import Progress
from mpi_agent.wait.report import progress_line

__all__ = ["Gate", "Probe"]

_LONGEST_NAP_S = 1.0


class Probe(Protocol):
    """Asks one host how far it has come; returns "no", never raises it."""

    async def probe(self, host: str, reached: Callable[[Stage], None]) -> ProbeResult:
        """Return the answer; call `reached` for a stage that is reached long before it."""


class Gate:
    """Lets the launch through once enough hosts are ready; waits once.

    Args:
        now_s: the monotonic clock.
        parallel: probes in flight at most.
        jitter: returns a number between 0 and 1.
        timeout_s: seconds from the start until the deadline, None for no limit.
        started_at_s: since when time runs; None for the start of the wait.
        enough: how many ready hosts are waited for, None for all.
    """

    def __init__(
        self,
        *,
        probe: Probe,
        now_s: Callable[[], float],
        emit: EventSink,
        parallel: int,
        jitter: Callable[[], float],
        timeout_s: float | None,
        enough: int | None = None,
        started_at_s: float | None = None,
    ) -> None:
        self._probe = probe
        self._now_s = now_s
        self._emit = emit
        self._parallel = parallel
        self._jitter = jitter
        self._timeout_s = timeout_s
        self._enough = enough
        self._started_at_s = now_s() if started_at_s is None else started_at_s
        self._next_look_at_s = 0.0
        self._hosts: dict[str, HostReadiness] = {}
        self._ready: set[str] = set()
        self._due: list[tuple[float, str]] = []
        self._flights: dict[str, asyncio.Task[ProbeResult]] = {}
        self._landed: list[tuple[str, asyncio.Task[ProbeResult]]] = []
        self._doors = _Doors()
        self._told: dict[str, Stage] = {}
        self._wake = asyncio.Event()

    async def wait(self, names: tuple[str, ...]) -> ReadinessReport:
        """Return where every host stood at the end, in the order of the names."""
        progress = Progress(self._now_s())
        self.follow(names)
        self._emit(WaitStarted(names=names, timeout_s=self._timeout_s, enough=self._enough))
        try:
            while not self._is_over(now_s := self._now_s()):
                if now_s >= progress.next_at_s() and progress.is_due(report := self._report()):
                    self._emit(WaitProgressed(report=report, line=progress_line(report)))
                self._start_due_probes(now_s)
                await self._until_something_happens(now_s)
                self._take_answers()
            return self._report()
        finally:
            await self._end_flights()

    def follow(self, names: tuple[str, ...]) -> None:
        """Wait for these hosts from now on; who stays keeps what it has reached."""
        now_s = self._now_s()
        before = self._hosts
        self._hosts = {
            name: before.get(name) or HostReadiness(host=name, since_s=now_s) for name in names
        }
        self._ready &= self._hosts.keys()
        self._told = {name: stage for name, stage in self._told.items() if name in self._hosts}
        self._doors.keep(self._hosts.keys())
        self._due = [due for due in self._due if due[1] in self._hosts and due[1] in before]
        heapq.heapify(self._due)
        for name in self._hosts.keys() - before.keys():
            heapq.heappush(self._due, (now_s, name))
        for name in self._flights.keys() - self._hosts.keys():
            self._flights[name].cancel()
        self._wake.set()

    def _reach(self, name: str, stage: Stage) -> None:
        """Take in how far a probe has come that is still on its way."""
        host = self._hosts.get(name)
        if host is not None and stage > host.stage:
            self._hosts[name] = replace(host, stage=stage, since_s=self._now_s())

    def _report(self) -> ReadinessReport:
        now_s = self._now_s()
        return ReadinessReport(
            hosts=tuple(self._hosts.values()),
            elapsed_s=now_s - self._started_at_s,
            timeout_s=self._timeout_s,
            at_s=now_s,
            enough=self._enough,
        )

    def _is_over(self, now_s: float) -> bool:
        """Return whether waiting longer is pointless, or forbidden."""
        if self._timeout_s is not None and now_s - self._started_at_s >= self._timeout_s:
            return True
        count = len(self._hosts)
        wanted = count if self._enough is None else min(self._enough, count)
        if len(self._ready) >= wanted:
            return True
        if now_s < self._next_look_at_s:
            return False
        self._next_look_at_s = now_s + _LONGEST_NAP_S
        return not can_still_succeed(self._hosts.values(), now_s, wanted=wanted)

    def _start_due_probes(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s and len(self._flights) < self._parallel:
            _, name = heapq.heappop(self._due)
            if name not in self._hosts or name in self._flights:
                continue
            reached = functools.partial(self._reach, name)
            task = asyncio.create_task(self._probe.probe(name, reached), name=f"probe {name}")
            self._flights[name] = task
            task.add_done_callback(functools.partial(self._land, name))

    def _land(self, name: str, task: asyncio.Task[ProbeResult]) -> None:
        self._flights.pop(name, None)
        if not task.cancelled():
            self._landed.append((name, task))
        elif name in self._hosts:  # it was taken from the list, and put back meanwhile
            heapq.heappush(self._due, (self._now_s(), name))
        self._wake.set()

    async def _until_something_happens(self, now_s: float) -> None:
        """Return when an answer has come, or when the next moment that matters has."""
        moments = [self._next_look_at_s]
        if self._due and len(self._flights) < self._parallel:
            moments.append(self._due[0][0])
        if self._timeout_s is not None:
            moments.append(self._started_at_s + self._timeout_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.001, min(moments) - now_s)):
                await self._wake.wait()
        self._wake.clear()

    def _take_answers(self) -> None:
        landed, self._landed = self._landed, []
        for name, task in landed:
            result = task.result()  # raises what went wrong in our own code
            if name in self._hosts:
                self._take_answer(name, result)

    def _take_answer(self, name: str, result: ProbeResult) -> None:
        before = self._hosts[name]
        result = self._refuse_shared_door(result)
        missing = len(self._hosts) - len(self._ready)
        pause_s = pause_after(result, missing=missing, jitter=self._jitter())
        self._hosts[name] = after = advance(before, result, pause_s=pause_s)
        if after.is_ready:
            self._ready.add(name)
        else:
            heapq.heappush(self._due, (after.next_probe_at_s, name))
        if after.stage > self._told.get(name, Stage.UNKNOWN):
            self._told[name] = after.stage
            self._emit(HostAdvanced(host=after))
        self._emit(ProbeEnded(result=result, report=self._report()))

    def _refuse_shared_door(self, result: ProbeResult) -> ProbeResult:
        """Two names that lead to one sshd are one host: the job would run on fewer than asked."""
        door = (result.address, result.port)
        if result.passed:
            other = self._doors.enter(door, result.host)
        elif result.obstacle is Obstacle.HOST_KEY_UNKNOWN:
            other = self._doors.owner(door, otherwise=result.host)
        else:
            return result
        if other == result.host:
            return result
        # who came first may have been led there by an old address, and be elsewhere by now
        heapq.heappush(self._due, (result.at_s, other))
        return replace(
            result,
            stage=Stage.ANSWERING,
            obstacle=Obstacle.ADDRESS_SHARED,
            detail=f"{result.address} port {result.port} is {other} already",
        )

    async def _end_flights(self) -> None:
        flights = tuple(self._flights.values())
        for task in flights:
            task.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        self._flights.clear()


_Door = tuple[str | None, int | None]
"""address and port"""


class _Doors:
    """Which host was let in at which sshd."""

    def __init__(self) -> None:
        self._owners: dict[_Door, str] = {}
        self._doors: dict[str, _Door] = {}

    def enter(self, door: _Door, name: str) -> str:
        """Return whose door it is; that of this host, which leaves its former one, if nobody's."""
        owner = self._owners.setdefault(door, name)
        if owner == name:
            former = self._doors.get(name, door)
            if former != door:
                del self._owners[former]
            self._doors[name] = door
        return owner

    def owner(self, door: _Door, *, otherwise: str) -> str:
        """Return whose door it is."""
        return self._owners.get(door, otherwise)

    def keep(self, names: Collection[str]) -> None:
        """Forget every other host."""
        self._doors = {name: door for name, door in self._doors.items() if name in names}
        self._owners = {door: name for name, door in self._doors.items()}
