"""The hosts of one run as they are spoken with: put together from what the wait found.

Also what is said to them outside of a run: that no other attempt comes, and that what a former
launcher left must go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from mpi_agent.job.events import EventSink
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.hosts_of_run import HostsOfRun, sum_of_sweeps
from mpi_agent.run.own_ranks import OwnRanks
from mpi_agent.run.plain_hosts import PlainHosts
from mpi_agent.run.watched import WatchedWorkers
from mpi_agent.run_id import RunId
from mpi_agent.ssh.errands import SshShells
from mpi_agent.ssh.remote import SshWorkers
from mpi_agent.ssh.trust import SshTarget, SshTerms
from mpi_agent.ssh.worker_words import Call

__all__ = ["HostsInReach", "end_former", "hosts_in_reach", "tell_over"]

_OVER_LIMIT_S = 4.0
"""for telling agents that no other attempt comes; whoever stopped us counts the seconds"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsInReach:
    """The hosts of one run: all of them, and those whose agent keeps a channel open.

    Attributes:
        agents: entered before mpirun is started.
    """

    all: HostsOfRun
    agents: WatchedWorkers


def hosts_in_reach(
    ready: ReadyJob,
    terms: SshTerms,
    call: Call,
    run_id: RunId,
    *,
    is_dialling: Callable[[], bool],
    emit: EventSink,
) -> HostsInReach:
    """Return the ways in which the hosts of a run are spoken with; nobody is dialled yet.

    Args:
        ready: hosts as the wait found them.
        call: what is said to an agent.
        is_dialling: whether mpirun still dials hosts.
    """
    agent_targets = _targets(host for host in ready.remote if host.runs_agent)
    plain_targets = _targets(host for host in ready.remote if not host.runs_agent)
    agents = WatchedWorkers(
        agent_targets,
        SshWorkers(terms),
        call,
        emit=emit,
        is_dialling=is_dialling,
        worker_timeout_s=terms.worker_timeout_s,
    )
    local = next((host.name for host in ready.job.hosts.hosts if host.is_local), None)
    every = HostsOfRun(
        (*agent_targets, *plain_targets),
        agents=agents,
        plain=PlainHosts(plain_targets, SshShells(terms), run_id, emit=emit),
        own=OwnRanks(local, run_id) if local is not None else None,
        emit=emit,
    )
    return HostsInReach(all=every, agents=agents)


async def tell_over(
    ready: ReadyJob,
    terms: SshTerms,
    call: Call,
    *,
    moved: Collection[str],
    exit_code: int,
    summary: str,
    emit: EventSink,
) -> None:
    """Tell agents that the job is over which have heard that it goes on.

    Args:
        call: of the last run.
        moved: hosts of it that are gone; whoever is there under their names by now is told.
    """
    targets = _targets(host for host in ready.remote if host.runs_agent)
    by_name = (replace(t, address=None) if t.name in moved else t for t in targets)
    async with WatchedWorkers(tuple(by_name), SshWorkers(terms), call, emit=emit) as agents:
        await agents.end(exit_code, summary, limit_s=_OVER_LIMIT_S)


async def end_former(
    hosts: Sequence[HostReadiness], terms: SshTerms, run_id: RunId, *, emit: EventSink
) -> None:
    """End what runs of this job whose launcher is gone have left on hosts."""
    plain = PlainHosts(_targets(hosts), SshShells(terms), run_id, emit=emit)
    began_at_s = time.monotonic()
    swept = await plain.end_former(run_id)
    took_s = time.monotonic() - began_at_s
    emit(sum_of_sweeps(swept, took_s=took_s, why="before the program is started"))


def _targets(hosts: Iterable[HostReadiness]) -> tuple[SshTarget, ...]:
    return tuple(
        SshTarget(name=host.host, port=host.port, address=host.address)
        for host in hosts
        if host.port is not None
    )
