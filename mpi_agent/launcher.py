"""The launcher's story on one page: discover, wait, plan, run, explain."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.command.arguments import (
    ProgramKind,
    kind_of_program,
    program_word,
    read_mpirun_line,
)
from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, SshAccess
from mpi_agent.command.stack import MpiStack, detect_stack
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.container import own_account, own_addresses, own_names, pod_namespace
from mpi_agent.discover.mpi_operator import job_identity
from mpi_agent.discover.slots import OwnNames, default_slots, to_host_list
from mpi_agent.discover.sources import SourceRequest, discover_hosts
from mpi_agent.environment import rank_environment
from mpi_agent.errors import (
    MpiAgentError,
    MpirunNotFoundError,
    SettingsError,
    StateDirectoryError,
)
from mpi_agent.explain.ending import conclude
from mpi_agent.explain.publish import write_termination_message
from mpi_agent.job.events import EventSink, HostsDiscovered, HostsReady, Noted, ProgramEnded
from mpi_agent.job.hosts import DiscoveredHosts, HostList
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.run.executable import refuse_missing_program
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.supervise import supervise
from mpi_agent.settings import Backend
from mpi_agent.ssh.installed import builtin_client_command, choose_client, configured_port
from mpi_agent.ssh.keys import JobKey, copy_job_key
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts, render_ssh_config
from mpi_agent.state import StateDirectory, open_state_directory

__all__ = ["Job", "Launcher", "LocalJob"]

_USUAL_PORTS = (2222, 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """What `local` knows of a job that it made itself on this machine.

    Attributes:
        targets: every worker with its loopback address and port.
        key: the job's key, made for it.
        search_path: directories in front of PATH in which an MPI is looked for.
    """

    targets: tuple[SshTarget, ...]
    key: JobKey
    search_path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job whose hosts are known, before any of them was asked.

    Attributes:
        stack: None for a program that starts its processes itself, where no mpirun is installed.
    """

    hosts: HostList
    stack: MpiStack | None
    ports: tuple[int, ...]
    keeps_host_option: bool


class Launcher:
    """Runs one program on the hosts of one job.

    Args:
        program: what stands behind `--`, not empty.
        local: the job that `local` made, None in a cluster.
    """

    def __init__(
        self,
        settings: LaunchSettings,
        program: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
        local: LocalJob | None = None,
    ) -> None:
        if not program or not program[0]:
            raise SettingsError(
                "cannot launch nothing: no program is given",
                hint="put the program behind `--`, as in `mpi-agent launch -- ./train`",
            )
        self._settings = settings
        self._program = program
        self._environ = environ
        self._emit = emit
        self._local = local
        self._account = own_account()
        self._state: StateDirectory | None = None

    async def launch(self, children: Children, inbox: SignalInbox) -> int:
        """Discover, wait, plan, run, explain; return the exit code.

        Raises:
            MpiAgentError: the agent could not do its part; the termination message says so too.
        """
        try:
            plan, host_count = await inbox.unless_stopped(self._prepare(), doing="waiting")
            supervised = await supervise(
                plan,
                environ=self._environ,
                host_count=host_count,
                children=children,
                inbox=inbox,
                emit=self._emit,
                grace_s=self._settings.run.grace_s,
            )
        except MpiAgentError as error:
            write_termination_message(f"mpi-agent: {error.summary}\nhint: {error.hint}")
            raise
        ending = conclude(
            supervised.process_exit,
            program=f'"{Path(program_word(self._program)).name}"',
            stopped_by=supervised.stopped_by,
        )
        self._emit(ProgramEnded(ending=ending))
        write_termination_message(f"mpi-agent: {ending.summary}")
        return ending.exit_code

    async def plan(self) -> LaunchPlan:
        """Return what `launch` would run if every host were ready now; nobody is dialled."""
        job = await self._discover()
        return self._build(job, workers_run_agent=True)

    async def _prepare(self) -> tuple[LaunchPlan, int]:
        job = await self._discover()
        self._build(job, workers_run_agent=True)  # what cannot run is told before the wait
        if self._local is not None or not job.hosts.remote:
            refuse_missing_program(program_word(self._program), self._environ.get("PATH"))
        report = await self._wait(job)
        plan = self._build(job, workers_run_agent=all(h.runs_agent for h in report.hosts))
        self._write_files(job, plan, report)
        for note in plan.notes:
            self._emit(Noted(text=note))
        return plan, len(job.hosts.hosts)

    async def _discover(self) -> Job:
        kind = kind_of_program(self._program)
        line = read_mpirun_line(self._program) if kind is ProgramKind.MPIRUN_LINE else None
        called_as = line.called_as if line is not None else None
        stack = await asyncio.to_thread(self._detect_stack, kind, called_as)
        from_line = line.values_of("host") if line else ()
        files = line.values_of("hostfile") if line else ()
        if self._settings.hosts and (from_line or files):
            raise SettingsError(
                "cannot take the hosts from two places: the mpirun line names them too",
                hint="leave -H and --hostfile out of the mpirun line",
            )
        request = SourceRequest(
            hosts=",".join(from_line) if from_line else self._settings.hosts,
            hosts_option=f"{called_as} --host" if from_line else "--hosts",
            hostfile=files[0] if files else self._settings.hostfile,
            expected=self._settings.workers,
            timeout_s=self._settings.run.timeout_s,
            role=self._environ.get("K_MPI_JOB_ROLE"),
        )
        names = own_names()
        discovery = await discover_hosts(request, job_identity(names[0], pod_namespace()))
        for note in discovery.hosts.notes:
            self._emit(Noted(text=note))
        own = OwnNames(host_name=names[0], names=names, addresses=own_addresses())
        hosts = to_host_list(
            discovery.hosts,
            slots=default_slots(self._settings.slots, {} if from_line else self._environ),
            own=own,
            numeric_order=discovery.numeric_order,
        )
        self._emit(HostsDiscovered(hosts=hosts))
        self._tell_oddities(discovery.hosts, hosts)
        ports = await asyncio.to_thread(self._choose_ports, hosts) if hosts.remote else ()
        return Job(
            hosts=hosts,
            stack=stack,
            ports=ports,
            keeps_host_option=bool(from_line),
        )

    def _tell_oddities(self, discovered: DiscoveredHosts, hosts: HostList) -> None:
        for host in hosts.hosts:
            if host.is_local:
                self._emit(Noted(text=f"{host.name} is this container itself; no ssh is needed"))
        if any(entry.account for entry in discovered.entries) and not self._settings.ssh_user:
            self._emit(Noted(text="accounts in the list of hosts are not used; see --ssh-user"))

    def _detect_stack(self, kind: ProgramKind, called_as: str | None) -> MpiStack | None:
        path = self._environ.get("PATH", "").split(":")
        own = str(Path(sys.executable).parent)
        directories = (*self._local.search_path, *path) if self._local else (*path, own)
        try:
            return detect_stack(
                self._settings.run.mpi, called_as=called_as, search_path=directories
            )
        except MpirunNotFoundError:
            if kind is ProgramKind.OTHER_LAUNCHER and self._settings.run.mpi == "auto":
                return None
            raise

    def _take_key(self) -> JobKey:
        if self._local is not None:
            return self._local.key
        return copy_job_key(self._settings.ssh_key, self._account, self._open_state())

    def _choose_ports(self, hosts: HostList) -> tuple[int, ...]:
        if self._settings.ssh_port is not None:
            return (self._settings.ssh_port,)
        port = configured_port(hosts.remote[0].name)
        if port is not None:
            self._emit(Noted(text=f"ssh port {port} is from the image's ssh configuration"))
            return (port,)
        return _USUAL_PORTS

    def _open_state(self) -> StateDirectory:
        if self._state is None:
            self._state = open_state_directory(self._settings.run.state_dir)
            if any(character.isspace() for character in str(self._state.path)):
                raise StateDirectoryError(
                    f'cannot keep files for mpirun in "{self._state.path}": it splits at blanks',
                    hint="name a directory without blanks with --state-dir",
                )
        return self._state

    def _terms(self) -> SshTerms:
        state = self._open_state()
        return SshTerms(
            key_path=str(state.file("job_key")),
            known_hosts_path=str(state.file("known_hosts")),
            user=self._settings.ssh_user or self._account.name,
            checks_host_keys=not self._settings.insecure_host_keys,
        )

    async def _wait(self, job: Job) -> ReadinessReport:
        """Wait until every host that needs ssh lets us in."""
        if not job.hosts.remote:
            return ReadinessReport(hosts=(), elapsed_s=0.0, timeout_s=self._settings.run.timeout_s)
        state = self._open_state()
        state.write("known_hosts", render_known_hosts(self._take_key().public))
        from mpi_agent.wait.dial import pinned_or_resolved, ports_by_host
        from mpi_agent.wait.gate import Gate
        from mpi_agent.wait.probe import HostProbe
        from mpi_agent.wait.report import readiness_error
        from mpi_agent.wait.ssh import LoginProbe

        targets = self._local.targets if self._local else ()
        probe = HostProbe(
            names=pinned_or_resolved(targets),
            login=LoginProbe(self._terms()),
            ports_of=ports_by_host(targets, job.ports),
            now_s=time.monotonic,
        )
        if self._settings.run.timeout_s is None:
            self._emit(Noted(text="the wait has no limit (--timeout 0)"))
        gate = Gate(
            probe=probe,
            now_s=time.monotonic,
            emit=self._emit,
            parallel=self._settings.run.parallel,
            jitter=random.random,
        )
        names = tuple(host.name for host in job.hosts.remote)
        report = await gate.wait(names, self._settings.run.timeout_s)
        if not report.is_ready:
            raise readiness_error(report)
        self._emit(HostsReady(report=report))
        return report

    def _build(self, job: Job, *, workers_run_agent: bool) -> LaunchPlan:
        state = self._open_state()
        try:
            environment = rank_environment(
                self._environ,
                wanted=self._settings.run.env,
                unwanted=self._settings.run.no_env,
                workers_run_agent=workers_run_agent,
            )
        except ValueError as error:
            raise SettingsError(
                f"cannot pass a variable to the ranks: {error}",
                hint="write --env NAME for a variable that is set, or --env NAME=VALUE",
            ) from error
        request = LaunchRequest(
            program=self._program,
            environ=self._environ,
            environment=environment,
            hostfile_path=str(state.file("hostfile")),
            ssh=self._ssh_access(state) if job.hosts.remote else None,
            runs_as_root=self._account.uid == 0,
            np=self._settings.run.np,
            allows_idle_hosts=self._settings.run.allow_idle_hosts,
            strict=self._settings.run.strict,
            loopback_only=self._local is not None,
            keeps_host_option=job.keeps_host_option,
        )
        return build_plan(request, job.hosts, job.stack)

    def _ssh_access(self, state: StateDirectory) -> SshAccess:
        client = choose_client(self._settings.run.ssh, self._account)
        agent = builtin_client_command(state) if client is Backend.BUILTIN else None
        return SshAccess(config_path=str(state.file("ssh_config")), agent=agent)

    def _write_files(self, job: Job, plan: LaunchPlan, report: ReadinessReport) -> None:
        state = self._open_state()
        state.write("hostfile", plan.hostfile_text)
        pinned = {t.name: t.address for t in self._local.targets} if self._local else {}
        targets = tuple(
            SshTarget(
                name=host.host, port=host.port or _USUAL_PORTS[0], address=pinned.get(host.host)
            )
            for host in report.hosts
        )
        if job.hosts.remote:
            state.write("ssh_config", render_ssh_config(self._terms(), targets))
