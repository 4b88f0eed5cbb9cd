"""The launcher's story on one page: discover, wait, plan, run, explain; and begin again."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from typing import TypeVar

from mpi_agent.attempt import Attempt
from mpi_agent.children import Children
from mpi_agent.command.dialects import family_of
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.program_kind import moves_before_it_runs, program_word
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.container import container_identity, own_names
from mpi_agent.errors import LaunchError, MpiAgentError, SettingsError
from mpi_agent.explain.publish import keep_ending, tell_ending, telling_failures
from mpi_agent.hosts_in_reach import end_former, tell_over
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    EventSink,
    Noted,
    ProgramEnded,
    RestartDecided,
)
from mpi_agent.job_access import JobAccess, LocalJob
from mpi_agent.job_finder import Job
from mpi_agent.planner import Planner
from mpi_agent.ready_job import ReadyJob, launchers_before
from mpi_agent.run.executable import refuse_missing_program
from mpi_agent.run.rank_logs import attempt_directory, open_log_directory
from mpi_agent.run.restarts import PastAttempt, RestartDecision, decide
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_words import Call, LauncherId, Verb
from mpi_agent.wait.warnings import host_warnings
from mpi_agent.waiter import Waiter

__all__ = ["Launcher"]

_T = TypeVar("_T")
_UNWATCHED = "exec-"
"""How the id of a run begins that nobody watches: it is no `RunId`, so no lease ends it."""


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
        self._restarts = settings.run.supervision.restarts
        self._past: list[PastAttempt] = []
        self._decision: RestartDecision | None = None
        self._launch_id = secrets.token_hex(4)
        self._identity = LauncherId(name=own_names()[0], container=container_identity())
        self._access = JobAccess(
            settings.job,
            emit=emit,
            client=settings.run.ssh,
            key_exchange=settings.run.ssh_kex,
            local=local,
            worker_timeout_s=settings.run.supervision.worker_timeout_s,
        )
        self._planner = Planner(program, settings.run, self._access, environ=environ)
        self._waiter = Waiter(settings.job, program, self._access, environ=environ, emit=emit)

    async def launch(self, children: Children, inbox: SignalInbox) -> int:
        """Discover, wait, plan, run, explain, as often as restarts allow; return the exit code.

        Raises:
            MpiAgentError: the agent could not do its part; the termination message says so too.
        """
        with telling_failures():
            await inbox.unless_stopped(self._refuse_closed_log_directory(), doing="the start")
            ending = await self._attempt(children, inbox)
            while (delay_s := self._until_restart_s()) is not None:
                async with self._telling_workers_of_failure():
                    await self._unless_stopped(inbox, asyncio.sleep(delay_s), "with the restart")
                    ending = await self._attempt(children, inbox)
        self._emit(ProgramEnded(ending=ending))
        tell_ending(ending)
        return ending.exit_code

    async def _refuse_closed_log_directory(self) -> None:
        """Refuse, before the wait, a directory for the ranks' output that cannot be written to.

        A volume may hang, so that is done where signals are heard.
        """
        if (log_dir := self._settings.run.output.log_dir) is not None:
            await asyncio.to_thread(open_log_directory, attempt_directory(log_dir, 1))

    @contextlib.asynccontextmanager
    async def _telling_workers_of_failure(self) -> AsyncIterator[None]:
        """Tell workers that the job is over where the next attempt does not come about.

        They have heard that the program is begun again, and wait for that.
        """
        try:
            yield
        except Exception as error:
            lost = {loss.host for loss in self._past[-1].ending.losses}
            await tell_over(
                self._last_ready,
                self._access.terms,
                self._call(self._last_run_id),
                moved=() if self._access.local else lost,
                exit_code=getattr(error, "exit_code", MpiAgentError.exit_code),
                summary=getattr(error, "summary", str(error)),
                emit=self._emit,
            )
            raise

    def _call(self, run_id: RunId) -> Call:
        return Call(verb=Verb.WATCH, launcher=self._identity, run_id=str(run_id))

    async def _attempt(self, children: Children, inbox: SignalInbox) -> Ending:
        """Run the program once, on hosts that are ready then."""
        ready, plan, run_id = await self._unless_stopped(inbox, self._prepare_run(), "waiting")
        self._last_ready, self._last_run_id = ready, run_id
        attempt = Attempt(
            self._program,
            self._settings.run,
            ready,
            plan,
            run_id=run_id,
            call=self._call(run_id),
            environ=self._environ,
            access=self._access,
            waiter=self._waiter,
            emit=self._emit,
        )
        ending = await attempt.run(
            children, inbox, is_last=lambda ending: not self._decide(ending, inbox).restarts
        )
        if (trouble := keep_ending(ending, self._access.state)) is not None:
            self._emit(Noted(text=trouble))
        return ending

    async def _unless_stopped(
        self, inbox: SignalInbox, work: Coroutine[None, None, _T], doing: str
    ) -> _T:
        """Return what the work returns; an error of a later attempt tells how the last one ended.

        Raises:
            StoppedError: we were told to stop meanwhile.
            MpiAgentError: that of the work.
        """
        if not self._past:
            return await inbox.unless_stopped(work, doing=doing)
        before = self._past[-1].ending
        hint = f"attempt {before.attempt} was over: {before.summary}"
        try:
            return await inbox.unless_stopped(work, doing=doing, hint=hint)
        except MpiAgentError as error:
            error.evidence = (hint, *error.evidence)
            raise

    def _decide(self, ending: Ending, inbox: SignalInbox) -> RestartDecision:
        """Decide what follows from the attempt that has just ended; workers are told the same."""
        now_s = time.monotonic()
        self._past.append(PastAttempt(ending=ending, ended_at_s=now_s))
        self._decision = decide(self._restarts, self._past, now_s, is_stopped=inbox.is_stopped)
        return self._decision

    def _until_restart_s(self) -> float | None:
        """Return after which pause the program is begun again, None when it is not; tell why."""
        decision = self._decision
        assert decision is not None, "an attempt has ended"
        if decision.restarts:
            self._emit(AttemptEnded(ending=self._past[-1].ending))
        has_succeeded = self._past[-1].ending.verdict is Verdict.SUCCEEDED
        if self._restarts.max_restarts and not has_succeeded:
            self._emit(
                RestartDecided(
                    restarts=decision.restarts, delay_s=decision.delay_s, reason=decision.reason
                )
            )
        return decision.delay_s if decision.restarts else None

    async def prepare(self, inbox: SignalInbox) -> LaunchPlan:
        """Discover, wait and plan; return what this process is to become.

        Raises:
            MpiAgentError: as `launch` does.
        """
        with telling_failures():
            ready, plan = await inbox.unless_stopped(self._prepare(), doing="waiting")
            if self._settings.run.output.log_dir is not None:
                self._emit(Noted(text="--log-dir needs supervision: no files under --exec"))
            if self._restarts.max_restarts:
                self._emit(Noted(text="--max-restarts needs supervision: no restart under --exec"))
            if ready.remote:
                plan = plan.of_run(f"{_UNWATCHED}{self._launch_id}")
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

    async def _prepare_run(self) -> tuple[ReadyJob, LaunchPlan, RunId]:
        """Return what is to run as the next attempt, with nothing of a former one left on hosts."""
        ready, plan = await self._prepare()
        run_id = RunId.of_launcher(
            name=self._identity.name,
            container=self._identity.container,
            launch=self._launch_id,
        )
        number = 1 + len(self._past) + launchers_before(ready.report, run_id)
        run_id = replace(run_id, attempt=number)
        max_restarts = self._restarts.max_restarts
        if number > 1 or max_restarts:
            event = AttemptBegan(number=number, max_restarts=max_restarts, run_id=str(run_id))
            self._emit(event)
        await self._sweep_former(ready, run_id)
        plan = plan.of_run(run_id, restart_count=number - 1, max_restarts=max_restarts)
        return ready, plan, run_id

    async def _sweep_former(self, ready: ReadyJob, run_id: RunId) -> None:
        """End what former runs left, where no agent was asked by the wait, or none knew of it."""
        left = [host for host in ready.remote if host.facts and host.facts.has_leftovers]
        if left:
            await end_former(left, self._access.terms, run_id, emit=self._emit)

    async def _prepare(self) -> tuple[ReadyJob, LaunchPlan]:
        job = await self._waiter.find()
        draft = self._planner.draft(job)  # what cannot run is told before the wait
        self._refuse_missing_program(job, draft)
        self._access.heed(draft.ssh_options)
        equipment = self._planner.equipment(job, draft)
        if equipment is not None:
            equipment = replace(equipment, launcher=self._identity)
        ready = await self._waiter.ready_at_the_deadline(
            job, equipment, at_least=self._restarts.min_workers
        )
        plan = self._planner.plan(
            ready.job,
            ready.remote,
            workers_run_agent=all(host.runs_agent for host in ready.remote),
            hosts_can_dial=await self._waiter.hosts_can_dial(ready),
        )
        self._access.state.write("hostfile", plan.hostfile_text)
        if ready.remote:
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
