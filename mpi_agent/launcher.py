"""The launcher's story on one page: discover, wait, plan, run, explain."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.command.arguments import (
    moves_before_it_runs,
    program_word,
)
from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, SshAccess
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.container import own_account
from mpi_agent.environment import rank_environment
from mpi_agent.errors import (
    MpiAgentError,
    SettingsError,
    StateDirectoryError,
)
from mpi_agent.explain.ending import conclude
from mpi_agent.explain.publish import write_termination_message
from mpi_agent.job.events import EventSink, HostsReady, Noted, ProgramEnded
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job_finder import USUAL_PORTS, Job, JobFinder
from mpi_agent.run.executable import refuse_missing_program
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.supervise import supervise
from mpi_agent.settings import Backend
from mpi_agent.ssh.installed import builtin_client_command, choose_client
from mpi_agent.ssh.keys import JobKey, copy_job_key
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts, render_ssh_config
from mpi_agent.state import StateDirectory, open_state_directory

__all__ = ["Launcher", "LocalJob"]


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
        self._finder = JobFinder(
            settings,
            program,
            environ=environ,
            emit=emit,
            search_path=local.search_path if local else (),
        )
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
        job = await self._finder.find()
        return self._build(job, workers_run_agent=True)

    async def _prepare(self) -> tuple[LaunchPlan, int]:
        started_at_s = time.monotonic()
        job = await self._finder.find()
        self._build(job, workers_run_agent=True)  # what cannot run is told before the wait
        runs_here = self._local is not None or not job.hosts.remote
        if runs_here and not moves_before_it_runs(self._program):
            refuse_missing_program(program_word(self._program), self._environ.get("PATH"))
        report = await self._wait(job, started_at_s)
        plan = self._build(job, workers_run_agent=all(h.runs_agent for h in report.hosts))
        self._write_files(job, plan, report)
        for note in plan.notes:
            self._emit(Noted(text=note))
        return plan, len(job.hosts.hosts)

    def _take_key(self) -> JobKey:
        if self._local is not None:
            return self._local.key
        return copy_job_key(self._settings.ssh_key, self._account, self._open_state())

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

    async def _wait(self, job: Job, started_at_s: float) -> ReadinessReport:
        """Wait until every host that needs ssh lets us in; discovery has used up some time."""
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
        limit_s = self._settings.run.timeout_s
        if limit_s is not None:
            limit_s = max(0.0, limit_s - (time.monotonic() - started_at_s))
        report = await gate.wait(names, limit_s)
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
                name=host.host, port=host.port or USUAL_PORTS[0], address=pinned.get(host.host)
            )
            for host in report.hosts
        )
        if job.hosts.remote:
            state.write("ssh_config", render_ssh_config(self._terms(), targets))
