"""The start-up deadline: from mpirun's start until ranks are on all hosts.

Every launcher waits for ever for a daemon that starts and never calls back, and MPICH for any host
that fails. What agents tell is looked at all the time; a plain host is asked ever more seldom, and
once more when the time is over: what it says then decides (`missing_ranks`). Where ranks were seen
it is not enough that others were not: those that are there must sit idle, too. Where nothing is
known of any host by then, the first that is known decides.

A program that starts its processes itself, as horovodrun or a script does, has no deadline unless
one is given: nobody knows when it will call mpirun. Then one rank anywhere is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import EventSink, RanksStarted
from mpi_agent.job.run_reports import HostPresence, HostUsage
from mpi_agent.run.missing_ranks import MissingRanks, StartedHosts, StartTerms
from mpi_agent.run.rank_activity import activity_between

__all__ = ["StartHosts", "start_too_late"]

_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.25, 5.0
_LOOKS = 20
"""in the time since the start, about; what is told of it is that exact"""
_FIRST_ASK_S = 1.0
_LATER_FOR_EACH_S = 0.03
_MOST_ASKS = 8
_MEASURED_S = 5.0
_OTHERS_S = 2.0
"""in which ranks that come at once are seen on their other hosts, too"""
_SHORTEST_DOUBT_S = 10.0


class StartHosts(Protocol):
    """What is used of `hosts_of_run.HostsOfRun`."""

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Hosts that have to be asked."""

    def known_presence(self) -> tuple[HostPresence, ...]:
        """Return what is known without asking."""

    async def measure(self) -> tuple[HostUsage, ...]:
        """Ask what ranks used until now."""

    async def presence(self, plain: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Ask some of the plain hosts."""


async def start_too_late(
    hosts: StartHosts,
    terms: StartTerms,
    *,
    limit_s: float | None,
    emit: EventSink,
    started: Callable[[], None] = lambda: None,
) -> Alarm:
    """Return who is missing what once the time is over; else never. It begins with mpirun.

    Args:
        limit_s: None or 0 for no limit.
        started: is called once all has started.
    """
    watch = _Watch(hosts, terms, emit, started)
    await watch.look(until_s=limit_s or None)
    while limit_s and not watch.has_told:
        missing = await watch.missing_for_certain()
        if missing.is_any:
            return Alarm(
                kind=AlarmKind.START_TOO_LATE,
                why=_sentence(missing, limit_s),
                ranks_were_seen=missing.ranks_were_seen,
            )
        await watch.look_on(limit_s)
    await asyncio.Event().wait()
    raise AssertionError("nobody sets that event")


def _sentence(missing: MissingRanks, limit_s: float) -> str:
    what = "ranks were missing" if missing.ranks_were_seen else "no rank was seen"
    return f"{what} {limit_s:g} s after mpirun's start: {missing.sentence}"


class _Watch:
    """One start.

    Attributes:
        has_told: that all has started.
    """

    def __init__(
        self,
        hosts: StartHosts,
        terms: StartTerms,
        emit: EventSink,
        started: Callable[[], None],
    ) -> None:
        self.seen = StartedHosts(terms)
        self._hosts = hosts
        self._names = terms.hosts
        self._emit = emit
        self._started = started
        self.has_told = False
        self._began_at_s = _now_s()
        self._pause_of_asks_s = _FIRST_ASK_S + _LATER_FOR_EACH_S * len(hosts.plain_names)
        self._ask_at_s, self._asks = self._began_at_s + self._pause_of_asks_s, 0

    @property
    def plain_waited_for(self) -> tuple[str, ...]:
        """Plain hosts on which no rank was seen yet."""
        plain = set(self._hosts.plain_names)
        return tuple(name for name in self.seen.waited_for if name in plain)

    async def look(self, *, until_s: float | None, until_known: bool = False) -> None:
        """Return when all has started, which is told, or earlier.

        Args:
            until_s: after mpirun's start; None for no limit.
            until_known: return once anything is known of any host.
        """
        while until_s is None or self._since_s < until_s:
            self.seen.take(self._hosts.known_presence())
            if not self.seen.is_complete and self._asks < _MOST_ASKS and _now_s() >= self._ask_at_s:
                await self.ask(self.plain_waited_for)
                self._pause_of_asks_s, self._asks = 2 * self._pause_of_asks_s, self._asks + 1
                self._ask_at_s = _now_s() + self._pause_of_asks_s
            if self.seen.is_complete:
                await self._tell_start()
                return
            if until_known and self.seen.knows_any:
                return
            await asyncio.sleep(self._pause_s(until_s))

    async def look_on(self, limit_s: float) -> None:
        """Look on after the time is over and nobody is missing for certain.

        A doubt is looked at again. Where nothing was known of any host, as with a very short limit,
        the first that is known decides. Where somebody was known and nobody missing, what is heard
        later ends nothing: ranks may have been there and gone unseen.
        """
        if self.seen.missing.is_any:
            await self.look(until_s=self._since_s + max(limit_s / 4, _SHORTEST_DOUBT_S))
        else:
            await self.look(until_s=None, until_known=not self.seen.knows_any)

    async def _tell_start(self) -> None:
        """Tell that all has started; where hosts may stay idle, agents tell first of the others."""
        after_s = self._since_s
        self.has_told = True
        self._started()
        if self.seen.may_grow:
            await asyncio.sleep(_OTHERS_S)
            self.seen.take(self._hosts.known_presence())
        self._emit(RanksStarted(host_count=self.seen.host_count, after_s=after_s))

    async def missing_for_certain(self) -> MissingRanks:
        """Return what is missing once the time is over; nothing where there is a doubt.

        Ranks that wait for the missing ones sleep: MPICH's read from their proxy until all are
        there. Where they compute, the others may have done their part and be gone.

        Source: MPICH 4.0.2 and 5.0.2 with the program missing on one of two hosts, and with ranks
        that end at once there: neither daemon nor rank either way, 2026-11-30.
        """
        await self.ask(self.plain_waited_for)
        missing = self.seen.missing
        if not missing.ranks_were_seen:
            return missing
        before, began_at_s = await self._hosts.measure(), _now_s()
        await asyncio.sleep(_MEASURED_S)
        after, took_s = await self._hosts.measure(), _now_s() - began_at_s
        others = tuple(name for name in self._names if name not in missing.hosts)
        if not activity_between(before, after, hosts=others, took_s=took_s).is_stalled:
            return MissingRanks()
        await self.ask(self.plain_waited_for)
        return self.seen.missing

    @property
    def _since_s(self) -> float:
        return _now_s() - self._began_at_s

    def _pause_s(self, until_s: float | None) -> float:
        since_s = self._since_s
        pause_s = min(max(since_s / _LOOKS, _SHORTEST_LOOK_S), _LONGEST_LOOK_S)
        return pause_s if until_s is None else min(pause_s, max(0.0, until_s - since_s))

    async def ask(self, names: tuple[str, ...]) -> None:
        """Ask some plain hosts, and look at all others."""
        told = await self._hosts.presence(names) if names else self._hosts.known_presence()
        self.seen.take(told, asked=names)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
