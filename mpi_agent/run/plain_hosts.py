"""Hosts that run no agent: what is known of a run there, and how it is told and ended.

They are asked over a login of its own for each errand, on the job's terms, and decide nothing: what
belongs to the run is decided here, from what their kernels say (`host_listing`). Only of former
runs an agent decides, where there is one after all. Few errands go on
at a time, each ask is bounded as a whole, and a host that does not answer is no error: it is told
as such.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, RankCpu, SignalPassed
from mpi_agent.run.host_cleaning import clean_by_agent
from mpi_agent.run.host_listing import RunOnHost, read_listing, run_on_host
from mpi_agent.run.host_scripts import (
    MOST_TARGETS,
    Target,
    end_line,
    list_line,
    segments_line,
    signal_line,
)
from mpi_agent.run.host_segments import read_segments, remove_segments
from mpi_agent.run_id import RunId
from mpi_agent.ssh.errands import ErrandError, HostShell, HostShells
from mpi_agent.ssh.trust import SshTarget

__all__ = ["END_LIMIT_S", "PlainHosts"]

END_LIMIT_S = 10.0
"""for ending what is left on a few hosts; see `limit_for`"""
FORMER_LIMIT_S = 15.0
"""The same where an agent does it, which may take ten seconds for what will not go."""

_MOST_LOGINS = 16
_LOOK_LIMIT_S = 10.0
_SIGNAL_LIMIT_S = 3.0
_MORE_FOR_EACH_S = 0.03
"""Half a second, with so many logins at a time, which a login and a command may take far away.

Source: a login with one command takes 11 ms of the launcher's CPU (asyncssh 2.24, 2026-11).
"""
_GRACE_S = 2.0
_MOST_ROUNDS = 3
_SLACK_S = 5.0
"""by which a daemon may seem older than the run: clocks tick differently, and so do schedulers"""

_T = TypeVar("_T")


class PlainHosts:
    """The hosts of a run that run no agent.

    Args:
        targets: how they are dialled.
        run_id: of the run.
        shells: whoever can log in there.
    """

    def __init__(
        self,
        targets: Sequence[SshTarget],
        shells: HostShells,
        run_id: RunId,
        *,
        emit: EventSink,
    ) -> None:
        self._targets = {target.name: target for target in targets}
        self._shells = shells
        self._run_id = str(run_id)
        self._had_ranks: set[str] = set()
        self._lost: set[str] = set()
        self._emit = emit
        self._told: set[str] = set()
        self._began_at_s: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, in the order of the job."""
        return tuple(self._targets)

    def adopt(self, target: SshTarget) -> None:
        """Take in a host that was believed to run an agent."""
        self._targets.setdefault(target.name, target)

    def give_up(self, host: str) -> None:
        """Note that a host is lost: it is not asked any more."""
        self._lost.add(host)

    def begin(self) -> None:
        """Note that mpirun is started now: older daemons are not this run's."""
        self._began_at_s = _now_s()

    def limit_for(self, few_s: float, *, asks: int = 1) -> float:
        """Return how long all hosts together may take, where a few may take so long.

        Args:
            asks: how many times each is asked something, at least.
        """
        return few_s + _MORE_FOR_EACH_S * asks * len(self._targets)

    async def presence(self, names: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Return what of the run is there, of those hosts that answer in ten seconds or so.

        Args:
            names: whom to ask, None for all.
        """
        found = await self._ask_all(
            self._presence, names=names, limit_s=self.limit_for(_LOOK_LIMIT_S)
        )
        return tuple(presence for _, presence in found if presence is not None)

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what the ranks used until now, of those hosts that answer as in `presence`."""
        found = await self._ask_all(self._usage, limit_s=self.limit_for(_LOOK_LIMIT_S))
        return tuple(usage for _, usage in found if usage is not None)

    async def pass_signal(
        self, sig: signal.Signals, *, limit_s: float = _SIGNAL_LIMIT_S
    ) -> tuple[SignalPassed, ...]:
        """Send a signal to the ranks; where a host does not answer, nothing is known of them."""

        async def send(shell: HostShell, _: SshTarget) -> int:
            ranks = (await self._run_there(shell)).rank_targets
            return await _send(shell, ranks, sig.name.removeprefix("SIG"))

        found = await self._ask_all(send, limit_s=limit_s)
        return tuple(SignalPassed(host=name, ranks=ranks) for name, ranks in found)

    async def end(self, *, limit_s: float = END_LIMIT_S) -> tuple[HostSwept, ...]:
        """End what is left of the run: ranks and daemons, TERM and then KILL; and its segments.

        Args:
            limit_s: where a few hosts may take less than usual, as after a stop, all hosts together
                have no more than that.
        """
        whole_s = limit_s if limit_s < END_LIMIT_S else self.limit_for(limit_s)
        return await self._sweep(self._sweep_run, limit_s=whole_s)

    async def end_former(
        self, run_id: RunId, *, limit_s: float = FORMER_LIMIT_S
    ) -> tuple[HostSwept, ...]:
        """End what runs left whose launcher is gone, since this run of the same job begins.

        A host that runs an agent is asked to do it, because it knows whose launcher is not gone.
        """

        def is_former(text: str) -> bool:
            other = RunId.parse(text)
            return other is not None and other.is_former_of(run_id)

        async def look(shell: HostShell) -> RunOnHost:
            return run_on_host(read_listing(await shell.run(list_line())), is_former)

        async def sweep(shell: HostShell, name: str) -> HostSwept:
            by_agent = await clean_by_agent(shell, name, run_id)
            return by_agent or await _sweep_host(shell, name, look)

        return await self._sweep(sweep, limit_s=self.limit_for(limit_s, asks=2))

    async def _sweep_run(self, shell: HostShell, name: str) -> HostSwept:
        return await _sweep_host(shell, name, self._run_there)

    async def _run_there(self, shell: HostShell) -> RunOnHost:
        listing = read_listing(await shell.run(list_line()))
        began_s = None if self._began_at_s is None else _now_s() - self._began_at_s + _SLACK_S
        return run_on_host(listing, self._run_id.__eq__, began_before_s=began_s)

    async def _presence(self, shell: HostShell, target: SshTarget) -> HostPresence:
        found = await self._run_there(shell)
        if found.leaders:
            self._had_ranks.add(target.name)
        return HostPresence(
            host=target.name,
            daemons=len(found.daemons),
            ranks=len(found.leaders),
            had_ranks=target.name in self._had_ranks,
        )

    async def _usage(self, shell: HostShell, target: SshTarget) -> HostUsage:
        found = await self._run_there(shell)
        ranks = tuple(RankCpu(rank=rank, cpu_s=cpu_s) for rank, cpu_s in found.cpu_by_rank())
        return HostUsage(host=target.name, ranks=ranks)

    async def _sweep(
        self,
        sweep: Callable[[HostShell, str], Coroutine[Any, Any, HostSwept]],
        *,
        limit_s: float,
    ) -> tuple[HostSwept, ...]:
        found = await self._ask_all(lambda shell, t: sweep(shell, t.name), limit_s=limit_s)
        return tuple(swept or HostSwept(host=name, answered=False) for name, swept in found)

    async def _ask_all(
        self,
        ask: Callable[[HostShell, SshTarget], Coroutine[Any, Any, _T]],
        *,
        names: Collection[str] | None = None,
        limit_s: float,
    ) -> tuple[tuple[str, _T | None], ...]:
        """Return each host's answer, None where none came within the limit for all of them."""
        targets = [t for t in self._targets.values() if names is None or t.name in names]
        if not targets:
            return ()
        room = asyncio.Semaphore(_MOST_LOGINS)

        async def errand(target: SshTarget) -> _T:
            if target.name in self._lost:
                raise ErrandError("it is lost")
            async with room, self._shells.log_in(target) as shell:
                return await ask(shell, target)

        tasks = [asyncio.create_task(errand(target)) for target in targets]
        try:
            await asyncio.wait(tasks, timeout=limit_s)
        finally:
            for task in tasks:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
        pairs = zip(targets, answers, strict=True)
        return tuple((target.name, self._answer(answer)) for target, answer in pairs)

    def _answer(self, answer: _T | BaseException) -> _T | None:
        """Return an answer, None where a host gave none.

        A fault of ours is told once: what is asked here decides nothing that may break a job.
        """
        if not isinstance(answer, BaseException):
            return answer
        text = f"cannot ask hosts over ssh: {type(answer).__name__}: {answer}"
        if not isinstance(answer, ErrandError | asyncio.CancelledError) and text not in self._told:
            self._told.add(text)
            self._emit(Noted(text=text))
        return None


async def _send(shell: HostShell, targets: Sequence[Target], name: str) -> int:
    """Return how many of the targets were sent a signal."""
    if not targets:
        return 0
    return _number_behind("sent=", await shell.run(signal_line(targets[:MOST_TARGETS], name)))


async def _sweep_host(
    shell: HostShell, name: str, look: Callable[[HostShell], Awaitable[RunOnHost]]
) -> HostSwept:
    """End what is found, again while more turns up; then remove what memory it left."""
    seen: dict[int, Target] = {}
    killed: set[int] = set()
    left = (await look(shell)).targets
    segments = await _segments_of(shell, left)
    for _ in range(_MOST_ROUNDS):
        if not left:
            break
        seen.update((target.pid, target) for target in left)
        answer = await shell.run(end_line(left[:MOST_TARGETS], grace_s=_GRACE_S))
        killed |= {int(pid) for pid in _values_behind("killed=", answer)}
        left = (await look(shell)).targets
    seen.update((target.pid, target) for target in left)
    still = {target.pid for target in left}
    removed = 0 if left else await remove_segments(shell, segments)
    return HostSwept(
        host=name,
        ended=len(seen.keys() - still),
        killed=len(killed - still),
        left=len(still),
        segments=removed,
    )


async def _segments_of(shell: HostShell, targets: Sequence[Target]) -> frozenset[str]:
    """Return the segments of shared memory that processes use."""
    if not targets:
        return frozenset()
    segments = read_segments(await shell.run(segments_line()))
    return segments.used({target.pid for target in targets})


def _values_behind(prefix: str, answer: str) -> list[str]:
    lines = (line for line in answer.splitlines() if line.startswith(prefix))
    return [value for line in lines if (value := line.removeprefix(prefix)).isdigit()]


def _number_behind(prefix: str, answer: str) -> int:
    values = _values_behind(prefix, answer)
    if not values:
        raise ErrandError(f'the answer has no "{prefix}"')
    return int(values[0])


def _now_s() -> float:
    return asyncio.get_running_loop().time()
