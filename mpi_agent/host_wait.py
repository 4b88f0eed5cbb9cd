"""The wait of one job put together: who is asked what, on which terms, until when.

`launch` and `wait` wait through this. Beside the hosts it follows who they are, where the source of
hosts may change, and asks for the launcher's own name; neither holds the launch up.

Importing this loads asyncssh and dnspython, so it is imported once there is somebody to wait for,
and beside other work: asyncssh starts compilers and linkers that look for optional libraries.
Source: `python -X importtime` and `strace -e execve`, 2026-11: asyncssh 165 ms, dnspython 76 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from mpi_agent.beside import beside
from mpi_agent.command.stack import speaks_ipv6
from mpi_agent.container import most_open_files
from mpi_agent.discover.follow import Follower
from mpi_agent.job.events import EventSink, HostsReady, Noted
from mpi_agent.job.hosts import HostList, fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job.stacks import MpiStack
from mpi_agent.job_finder import Job
from mpi_agent.own_name import OwnName
from mpi_agent.ready_job import ReadyJob, WaitRequest, job_of_report, with_local_hosts
from mpi_agent.wait.back import listening
from mpi_agent.wait.dial import pinned_or_resolved, ports_by_host
from mpi_agent.wait.dns import NameResolver
from mpi_agent.wait.gate import Gate
from mpi_agent.wait.probe import HostProbe
from mpi_agent.wait.remedies import Surroundings
from mpi_agent.wait.report import readiness_error
from mpi_agent.wait.ssh import BackConnection, LoginProbe

__all__ = ["HostWait"]

_OTHER_FILES = 260
"""descriptors beside the probes': up to 200 of name look-ups, and the process's own"""
_USUAL_ADDRESSES = 2
_NOT_LISTENING = "hosts are not asked to connect back: this container cannot listen on any port"


class HostWait:
    """Waits once, until the hosts of a job are ready.

    Args:
        follower: tells of other hosts, None where the list is fixed.
    """

    def __init__(
        self, request: WaitRequest, job: Job, *, emit: EventSink, follower: Follower | None = None
    ) -> None:
        self._request = request
        self._jobs = [job]
        self._emit = emit
        self._follower = follower

    async def until_ready(self) -> ReadyJob:
        """Return the job and the report once enough hosts are ready.

        Raises:
            ReadinessError: they are not; says who is missing, why, and one remedy.
        """
        if self._request.timeout_s is None:
            self._emit(Noted(text="the wait has no limit (--timeout 0)"))
        async with contextlib.AsyncExitStack() as stack:
            port = await stack.enter_async_context(listening()) if self._asks_back else None
            if self._asks_back and port is None:
                self._emit(Noted(text=_NOT_LISTENING))
            gate = self._gate(BackConnection(port=port) if port else None)
            await stack.enter_async_context(beside(self._follow(gate), emit=self._emit))
            await stack.enter_async_context(self._own_name())
            report = await gate.wait(_remote_names(self._jobs[-1].hosts))
        job = job_of_report(report, tuple(self._jobs))
        full_report = with_local_hosts(report, job.hosts)
        if not report.is_ready:
            raise readiness_error(full_report, self._surroundings())
        if job is not self._jobs[-1]:
            self._emit(Noted(text="the last change came when the wait was over; it is left out"))
        self._tell_notes(report)
        self._emit(HostsReady(report=report))
        return ReadyJob(job=job, report=full_report)

    @property
    def _asks_back(self) -> bool:
        return self._request.asks_back and self._request.equipment is not None

    def _gate(self, back: BackConnection | None) -> Gate:
        request = self._request
        probe = HostProbe(
            names=pinned_or_resolved(request.targets),
            login=LoginProbe(request.terms, equipment=request.equipment, back=back),
            ports_of=ports_by_host(request.targets, request.ports),
            now_s=time.monotonic,
            speaks_ipv6=_ipv6_question(self._jobs[0].stack),
        )
        return Gate(
            probe=probe,
            now_s=time.monotonic,
            emit=self._emit,
            parallel=self._parallel(),
            jitter=random.random,
            timeout_s=request.timeout_s,
            enough=request.enough,
            started_at_s=request.started_at_s,
        )

    def _parallel(self) -> int:
        """Return how many probes may be in flight; each may have several sockets open."""
        sockets = _USUAL_ADDRESSES * max(1, len(self._request.ports))
        room = max(1, (most_open_files() - _OTHER_FILES) // sockets)
        if room < self._request.parallel:
            text = f"{room} probes at a time, because of the limit of open files (ulimit -n)"
            self._emit(Noted(text=text))
        return min(room, self._request.parallel)

    async def _follow(self, gate: Gate) -> None:
        """Let the gate wait for the hosts that the source names by now."""
        if self._follower is None:
            return

        def take(hosts: HostList) -> None:
            wanted = self._request.enough
            if wanted is not None and len(hosts.remote) < wanted:
                text = f"{len(hosts.hosts)} hosts are fewer than --min-workers; not followed"
                self._emit(Noted(text=text))
                return
            self._jobs.append(replace(self._jobs[-1], hosts=hosts))
            gate.follow(_remote_names(hosts))

        await self._follower.follow(take)

    @contextlib.asynccontextmanager
    async def _own_name(self) -> AsyncIterator[None]:
        """Ask for the launcher's own name meanwhile; say so if it is still missing at the end."""
        if self._request.own_name is None:
            yield
            return
        own = OwnName(self._request.own_name)
        async with beside(own.until_known(), emit=self._emit):
            yield
        if own.refusal:
            self._emit(
                Noted(
                    text=f"the launcher's own name {own.name} does not resolve yet: a program "
                    f"whose MASTER_ADDR it is may not find it ({own.refusal})"
                )
            )

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            in_pod=self._request.in_pod, searches_cluster=NameResolver().searches_cluster()
        )

    def _tell_notes(self, report: ReadinessReport) -> None:
        """Tell what was odd and does no harm, once for all hosts of which it is true."""
        hosts_by_note: dict[str, list[str]] = {}
        for host in report.hosts:
            for note in host.notes:
                hosts_by_note.setdefault(note, []).append(host.host)
        for note, names in hosts_by_note.items():
            self._emit(Noted(text=f"{fold_names(tuple(names))}: {note}"))


def _remote_names(hosts: HostList) -> tuple[str, ...]:
    return tuple(host.name for host in hosts.remote)


def _ipv6_question(stack: MpiStack | None) -> Callable[[], Awaitable[bool]] | None:
    """Return what asks the installed MPI once, however many hosts want to know."""
    if stack is None:
        return None
    lock, answers = asyncio.Lock(), list[bool]()

    async def ask() -> bool:
        async with lock:
            if not answers:
                answers.append(await asyncio.to_thread(speaks_ipv6, stack))
        return answers[0]

    return ask
