"""All hosts of a run behind one face: workers with an agent, plain hosts, this container itself.

Who can tell for nothing (an agent, the kernel here) is asked at any time. A plain host costs a
login and is asked only where the answer decides something. A worker whose agent cannot be spoken
with is a plain host.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from mpi_agent.job.events import EventSink, WorkersSwept
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, SignalPassed
from mpi_agent.run.stopping import Told
from mpi_agent.ssh.trust import SshTarget

__all__ = [
    "AgentHosts",
    "HostsOfRun",
    "LocalHost",
    "LoginHosts",
    "sum_of_sweeps",
    "whom_told",
]

_LOOK_AGAIN_S = 0.25
"""how often late ranks are looked for: a script's next mpirun has them up in half a second"""
_LOOKS_A_LOGIN = 8
_LOOKS_A_LOOK = 10
"""at most one tenth of the time is spent on looking"""


class AgentHosts(Protocol):
    """What is used of `watched.WatchedWorkers`."""

    @property
    def presence(self) -> tuple[HostPresence, ...]:
        """What agents told of the run, without asking."""

    @property
    def strangers(self) -> tuple[str, ...]:
        """Hosts whose agent cannot be spoken with."""

    def give_up(self, host: str) -> None:
        """Note that nobody needs wait for a host."""

    async def pass_signal(self, sig: signal.Signals) -> tuple[SignalPassed, ...]:
        """Send a signal to the ranks; strangers are left out."""

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what ranks used until now, where it is told."""

    async def sweep(self, *, limit_s: float = ...) -> tuple[HostSwept, ...]:
        """Let workers end what is left of the run; strangers are left out."""


class LoginHosts(Protocol):
    """What is used of `plain_hosts.PlainHosts`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts."""

    def give_up(self, host: str) -> None:
        """Note that nobody needs wait for a host."""

    def adopt(self, target: SshTarget) -> None:
        """Take in a host."""

    def begin(self) -> None:
        """Note that mpirun is started now."""

    async def presence(self, names: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Ask what of the run is there."""

    async def pass_signal(self, sig: signal.Signals) -> tuple[SignalPassed, ...]:
        """Send a signal to the ranks."""

    async def measure(self) -> tuple[HostUsage, ...]:
        """Ask what ranks used until now."""

    async def end(self, *, limit_s: float = ...) -> tuple[HostSwept, ...]:
        """End what is left of the run."""


class LocalHost(Protocol):
    """What is used of `own_ranks.OwnRanks`."""

    async def watch(self) -> None:
        """Note what only a look meanwhile shows, until cancelled."""

    def presence(self) -> HostPresence:
        """Return what is here."""

    def pass_signal(self, sig: signal.Signals) -> SignalPassed:
        """Send a signal to the ranks."""

    def measure(self) -> HostUsage:
        """Return what ranks used until now."""

    async def end(self) -> HostSwept:
        """End what is left of the run."""


class HostsOfRun:
    """The hosts of one run of a program.

    Args:
        targets: every host that is reached by ssh, with an agent or without.
        agents: those that run the agent.
        plain: those that do not.
        own: this container, None where no rank runs here.
    """

    def __init__(
        self,
        targets: Sequence[SshTarget],
        *,
        agents: AgentHosts,
        plain: LoginHosts,
        own: LocalHost | None,
        emit: EventSink,
    ) -> None:
        self._targets = {target.name: target for target in targets}
        self._agents = agents
        self._plain = plain
        self._own = own
        self._given_up: set[str] = set()
        self._emit = emit

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Hosts of which only a login tells anything."""
        for name in self._agents.strangers:
            if (target := self._targets.get(name)) is not None:
                self._plain.adopt(target)
        return self._plain.names

    def give_up(self, host: str) -> None:
        """Note that a host is lost: nobody waits for a word of it any more."""
        self._given_up.add(host)
        self._agents.give_up(host)
        self._plain.give_up(host)

    def begin(self) -> None:
        """Note that mpirun is started now."""
        self._plain.begin()

    async def watch_here(self) -> None:
        """Note what ranks in this container use, until cancelled: it is removed at the end."""
        if self._own is not None:
            await self._own.watch()

    def known_presence(self) -> tuple[HostPresence, ...]:
        """Return what of the run is where, as far as nobody needs to be asked."""
        own = (self._own.presence(),) if self._own is not None else ()
        return (*own, *self._agents.presence)

    async def presence(self, plain: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Return what of the run is where, of those hosts that answer.

        Args:
            plain: which plain hosts are asked, None for all.
        """
        names = self.plain_names
        asked = names if plain is None else tuple(name for name in names if name in plain)
        told = await self._plain.presence(asked) if asked else ()
        return (*self.known_presence(), *told)

    async def pass_signal(self, sig: signal.Signals) -> Told:
        """Send a signal to all ranks; return whom it reached.

        A host that was not heard of counts as one that did not answer; one that was given up does
        not count.
        """
        has_plain = bool(self.plain_names)
        own = (self._own.pass_signal(sig),) if self._own is not None else ()
        agents, plain = await asyncio.gather(
            self._agents.pass_signal(sig), self._plain.pass_signal(sig) if has_plain else _nothing()
        )
        passed = (answer for answer in (*own, *agents, *plain) if answer.host not in self._given_up)
        return whom_told(self._targets.keys() - self._given_up, passed)

    async def late_ranks(self, told: Told) -> None:
        """Return once there are ranks on a host that had none when others were told, or since.

        Plain hosts that had ranks are not asked again; the others are, every two seconds.
        """
        clock = asyncio.get_running_loop().time
        empty = set(told.without_ranks)
        for number in itertools.count():
            began_s = clock()
            logins = empty.intersection(self.plain_names) if number % _LOOKS_A_LOGIN == 0 else ()
            for host in await self.presence(logins):
                if host.ranks == 0 and host.had_ranks:
                    empty.add(host.host)
                elif host.ranks > 0 and host.host in empty:
                    return
            pause_s = max(_LOOK_AGAIN_S, _LOOKS_A_LOOK * (clock() - began_s))
            await asyncio.sleep(min(pause_s, _LOOK_AGAIN_S * _LOOKS_A_LOGIN))

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what the ranks used until now, of those hosts that answer."""
        has_plain = bool(self.plain_names)
        own = (self._own.measure(),) if self._own is not None else ()
        agents, plain = await asyncio.gather(
            self._agents.measure(), self._plain.measure() if has_plain else _nothing()
        )
        return (*own, *agents, *plain)

    async def sweep(
        self, *, limit_s: float, why: str = "the program ended"
    ) -> tuple[HostSwept, ...]:
        """End what is left of the run everywhere.

        Mpirun must be gone. It returns within the limit and a second, and tells the sum of it.
        """
        loop = asyncio.get_running_loop()
        began_at_s = loop.time()
        has_plain = bool(self.plain_names)
        own, agents, plain = await asyncio.gather(
            self._end_here(limit_s),
            self._agents.sweep(limit_s=limit_s),
            self._plain.end(limit_s=limit_s) if has_plain else _nothing(),
        )
        swept = (*own, *agents, *plain)
        if late := set(self.plain_names) - {host.host for host in swept}:
            # they turned out to be strangers only when they were told of the end
            left_s = max(1.0, limit_s - (loop.time() - began_at_s))
            swept += tuple(s for s in await self._plain.end(limit_s=left_s) if s.host in late)
        if swept:
            self._emit(sum_of_sweeps(swept, took_s=loop.time() - began_at_s, why=why))
        return swept

    async def _end_here(self, limit_s: float) -> tuple[HostSwept, ...]:
        if self._own is None:
            return ()
        try:
            async with asyncio.timeout(limit_s):
                return (await self._own.end(),)
        except TimeoutError:
            return ()


def whom_told(hosts: Iterable[str], passed: Iterable[SignalPassed]) -> Told:
    """Return whom a signal reached, where these hosts and others were to send it on."""
    answers = {answer.host: answer.ranks for answer in passed}
    return Told(
        everywhere=None not in answers.values() and answers.keys() >= set(hosts),
        ranks=sum(ranks or 0 for ranks in answers.values()),
        without_ranks=tuple(host for host, ranks in answers.items() if ranks == 0),
    )


def sum_of_sweeps(swept: Sequence[HostSwept], *, took_s: float, why: str) -> WorkersSwept:
    """Return what is told of hosts that were swept."""
    return WorkersSwept(
        hosts=sum(host.answered for host in swept),
        silent=tuple(host.host for host in swept if not host.answered),
        ended=sum(host.ended for host in swept),
        killed=sum(host.killed for host in swept),
        left=sum(host.left for host in swept),
        segments=sum(host.segments for host in swept),
        took_s=took_s,
        why=why,
    )


async def _nothing() -> tuple[()]:
    return ()
