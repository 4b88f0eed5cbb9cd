"""One round of questions about one host: name, port, banner, login, until the first "no"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mpi_agent.job.readiness import Obstacle, ProbeResult, Stage
from mpi_agent.wait.dns import Lookup
from mpi_agent.wait.ssh import LoginAnswer
from mpi_agent.wait.tcp import PortAnswer, ask_port

__all__ = ["HostProbe", "Login", "Names"]


class Names(Protocol):
    """Finds the addresses of a host."""

    async def look_up(self, name: str) -> Lookup:
        """Return the addresses, or why there are none."""


class Login(Protocol):
    """Tries the job's key."""

    async def try_login(self, host: str, address: str, port: int) -> LoginAnswer:
        """Return whether the key was let in."""


class HostProbe:
    """Climbs the ladder for one host, as far as it goes at this moment.

    Args:
        ports_of: ports to try on a host, most likely one first.
        now_s: the monotonic clock.
    """

    def __init__(
        self,
        *,
        names: Names,
        login: Login,
        ports_of: Callable[[str], tuple[int, ...]],
        now_s: Callable[[], float],
        ask_port: Callable[[str, int], Awaitable[PortAnswer]] = ask_port,
    ) -> None:
        self._names = names
        self._login = login
        self._ports_of = ports_of
        self._now_s = now_s
        self._ask_port = ask_port

    async def probe(self, host: str) -> ProbeResult:
        """Return how far the host has come, and why no further."""
        started_at_s = self._now_s()
        lookup = await self._names.look_up(host)
        if lookup.obstacle is not None:
            return self._result(host, started_at_s, Stage.UNKNOWN, lookup.obstacle, lookup.detail)
        ports = [
            asyncio.ensure_future(self._ask_port(address, port))
            for address in lookup.addresses
            for port in self._ports_of(host)
        ]
        try:
            return await self._log_in_where_it_answers(host, started_at_s, ports)
        finally:
            for asked in ports:
                asked.cancel()
            await asyncio.gather(*ports, return_exceptions=True)

    async def _log_in_where_it_answers(
        self, host: str, started_at_s: float, ports: Sequence[asyncio.Future[PortAnswer]]
    ) -> ProbeResult:
        """Try the key on each port as soon as it answers; a silent one does not hold up the rest.

        A refusal counts as lasting only once every port has answered: on the host's network the
        node's own sshd answers on 22 while ours is still to come on 2222.
        """
        silent: list[PortAnswer] = []
        refused: list[tuple[PortAnswer, LoginAnswer]] = []
        for asked in asyncio.as_completed(ports):
            answer = await asked
            if answer.obstacle is not None:
                silent.append(answer)
                continue
            login = await self._login.try_login(host, answer.address, answer.port)
            if login.obstacle is None:
                return self._result(host, started_at_s, Stage.AUTHENTICATED, None, "", answer)
            refused.append((answer, login))
        if not refused:
            best = max(silent, key=lambda answer: answer.stage)
            return self._result(host, started_at_s, best.stage, best.obstacle, best.detail)
        answer, login = refused[0]
        obstacle, detail = login.obstacle, login.detail
        if silent:
            obstacle, detail = silent[0].obstacle, f"{detail}; {silent[0].detail}"
        return self._result(host, started_at_s, Stage.ANSWERING, obstacle, detail, answer)

    def _result(
        self,
        host: str,
        started_at_s: float,
        stage: Stage,
        obstacle: Obstacle | None,
        detail: str,
        answer: PortAnswer | None = None,
    ) -> ProbeResult:
        now_s = self._now_s()
        return ProbeResult(
            host=host,
            stage=stage,
            obstacle=obstacle,
            detail=detail,
            at_s=now_s,
            duration_s=now_s - started_at_s,
            port=answer.port if answer else None,
            banner=answer.banner if answer else "",
        )
