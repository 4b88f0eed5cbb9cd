"""Looks after the hosts of one run until some are lost: it listens, probes, and asks `liveness`.

A host whose agent is heard is not probed. Every other one is looked at every few seconds, and a
suspect about once a second. No name is looked up for that: hosts are where the wait found them. A
name is looked up once when its host is lost, to tell a pod that was replaced. With one host that is
lost, suspects that failed at two probes are told as well.

A host on which nothing of the program runs may be lost: the program does not need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mpi_agent.job.alarms import Alarm, HostLoss
from mpi_agent.job.events import (
    EventSink,
    Noted,
    WorkerLost,
    WorkerReturned,
    WorkerSuspected,
)
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.run.liveness import Change, HostLife, Life, Patience, Reason, Sign
from mpi_agent.run.loss_sentences import Loss, alarm_of
from mpi_agent.run.watched_worker import Heard
from mpi_agent.ssh.trust import SshTarget

__all__ = ["HostWatch", "NameLookup", "Probe"]

NameLookup = Callable[[str], Awaitable[tuple[str, ...]]]
"""Returns the addresses of a name, none where it has none; never raises for "no"."""
_LONGEST_TICK_S = 0.5
_TICKS_IN_A_TIMEOUT = 30
_MOST_TOLD = 16
_MOST_LOOKUPS = 16
_OVER = frozenset({Life.LOST, Life.DEPARTED})
"""of whom nothing more is to be learned"""


class Probe(Protocol):
    """Whoever looks at a host."""

    async def __call__(self, target: SshTarget, *, limit_s: float, banner: str) -> Sign | None:
        """Return what is seen of a host, None where we could not look."""


@dataclass(slots=True, kw_only=True)
class _Host:
    """A host while the program runs.

    Attributes:
        banner: what its agent says there; empty where no agent runs.
        next_probe_s: before which it is left alone.
        is_heard: its agent speaks with us.
        is_told: that it is suspected.
    """

    target: SshTarget
    life: HostLife
    banner: str
    next_probe_s: float
    is_heard: bool = False
    is_probed: bool = False
    is_told: bool = False


@dataclass(slots=True)
class _Tasks:
    """What goes on beside the watch, and ends with it."""

    running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def close(self) -> None:
        tasks = tuple(self.running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class HostWatch:
    """One watch, from the program's start to the first loss."""

    def __init__(
        self,
        known: Sequence[HostReadiness],
        patience: Patience,
        *,
        emit: EventSink,
        heard: Callable[[str], Heard | None],
        is_idle: Callable[[str], bool],
        gone: Callable[[str], None],
        look_up: NameLookup | None,
        probe: Probe,
        most_probes: int,
        jitter: Callable[[], float],
    ) -> None:
        self._patience = patience
        self._emit = emit
        self._heard = heard
        self._is_idle = is_idle
        self._gone = gone
        self._look_up = look_up
        self._probe = probe
        self._jitter = jitter
        self._began_at_s = now_s = _now_s()
        self._turns = asyncio.Semaphore(most_probes)
        self._probes, self._lookups = _Tasks(), _Tasks()
        self._losses: list[Loss] = []
        self._moved_to: dict[str, tuple[str, ...]] = {}
        self._hosts = tuple(
            _Host(
                target=SshTarget(name=host.host, port=host.port or 0, address=host.address),
                life=HostLife(host.host, patience, at_s=now_s),
                banner=host.banner if host.runs_agent else "",
                next_probe_s=now_s + patience.calm_pause_s * (number + 1) / len(known),
            )
            for number, host in enumerate(known)
        )

    async def close(self) -> None:
        """End what goes on beside it."""
        await self._probes.close()
        await self._lookups.close()

    async def until_lost(self) -> Alarm:
        """Return the alarm about the first hosts that are lost."""
        while not self._losses:
            await self._tick()
        until_s = _now_s() + self._patience.gathering_s
        while _now_s() < until_s and self._may_hear_more():
            await self._tick()
        for host in self._hosts:
            self._note(host, host.life.give_up(_now_s()))
        return self._alarm()

    def _may_hear_more(self) -> bool:
        is_doubtful = any(host.life.life is Life.SUSPECT for host in self._hosts)
        return is_doubtful or bool(self._lookups.running)

    async def _tick(self) -> None:
        """Look once at every host, after a pause; if that came late, nobody is to blame."""
        pause_s = min(self._patience.timeout_s / _TICKS_IN_A_TIMEOUT, _LONGEST_TICK_S)
        due_s = _now_s() + pause_s
        await asyncio.sleep(pause_s)
        now_s = _now_s()
        if now_s - due_s > self._patience.gathering_s:
            for host in self._hosts:
                host.life.excuse(now_s - due_s)
        untold = []
        for host in self._hosts:
            self._listen(host, now_s)
            if host.life.life in _OVER:
                continue
            if not host.is_heard and not host.is_probed and now_s >= host.next_probe_s:
                host.is_probed = True
                self._probes.start(self._look_at(host))
            while (change := host.life.look(now_s)) is not None:
                if change.life is Life.SUSPECT:
                    host.next_probe_s = min(host.next_probe_s, now_s)
                if not self._note(host, change):
                    untold.append(change.host)
        if untold:
            self._emit(Noted(text=f"{fold_names(tuple(untold))}: no sign of life either"))

    def _listen(self, host: _Host, now_s: float) -> None:
        """Take what the channel tells; where it says nothing any more, the host is probed."""
        heard = self._heard(host.target.name)
        was_heard, host.is_heard = host.is_heard, False
        if heard is None:
            return
        life = host.life
        life.is_evicted = heard.is_evicted
        if heard.last_word_s is not None:
            life.take(Sign.WORD, heard.last_word_s)
            silent_s = now_s - heard.last_word_s
            host.is_heard = heard.is_open and silent_s < self._patience.suspect_s
        if heard.is_replaced:
            life.take(Sign.OTHER_CONTAINER, now_s)
        if heard.ends_all:
            life.take(Sign.ENDING, now_s)
        elif heard.has_left:
            life.leave()
        if was_heard and not host.is_heard:
            host.next_probe_s = now_s

    async def _look_at(self, host: _Host) -> None:
        patience, life = self._patience, host.life
        try:
            async with self._turns:
                asked_at_s = _now_s()
                limit_s = patience.probe_limit_s
                sign = await self._probe(host.target, limit_s=limit_s, banner=host.banner)
            if sign is not None:
                life.take(sign, _now_s())
            is_calm = sign is Sign.BANNER
            pause_s = patience.calm_pause_s if is_calm else patience.suspect_pause_s
            host.next_probe_s = max(_now_s(), asked_at_s + pause_s * (1 - 0.2 * self._jitter()))
        finally:
            host.is_probed = False

    def _note(self, host: _Host, change: Change | None) -> bool:
        """Tell a change; return False for a suspicion that is one of too many to tell each."""
        if change is None:
            return True
        if change.life is Life.PRESENT:
            if host.is_told:
                host.is_told = False
                self._emit(WorkerReturned(host=change.host, silent_s=change.silent_s))
            return True
        assert change.reason is not None
        if change.life is Life.LOST:
            self._gone(change.host)
            if self._is_idle(change.host):
                text = f"{change.host} is lost, {change.reason.clause(_time_of_day)}"
                self._emit(Noted(text=f"{text}; nothing of the program ran there"))
            else:
                self._lose(host, change, change.reason)
            return True
        if sum(one.is_told for one in self._hosts) >= _MOST_TOLD:
            return False
        host.is_told = True
        why = change.reason.clause(_time_of_day)
        self._emit(WorkerSuspected(host=change.host, why=why))
        return True

    def _lose(self, host: _Host, change: Change, reason: Reason) -> None:
        after_s = _now_s() - self._began_at_s
        loss = HostLoss(
            host=change.host,
            why=reason.clause(_time_of_day),
            after_s=after_s,
            noticed_after_s=change.silent_s,
        )
        self._losses.append(Loss(loss=loss, reason=reason, address=host.target.address or ""))
        if self._look_up is not None and len(self._losses) <= _MOST_LOOKUPS:
            self._lookups.start(self._find(change.host, self._look_up))

    async def _find(self, name: str, look_up: NameLookup) -> None:
        """Learn where a lost host's name leads to now; what cannot be learned is left out."""
        with contextlib.suppress(OSError, ValueError):
            self._moved_to[name] = await look_up(name)

    def _alarm(self) -> Alarm:
        losses = tuple(
            loss.moved_to(self._moved_to.get(loss.loss.host, ())) for loss in self._losses
        )
        for loss in losses:
            self._emit(WorkerLost(loss=loss.loss))
        left = [host for host in self._hosts if host.life.life not in _OVER]
        return alarm_of(losses, of=len(losses) + len(left), clock=_time_of_day)


def _time_of_day(at_s: float) -> str:
    """Return the local time of day of a time of the event loop."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() - (_now_s() - at_s)))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
