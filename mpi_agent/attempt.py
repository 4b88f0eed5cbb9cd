"""One attempt: the program runs on hosts that are ready, is looked after, ends, and is explained.

Beside the program go on: the channels to the workers, whatever may ring an alarm, and a look at the
list of hosts. Afterwards every host is told and swept before anybody says how it ended: the last
words of a worker belong to the explanation.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path

from mpi_agent.children import Children
from mpi_agent.command.dialects import family_of
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.program_kind import ProgramKind, kind_of_program, program_word
from mpi_agent.command.topics import Family
from mpi_agent.command_settings import RunSettings
from mpi_agent.explain.ending import Evidence, blame_hosts, conclude
from mpi_agent.job.alarms import Alarm
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.job_access import JobAccess
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.alarms import first_alarm
from mpi_agent.run.dialled import DialledHosts
from mpi_agent.run.lost_hosts import LostHosts
from mpi_agent.run.missing_ranks import StartTerms, default_limit_s
from mpi_agent.run.rank_logs import RankLogs, attempt_directory, open_log_directory
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stalls import stalled
from mpi_agent.run.starting import start_too_late
from mpi_agent.run.stragglers import goes_on_after_failures, rank_failed
from mpi_agent.run.streams import ProgramStreams
from mpi_agent.run.supervise import StopTerms, Supervised, supervise
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_words import Call, LauncherId, Verb
from mpi_agent.waiter import Waiter

__all__ = ["Attempt"]

_NOBODY_DIALLED = (
    "no host was dialled with the job's ssh_config: as far as that tells, the program ran on this "
    "container alone"
)
_END_LIMIT_S = 10.0
"""for telling all hosts together that the attempt is over, and sweeping them"""
_END_LIMIT_AFTER_A_STOP_S = 3.0
"""the same, when whoever stopped us counts the seconds"""


class Attempt:
    """Runs a plan once, on hosts that are ready.

    Args:
        program: what stands behind `--`, not empty.
        run_id: tells the attempt's number.
        identity: of this launcher, for workers.

    Attributes:
        was_stopped: we were told to stop, so that the program is not begun again.

    Raises:
        SettingsError: the directory for the ranks' output cannot be written to.
        StateDirectoryError: marks of an earlier launch cannot be removed.
    """

    def __init__(
        self,
        program: tuple[str, ...],
        settings: RunSettings,
        ready: ReadyJob,
        plan: LaunchPlan,
        *,
        run_id: RunId,
        identity: LauncherId,
        environ: Mapping[str, str],
        access: JobAccess,
        waiter: Waiter,
        emit: EventSink,
    ) -> None:
        self._program = program
        self._settings = settings
        self._supervision = settings.supervision
        self._ready = ready
        self._plan = plan
        self._run_id = run_id
        self._environ = environ
        self._waiter = waiter
        self._emit = emit
        self._family = family_of(ready.job.stack)
        self._dialled = self._dialled_hosts(access.marks_directory)
        self._hosts = access.hosts_in_reach(
            ready,
            Call(verb=Verb.WATCH, launcher=identity, run_id=str(run_id)),
            run_id,
            is_dialling=lambda: bool(self._dialled.missing),
        )
        self._logs = self._rank_logs()
        self.was_stopped = False
        self._streams = ProgramStreams(tap=self._logs.take if self._logs is not None else None)

    async def run(
        self, children: Children, inbox: SignalInbox, *, is_last: Callable[[Ending], bool]
    ) -> Ending:
        """Return how it ended, once nothing of it is left as far as hosts could be reached.

        Args:
            is_last: whether the job is over with such an ending, which workers must know.

        Raises:
            MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
        """
        async with self._hosts.agents as agents, _beside(self._tell_changes()):
            try:
                supervised = await self._supervised(children, inbox)
            finally:
                if self._logs is not None:
                    self._logs.close()
            self.was_stopped = supervised.stopped_by is not None
            evidence = self._evidence(supervised)
            first = conclude(evidence)
            report = await self._look_again(first)
            await self._hosts.all.end(
                first.exit_code,
                first.summary,
                is_final=self.was_stopped or is_last(first),
                limit_s=_END_LIMIT_AFTER_A_STOP_S if self.was_stopped else _END_LIMIT_S,
            )
            ending = conclude(_with_news(evidence, agents.news))  # with their last words
        self._dialled.forget()
        return ending if report is None else blame_hosts(ending, report)

    async def _supervised(self, children: Children, inbox: SignalInbox) -> Supervised:
        return await supervise(
            self._plan,
            environ=self._environ,
            host_count=len(self._ready.job.hosts.hosts),
            children=children,
            inbox=inbox,
            emit=self._emit,
            terms=self._stop_terms(),
            streams=self._streams,
            tell_ranks=self._hosts.all.pass_signal,
            alarm=self._alarm,
        )

    def _rank_logs(self) -> RankLogs | None:
        output = self._settings.output
        if output.log_dir is None:
            return None
        directory = attempt_directory(output.log_dir, self._run_id.attempt)
        open_log_directory(directory)
        return RankLogs(
            directory,
            form=self._plan.tag_form,
            np=self._plan.np,
            limit_bytes=output.log_limit_bytes,
            note=lambda text: self._emit(Noted(text=text)),
        )

    def _dialled_hosts(self, marks_directory: Path) -> DialledHosts:
        """Return who tells which hosts mpirun dials; none where it dials in a way of its own."""
        watches = self._plan.dials_by_own_ssh and not self._settings.allow_idle_hosts
        names = tuple(host.host for host in self._ready.remote) if watches else ()
        enough = min(1, len(names)) if self._plan.dials_by_tree else None
        return DialledHosts(marks_directory, names, enough=enough)

    def _stop_terms(self) -> StopTerms:
        told = signal.Signals[f"SIG{self._supervision.stop_signal.value}"]
        return StopTerms(grace_s=self._supervision.grace_s, stop_signal=told, family=self._family)

    @property
    def _starts_ranks_itself(self) -> bool:
        """Whether the program is a launcher of its own kind, or a script: it decides what runs."""
        return kind_of_program(self._program) is ProgramKind.OTHER_LAUNCHER

    async def _alarm(self) -> Alarm:
        """Return why the program must not go on; it has been started just now."""
        self._hosts.agents.begin()
        self._hosts.all.begin()
        return await first_alarm(
            (
                self._dialled.not_dialled(),
                self._start_too_late(),
                self._lost_hosts(),
                rank_failed(lambda: self._hosts.agents.news, grace_s=self._straggler_grace_s),
                stalled(
                    lambda: self._streams.last_output_at_s,
                    self._hosts.all.measure,
                    hosts=self._ready.job.hosts.names,
                    timeout_s=self._supervision.stall_timeout_s,
                    action=self._supervision.stall_action,
                    emit=self._emit,
                ),
            ),
            emit=self._emit,
        )

    def _start_too_late(self) -> Coroutine[None, None, Alarm]:
        hosts, limit_s = self._ready.job.hosts, self._supervision.launch_timeout_s
        if limit_s is None and not self._starts_ranks_itself:
            limit_s = default_limit_s(len(hosts.hosts))
        terms = StartTerms(
            hosts=hosts.names,
            np=self._plan.np,
            may_idle=self._plan.np < hosts.total_slots or self._settings.allow_idle_hosts,
            come_at_once=self._starts_ranks_itself or self._family is Family.OPEN_MPI,
        )
        return start_too_late(self._hosts.all, terms, limit_s=limit_s, emit=self._emit)

    def _lost_hosts(self) -> Coroutine[None, None, Alarm]:
        return LostHosts(
            self._ready.remote,
            worker_timeout_s=self._supervision.worker_timeout_s,
            emit=self._emit,
            heard=self._hosts.agents.heard,
            look_up=self._waiter.addresses_now,
            gone=self._hosts.all.give_up,
        ).noticed()

    @property
    def _straggler_grace_s(self) -> float | None:
        goes_on = goes_on_after_failures(self._plan.argv, self._plan.environment(self._environ))
        if self._starts_ranks_itself or goes_on:
            return None
        return self._supervision.straggler_grace_s

    async def _tell_changes(self) -> None:
        """Tell the first change of the list of hosts; this attempt goes on as it began."""
        if (follower := self._waiter.follower) is not None:
            change = await follower.next_change()
            added, removed = (fold_names(names) or "-" for names in (change.added, change.removed))
            text = f"the list of hosts changed under the program: added={added} removed={removed}"
            self._emit(Noted(text=f"{text}; left alone until it ends"))

    def _evidence(self, supervised: Supervised) -> Evidence:
        """Return what is known when mpirun is gone."""
        from mpi_agent.explain.matcher import find_symptoms  # compiles the whole catalogue

        stack, missing = self._ready.job.stack, self._dialled.missing
        if self._starts_ranks_itself and self._ready.remote and not self._dialled.is_any:
            self._emit(Noted(text=_NOBODY_DIALLED))
        evidence = Evidence(
            process_exit=supervised.process_exit,
            program=f'"{Path(program_word(self._program, self._family)).name}"',
            implementation=stack.implementation if stack is not None else None,
            np=self._plan.np,
            output=supervised.output,
            findings=find_symptoms(supervised.output),
            stopped_by=supervised.stopped_by,
            stop_signal=self._stop_terms().stop_signal,
            mpirun_was_told=supervised.mpirun_was_told,
            ranks_were_told=supervised.ranks_were_told,
            alarm=supervised.alarm,
            not_dialled=self._dialled.describe(missing) if missing else None,
            started_everywhere=(
                self._family is Family.HYDRA and self._dialled.is_any and not missing
            ),
            ranks_were_seen=any(host.had_ranks for host in self._hosts.all.known_presence()),
            attempt=self._run_id.attempt,
        )
        return _with_news(evidence, self._hosts.agents.news)

    async def _look_again(self, ending: Ending) -> ReadinessReport | None:
        """Return who still lets us in, where the start failed; None where nobody need be asked."""
        if ending.verdict is not Verdict.LAUNCH_FAILED or not self._ready.remote:
            return None
        return await self._waiter.look_again(self._ready.job)


def _with_news(evidence: Evidence, news: tuple[WorkerNews, ...]) -> Evidence:
    """Return the evidence with what workers told until now, which may be known before already."""
    from mpi_agent.explain.matcher import findings_of_news

    known = {finding.symptom.id for finding in evidence.findings}
    told = (found for found in findings_of_news(news) if found.symptom.id not in known)
    return replace(evidence, news=news, findings=(*evidence.findings, *told))


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Let work go on during the block; it is over when the block is."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
