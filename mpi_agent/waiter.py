"""Finds the job of one program and waits for its hosts: all of `wait`, the start of `launch`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Mapping
from dataclasses import replace

from mpi_agent.command.defaults import TREE_THRESHOLD
from mpi_agent.command.room import with_found_slots
from mpi_agent.command_settings import JobSettings, RunSettings
from mpi_agent.container import own_names
from mpi_agent.discover.follow import Follower
from mpi_agent.errors import (
    HostsNotReadyError,
    ReadinessError,
    SettingsError,
    StackUnsupportedError,
)
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.job_access import JobAccess
from mpi_agent.job_finder import Job, JobFinder
from mpi_agent.planner import Planner
from mpi_agent.ready_job import ReadyJob, WaitRequest, of_ready_hosts, with_local_hosts
from mpi_agent.setting_words import Backend
from mpi_agent.ssh.trust import host_key_alias
from mpi_agent.wait.equipment import Equipment
from mpi_agent.wait.own_facts import own_facts

__all__ = ["Waiter"]

_ANY_PROGRAM = ("true",)
_LOOK_AGAIN_S = 3.0
_LOOK_UP_S = 3.0
_VARIABLES_OF_A_POD = ("KUBERNETES_SERVICE_HOST", "K_MPI_JOB_ROLE")


class Waiter:
    """Waits for the hosts of one program's job.

    Args:
        program: what stands behind `--`; empty where only the hosts matter.
    """

    def __init__(
        self,
        settings: JobSettings,
        program: tuple[str, ...],
        access: JobAccess,
        *,
        environ: Mapping[str, str],
        emit: EventSink,
    ) -> None:
        self._settings = settings
        self._program = program
        self._access = access
        self._environ = environ
        self._emit = emit
        self._started_at_s = 0.0
        self._finder = JobFinder(
            settings,
            program,
            environ=environ,
            emit=emit,
            search_path=access.local.search_path if access.local else (),
        )

    @property
    def follower(self) -> Follower | None:
        """What tells of other hosts than those that were found; None where they cannot change."""
        return self._finder.follower

    async def find(self) -> Job:
        """Return the job; the time of the wait runs from now on. Raises like `JobFinder.find`."""
        self._started_at_s = time.monotonic()
        return await self._finder.find()

    async def wait(self, *, enough: int | None = None) -> ReadyJob:
        """Find the job and return it once its hosts, or enough of them, are ready.

        Raises:
            SettingsError: more hosts are waited for than the job has.
            MpiAgentError: as `find` and `until_ready` do.
        """
        job = await self.find()
        _refuse_more_than_all(job, enough)
        ready = await self.until_ready(job, self._equipment(job), enough=enough)
        if ready.remote:
            # for what is run after the wait
            self._access.write_ssh_config(ready.remote)
            self._access.write_programs(mpirun=job.stack.mpirun if job.stack else None)
        return ready

    async def ready_at_the_deadline(
        self, job: Job, equipment: Equipment | None, *, at_least: int | None
    ) -> ReadyJob:
        """Return the job once all of its hosts are ready, else a smaller one at the deadline.

        Args:
            at_least: how many hosts a smaller job must have; None for no smaller one.

        Raises:
            SettingsError, ReadinessError, ClientKeyError: as `wait` and `until_ready` do.
        """
        _refuse_more_than_all(job, at_least)
        try:
            return await self.until_ready(job, equipment)
        except HostsNotReadyError as error:
            if at_least is None or error.report.ready_count < at_least:
                raise
            left_out = tuple(host.host for host in error.report.laggards)
            smaller = of_ready_hosts(job, error.report)
            text = f"{error.summary}; going on without {fold_names(left_out)} (--min-workers)"
            self._emit(Noted(text=text))
            return await self._with_found_slots(smaller)

    async def until_ready(
        self, job: Job, equipment: Equipment | None, *, enough: int | None = None
    ) -> ReadyJob:
        """Return the job as it is once enough of its hosts are ready; local ones always are.

        Raises:
            ReadinessError: they are not in time, or never will be.
            ClientKeyError: this launcher has no key to log in with.
        """
        if not job.hosts.remote:
            nobody = ReadinessReport(hosts=(), elapsed_s=0.0, timeout_s=self._settings.timeout_s)
            ready = ReadyJob(job=job, report=with_local_hosts(nobody, job.hosts))
            return await self._with_found_slots(ready)
        outcomes = await asyncio.gather(
            self._access.ask_image(job.hosts.remote[0].name),
            asyncio.to_thread(self._access.write_credentials),
            asyncio.to_thread(importlib.import_module, "mpi_agent.host_wait"),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        from mpi_agent.host_wait import HostWait  # see there: slow, and only for those who wait

        local_count = len(job.hosts.hosts) - len(job.hosts.remote)
        remote_enough = None if enough is None else max(0, enough - local_count)
        request = self._request(equipment, remote_enough)
        wait = HostWait(request, job, emit=self._emit, follower=self._finder.follower)
        return await self._with_found_slots(await wait.until_ready())

    async def _with_found_slots(self, ready: ReadyJob) -> ReadyJob:
        """Return the job with the slots that its hosts were asked for, if they were."""
        if not ready.job.slots_are_auto:
            return ready
        found = {host.host: host.facts for host in ready.remote if host.facts is not None}
        local = tuple(host.name for host in ready.job.hosts.hosts if host.is_local)
        if local:
            found |= dict.fromkeys(local, await asyncio.to_thread(own_facts, self._environ))
        hosts = with_found_slots(ready.job.hosts, found)
        return replace(ready, job=replace(ready.job, hosts=hosts))

    async def look_up(self, job: Job) -> tuple[HostReadiness, ...]:
        """Return the hosts with the addresses that their names have now; nobody is dialled.

        They are asked for as the wait does. Not by getaddrinfo: nothing ends its threads, so a
        silent name server would keep this process for as long as libc has patience.
        """
        if not job.hosts.remote:
            return ()
        hosts = tuple(host.name for host in job.hosts.remote)
        found = await asyncio.gather(*map(self.addresses_now, hosts))
        return tuple(
            HostReadiness(host=name, address=next(iter(addresses), None))
            for name, addresses in zip(hosts, found, strict=True)
        )

    async def addresses_now(self, name: str) -> tuple[str, ...]:
        """Return where a host's name leads to now, nowhere within three seconds among it."""
        from mpi_agent.wait.dial import pinned_or_resolved  # loads dnspython

        names = pinned_or_resolved(self._access.targets)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_UP_S):
                return tuple((await names.look_up(name)).addresses)
        return ()

    async def hosts_can_dial(self, ready: ReadyJob) -> bool:
        """Return whether daemons may start daemons, where there are so many that it helps.

        One host is asked to dial one other; that all have the configuration is known by then. It
        is asked for the short name: Open MPI 5.0.11's daemons dial each other by that.
        """
        remote = ready.remote
        if len(remote) <= TREE_THRESHOLD or self._access.client is not Backend.OPENSSH:
            return False
        from mpi_agent.command.dialling import ssh_command_of
        from mpi_agent.wait.tree import why_no_tree

        without = [h.host for h in remote if h.facts is None or not h.facts.has_ssh_config]
        if without:
            why: str | None = f"{fold_names(tuple(without))} have no ssh_config of this job"
        else:
            why = await why_no_tree(
                self._access.terms,
                start=remote[0],
                to=host_key_alias(remote[-1].host),
                config_path=self._access.config_path,
                client=ssh_command_of(ready.job.stack, self._access.for_mpirun()),
            )
        if why is not None:
            self._emit(Noted(text=f"the launcher dials all {len(remote)} hosts itself: {why}"))
        return why is None

    async def look_again(self, job: Job) -> ReadinessReport:
        """Return who still lets us in, after a wait, within a few seconds; nothing is emitted."""
        from mpi_agent.host_wait import HostWait

        request = replace(
            self._request(None, None),
            timeout_s=_LOOK_AGAIN_S,
            started_at_s=time.monotonic(),
            own_name=None,
        )
        try:
            return (await HostWait(request, job, emit=lambda _: None).until_ready()).report
        except ReadinessError as error:
            return error.report

    def _request(self, equipment: Equipment | None, enough: int | None) -> WaitRequest:
        access = self._access
        in_pod = any(name in self._environ for name in _VARIABLES_OF_A_POD)
        return WaitRequest(
            terms=access.terms,
            ports=access.ports,
            targets=access.targets,
            equipment=equipment,
            asks_back=access.local is None,
            parallel=self._settings.parallel,
            timeout_s=self._settings.timeout_s,
            started_at_s=self._started_at_s,
            enough=enough,
            own_name=_own_full_name() if in_pod and access.local is None else None,
            in_pod=in_pod,
        )

    def _equipment(self, job: Job) -> Equipment | None:
        """Return what the program needs on each host; for no program, what any would need."""
        if job.stack is None:
            return None
        settings = RunSettings(allow_idle_hosts=True)
        planner = Planner(
            self._program or _ANY_PROGRAM, settings, self._access, environ=self._environ
        )
        try:
            equipment = planner.equipment(job, planner.draft(job))
        except (SettingsError, StackUnsupportedError) as error:
            if self._program:
                raise
            self._emit(Noted(text=f"{error.summary}; hosts are asked for the login alone"))
            return None
        if equipment is None or self._program:
            return equipment
        return replace(equipment, program=None)


def _refuse_more_than_all(job: Job, enough: int | None) -> None:
    total = len(job.hosts.hosts)
    if enough is not None and enough > total:
        raise SettingsError(
            f"cannot wait for {enough} ready hosts: the job has {total}",
            hint="give --min-workers a number that the job can reach",
        )


def _own_full_name() -> str | None:
    """Return the name by which other pods can know this one, None for a pod without a Service."""
    return next((name for name in own_names() if "." in name), None)
