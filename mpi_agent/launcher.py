"""The launcher's story on one page: discover, wait, plan, run, explain."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.command.dialects import family_of
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.program_kind import (
    ProgramKind,
    kind_of_program,
    moves_before_it_runs,
    program_word,
)
from mpi_agent.command.topics import Family
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.container import container_identity, own_names
from mpi_agent.errors import LaunchError, SettingsError
from mpi_agent.explain.ending import blame_hosts, conclude, on_fewer_hosts, with_news
from mpi_agent.explain.publish import telling_failures, write_termination_message
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import EventSink, Noted, ProgramEnded
from mpi_agent.job.stacks import Implementation
from mpi_agent.job_access import JobAccess, LocalJob
from mpi_agent.job_finder import Job
from mpi_agent.planner import Planner
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.dialled import DialledHosts
from mpi_agent.run.executable import refuse_missing_program
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.supervise import Supervised, supervise
from mpi_agent.run.watched import END_LIMIT_S, WatchedWorkers
from mpi_agent.ssh.worker_words import Call, LauncherId, Verb
from mpi_agent.wait.warnings import host_warnings
from mpi_agent.waiter import Waiter

__all__ = ["Launcher"]

_NOBODY_DIALLED = (
    "no host was dialled with the job's ssh_config: as far as that tells, the program ran on this "
    "container alone"
)
_END_LIMIT_AFTER_A_STOP_S = 2.0
"""for telling workers, when whoever stopped us counts the seconds"""


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
        self._run_id = secrets.token_hex(6)
        self._identity = LauncherId(name=own_names()[0], container=container_identity())
        self._access = JobAccess(
            settings.job,
            emit=emit,
            client=settings.run.ssh,
            key_exchange=settings.run.ssh_kex,
            local=local,
        )
        self._planner = Planner(program, settings.run, self._access, environ=environ)
        self._waiter = Waiter(settings.job, program, self._access, environ=environ, emit=emit)

    async def launch(self, children: Children, inbox: SignalInbox) -> int:
        """Discover, wait, plan, run, explain; return the exit code.

        Raises:
            MpiAgentError: the agent could not do its part; the termination message says so too.
        """
        with telling_failures():
            ready, plan = await inbox.unless_stopped(self._prepare(), doing="waiting")
            dialled = self._dialled(ready, plan)
            async with self._watched(ready, dialled) as watched:
                supervised = await supervise(
                    plan,
                    environ=self._environ,
                    host_count=len(ready.job.hosts.hosts),
                    children=children,
                    inbox=inbox,
                    emit=self._emit,
                    grace_s=self._settings.run.grace_s,
                    alarm=lambda: watched.beside(dialled.given_up),
                )
                bare = await self._ending_of(supervised, ready, dialled)
                limit_s = _END_LIMIT_AFTER_A_STOP_S if supervised.stopped_by else END_LIMIT_S
                await watched.end(with_news(bare, watched.news).exit_code, limit_s=limit_s)
                ending = with_news(bare, watched.news)  # with the workers' last words
        dialled.forget()
        self._emit(ProgramEnded(ending=ending))
        write_termination_message(f"mpi-agent: {ending.summary}")
        return ending.exit_code

    async def _ending_of(
        self, supervised: Supervised, ready: ReadyJob, dialled: DialledHosts
    ) -> Ending:
        stack = ready.job.stack
        family = family_of(stack)
        ending = conclude(
            supervised.process_exit,
            program=f'"{Path(program_word(self._program, family)).name}"',
            stopped_by=supervised.stopped_by,
            started_everywhere=(family is Family.HYDRA and dialled.is_any and not dialled.missing),
            hides_stops=stack is not None and stack.implementation is Implementation.MPICH,
        )
        if ending.verdict is Verdict.LAUNCH_FAILED and ready.remote:
            ending = blame_hosts(ending, await self._waiter.look_again(ready.job))
        calls_its_launcher_itself = kind_of_program(self._program) is ProgramKind.OTHER_LAUNCHER
        if calls_its_launcher_itself and ready.remote and not dialled.is_any:
            self._emit(Noted(text=_NOBODY_DIALLED))
        missing = dialled.missing
        if why := supervised.alarm or (dialled.describe(missing) if missing else None):
            ending = on_fewer_hosts(ending, why, ended_for_it=supervised.alarm is not None)
        return ending

    def _dialled(self, ready: ReadyJob, plan: LaunchPlan) -> DialledHosts:
        """Return who tells which hosts mpirun dials; none where it dials in a way of its own."""
        watches = plan.dials_by_own_ssh and not self._settings.run.allow_idle_hosts
        names = tuple(host.host for host in ready.remote) if watches else ()
        enough = min(1, len(names)) if plan.dials_by_tree else None
        return DialledHosts(self._access.marks_directory, names, enough=enough)

    def _watched(self, ready: ReadyJob, dialled: DialledHosts) -> WatchedWorkers:
        call = Call(verb=Verb.WATCH, launcher=self._identity, run_id=self._run_id)
        return self._access.watched(ready.remote, call, is_dialling=lambda: bool(dialled.missing))

    async def prepare(self, inbox: SignalInbox) -> LaunchPlan:
        """Discover, wait and plan; return what this process is to become.

        Raises:
            MpiAgentError: as `launch` does.
        """
        with telling_failures():
            _, plan = await inbox.unless_stopped(self._prepare(), doing="waiting")
        text = f"becoming {plan.argv[0]} (--exec), which nobody supervises; no ending is told"
        self._emit(Noted(text=f"{text}; np={plan.np} argv: {shlex.join(plan.shown_argv)}"))
        return plan

    async def plan(self) -> LaunchPlan:
        """Return what `launch` would run if every host were ready now; nobody is dialled.

        Names are looked up, because the network of the hosts is in the plan.
        """
        job = await self._waiter.find()
        if job.slots_are_auto:
            text = "slots are 1 here: --slots auto asks the hosts, and plan dials nobody"
            self._emit(Noted(text=text))
        hosts = await self._waiter.look_up(job)
        if any(host.address is None for host in hosts):
            text = "hosts that do not resolve yet: what depends on their network is left out"
            self._emit(Noted(text=text))
        return self._planner.plan(job, hosts)

    async def _prepare(self) -> tuple[ReadyJob, LaunchPlan]:
        job = await self._waiter.find()
        draft = self._planner.draft(job)  # what cannot run is told before the wait
        self._refuse_missing_program(job, draft)
        self._access.heed(draft.ssh_options)
        equipment = self._planner.equipment(job, draft)
        if equipment is not None:
            equipment = replace(equipment, launcher=self._identity)
        ready = await self._waiter.until_ready(job, equipment)
        plan = self._planner.plan(
            ready.job,
            ready.remote,
            workers_run_agent=all(host.runs_agent for host in ready.remote),
            hosts_can_dial=await self._waiter.hosts_can_dial(ready),
        )
        self._access.state.write("hostfile", plan.hostfile_text)
        if ready.remote:
            plan = plan.of_run(self._run_id)
            self._access.write_ssh_config(ready.remote, plan.ssh_options)
            stack = ready.job.stack
            self._access.write_programs(mpirun=stack.mpirun if stack is not None else None)
        facts = {host.host: host.facts for host in ready.remote if host.facts is not None}
        for note in (*plan.notes, *host_warnings(facts)):
            self._emit(Noted(text=note))
        return ready, plan

    def _refuse_missing_program(self, job: Job, draft: LaunchPlan) -> None:
        """Refuse a program that is missing here, where every rank would run.

        What was not understood of its line is told first: the program may be another word.
        """
        runs_here = self._access.local is not None or not job.hosts.remote
        family = family_of(job.stack)
        if runs_here and not moves_before_it_runs(self._program, family):
            word = program_word(self._program, family)
            try:
                refuse_missing_program(word, self._environ.get("PATH"))
            except LaunchError:
                for note in draft.notes:
                    self._emit(Noted(text=note))
                raise
