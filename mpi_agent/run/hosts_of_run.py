"""All hosts of a run behind one face: workers with an agent, plain hosts, this container itself.

Who can tell for nothing (an agent, the kernel here) is asked at any time. A plain host costs a
login and is asked only where the answer decides something. A worker whose agent cannot be spoken
with is a plain host.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from mpi_agent.job.events import EventSink, WorkersSwept
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, SignalPassed
from mpi_agent.ssh.trust import SshTarget

__all__ = [
    "END_LIMIT_S",
    "AgentHosts",
    "HostsOfRun",
    "LocalHost",
    "LoginHosts",
    "sum_of_sweeps",
    "told_all",
]

END_LIMIT_S = 10.0
"""for all that is done on hosts when a run has ended"""


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

    async def end(
        self, exit_code: int, summary: str = "", *, is_final: bool = True, limit_s: float = ...
    ) -> tuple[HostSwept, ...]:
        """Tell workers that the run is over; strangers are left out."""


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
        self._agents.give_up(host)
        self._plain.give_up(host)

    def begin(self) -> None:
        """Note that mpirun is started now."""
        self._plain.begin()

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

    async def pass_signal(self, sig: signal.Signals) -> bool:
        """Send a signal to all ranks; return True only if every host did so.

        A host that was not heard of counts as one that did not.
        """
        has_plain = bool(self.plain_names)
        own = (self._own.pass_signal(sig),) if self._own is not None else ()
        agents, plain = await asyncio.gather(
            self._agents.pass_signal(sig), self._plain.pass_signal(sig) if has_plain else _nothing()
        )
        return told_all(self._targets, (*agents, *plain)) and told_all((), own)

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what the ranks used until now, of those hosts that answer."""
        has_plain = bool(self.plain_names)
        own = (self._own.measure(),) if self._own is not None else ()
        agents, plain = await asyncio.gather(
            self._agents.measure(), self._plain.measure() if has_plain else _nothing()
        )
        return (*own, *agents, *plain)

    async def end(
        self,
        exit_code: int,
        summary: str = "",
        *,
        is_final: bool = True,
        limit_s: float = END_LIMIT_S,
        why: str = "the program ended",
    ) -> tuple[HostSwept, ...]:
        """End what is left of the run everywhere, and tell workers that it is over.

        Mpirun must be gone. It returns within the limit and a second, and tells the sum of it.

        Args:
            summary: how the run ended, for the logs of workers.
            is_final: False where the program is begun again.
        """
        loop = asyncio.get_running_loop()
        began_at_s = loop.time()
        has_plain = bool(self.plain_names)
        own, agents, plain = await asyncio.gather(
            self._end_here(limit_s),
            self._agents.end(exit_code, summary, is_final=is_final, limit_s=limit_s),
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


def told_all(hosts: Iterable[str], passed: Iterable[SignalPassed]) -> bool:
    """Return whether every host sent a signal on, and no other one failed to."""
    answers = {answer.host: answer.ranks for answer in passed}
    return all(ranks is not None for ranks in answers.values()) and answers.keys() >= set(hosts)


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
