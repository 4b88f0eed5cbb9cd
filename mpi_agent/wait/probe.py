"""One round of questions about one host: name, port, banner, login, until the first "no"."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.readiness import Obstacle, ProbeResult, Stage
from mpi_agent.wait.dns import Lookup
from mpi_agent.wait.ssh import LoginAnswer
from mpi_agent.wait.tcp import PortAnswer, knock

__all__ = ["MOST_ADDRESSES", "HostProbe", "Knock", "Login", "Names"]

MOST_ADDRESSES = 4
"""tried of one name; that of a Service may have one for each pod"""


class Names(Protocol):
    """Finds the addresses of a host."""

    async def look_up(self, name: str) -> Lookup:
        """Return the addresses, or why there are none."""


class Login(Protocol):
    """Tries the job's key."""

    async def log_in(self, host: str, answer: PortAnswer) -> LoginAnswer:
        """Return how far the login got over the connection of the answer."""


class Knock(Protocol):
    """Asks one port of one address."""

    def __call__(
        self, address: str, port: int, *, connected: Callable[[], None]
    ) -> Awaitable[PortAnswer]:
        """Return what the port says; call `connected` once it accepts."""


class HostProbe:
    """Climbs the ladder for one host, as far as it goes at this moment.

    Args:
        ports_of: ports to try on a host, most likely one first.
        speaks_ipv6: asked once a host turns out to have IPv6 alone.
        now_s: the monotonic clock.
    """

    def __init__(
        self,
        *,
        names: Names,
        login: Login,
        ports_of: Callable[[str], tuple[int, ...]],
        now_s: Callable[[], float],
        speaks_ipv6: Callable[[], Awaitable[bool]] | None = None,
        knock: Knock = knock,
    ) -> None:
        self._names = names
        self._login = login
        self._ports_of = ports_of
        self._now_s = now_s
        self._speaks_ipv6 = speaks_ipv6
        self._knock = knock

    async def probe(
        self, host: str, reached: Callable[[Stage], None] = lambda _: None
    ) -> ProbeResult:
        """Return how far the host has come, and why no further.

        Args:
            reached: told of a stage while the round still goes on.
        """
        round_ = _Round(host, self._now_s)
        lookup = await self._names.look_up(host)
        round_.took(Stage.RESOLVED)
        if lookup.obstacle is not None:
            return round_.ends(Stage.UNKNOWN, lookup.obstacle, lookup.detail, rest_s=lookup.rest_s)
        reached(Stage.RESOLVED)
        round_.notes += lookup.notes
        if await self._is_out_of_reach(lookup.addresses):
            why = f"{host} has only IPv6 ({lookup.addresses[0]}), and the installed MPI has none"
            return round_.ends(Stage.RESOLVED, Obstacle.ADDRESS_FAMILY, why)
        connected = functools.partial(reached, Stage.REACHABLE)
        knocks = [
            asyncio.ensure_future(self._knock(address, port, connected=connected))
            for address in lookup.addresses[:MOST_ADDRESSES]
            for port in self._ports_of(host)
        ]
        try:
            return await self._log_in_where_it_answers(round_, knocks)
        finally:
            await _close_all(knocks)

    async def _is_out_of_reach(self, addresses: tuple[str, ...]) -> bool:
        if self._speaks_ipv6 is None or not all(":" in address for address in addresses):
            return False
        return not await self._speaks_ipv6()

    async def _log_in_where_it_answers(
        self, round_: _Round, knocks: Sequence[asyncio.Future[PortAnswer]]
    ) -> ProbeResult:
        """Try the key on each port as soon as it answers; a silent one does not hold up the rest.

        A refusal counts as lasting only once every port has answered: on the host's network the
        node's own sshd answers on 22 while ours is still to come on 2222.
        """
        silent: list[PortAnswer] = []
        refused: list[tuple[PortAnswer, LoginAnswer]] = []
        for asked in asyncio.as_completed(knocks):
            answer = await asked
            if answer.obstacle is not None:
                silent.append(answer)
                continue
            login = await self._login.log_in(round_.host, answer)
            if login.obstacle is None:
                round_.steps += (*answer.steps, *login.steps)
                round_.notes += login.notes
                round_.facts = login.facts
                return round_.ends(login.stage, None, "", answer=answer)
            refused.append((answer, login))
        if not refused:
            best = max(silent, key=lambda answer: answer.stage)
            round_.steps += best.steps
            return round_.ends(best.stage, best.obstacle, best.detail, answer=best)
        answer, login = max(refused, key=lambda pair: pair[1].stage)
        round_.steps += (*answer.steps, *login.steps)
        obstacle, detail = login.obstacle, login.detail
        if silent and login.stage < Stage.AUTHENTICATED:
            obstacle, detail = silent[0].obstacle, f"{detail}; {silent[0].detail}"
        return round_.ends(login.stage, obstacle, detail, answer=answer)


async def _close_all(knocks: Sequence[asyncio.Future[PortAnswer]]) -> None:
    """Take back what is still being asked and close what was opened."""
    for asked in knocks:
        asked.cancel()
    for answer in await asyncio.gather(*knocks, return_exceptions=True):
        if isinstance(answer, PortAnswer) and answer.connection is not None:
            answer.connection.close()


class _Round:
    """Collects what one round of questions found and took."""

    def __init__(self, host: str, now_s: Callable[[], float]) -> None:
        self.host = host
        self.steps: tuple[tuple[Stage, float], ...] = ()
        self.notes: tuple[str, ...] = ()
        self.facts: HostFacts | None = None
        self._now_s = now_s
        self._started_at_s = now_s()

    def took(self, stage: Stage) -> None:
        """Note how long the first question took."""
        self.steps = ((stage, self._now_s() - self._started_at_s),)

    def ends(
        self,
        stage: Stage,
        obstacle: Obstacle | None,
        detail: str,
        *,
        rest_s: float = 0.0,
        answer: PortAnswer | None = None,
    ) -> ProbeResult:
        """Return the result of the round."""
        now_s = self._now_s()
        has_banner = answer is not None and bool(answer.banner)
        return ProbeResult(
            host=self.host,
            stage=stage,
            obstacle=obstacle,
            detail=detail,
            at_s=now_s,
            duration_s=now_s - self._started_at_s,
            rest_s=rest_s,
            address=answer.address if answer else None,
            port=answer.port if answer and has_banner else None,
            banner=answer.banner if answer else "",
            steps=self.steps,
            notes=self.notes,
            facts=self.facts,
        )
