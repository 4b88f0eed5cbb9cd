"""One attempt: the program runs on hosts that are ready, is looked after, ends, and is explained.

Beside the program go on: the channels to the workers, whatever may ring an alarm, and a look at the
list of hosts. Afterwards every host is swept before anybody says how it ended: the last words of a
worker belong to the explanation, and to the decision whether the program is begun again. Workers
hear that decision at last.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mpi_agent.beside import beside
from mpi_agent.children import Children
from mpi_agent.command.dialects import family_of
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.program_kind import ProgramKind, kind_of_program, program_word
from mpi_agent.command.topics import Family
from mpi_agent.command_settings import RunSettings
from mpi_agent.container import own_names
from mpi_agent.explain.ending import Evidence, blame_hosts, conclude
from mpi_agent.hosts_in_reach import hosts_in_reach
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.job_access import JobAccess
from mpi_agent.lookout import Lookout, Ranks
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.aftermath import Aftermath
from mpi_agent.run.dialled import DialledHosts
from mpi_agent.run.rank_logs import RankLogs, attempt_directory, open_log_directory
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stragglers import goes_on_after_failures
from mpi_agent.run.streams import ProgramStreams
from mpi_agent.run.supervise import StopTerms, Supervised, supervise
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_words import Call
from mpi_agent.waiter import Waiter

__all__ = ["Attempt"]

_NOBODY_DIALLED = (
    "no host was dialled with the job's ssh_config: as far as that tells, the program ran on this "
    "container alone"
)
_END_LIMIT_S = 10.0
"""for telling all hosts together that the attempt is over, and sweeping them"""
_LOGS_LIMIT_S, _LOGS_LIMIT_AFTER_A_STOP_S = 5.0, 1.0
"""for the last of the ranks' output, which a volume may take slowly"""


class Attempt:
    """Runs a plan once, on hosts that are ready.

    Args:
        program: what stands behind `--`, not empty.
        run_id: tells the attempt's number.
        call: by which workers are told of it.

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
        call: Call,
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
        self._hosts = hosts_in_reach(
            ready,
            access.terms,
            call,
            run_id,
            is_dialling=lambda: bool(self._dialled.missing),
            emit=emit,
        )
        self._logs = self._rank_logs()
        self._streams = ProgramStreams(tap=self._logs.take if self._logs is not None else None)

    async def run(
        self, children: Children, inbox: SignalInbox, *, is_last: Callable[[Ending], bool]
    ) -> Ending:
        """Return how it ended, once nothing of it is left as far as hosts could be reached.

        Args:
            is_last: is asked once whether the job is over with the ending, which workers must know.

        Raises:
            MpirunNotFoundError, MpirunNotRunnableError: the program cannot be started.
        """
        async with (
            self._hosts.agents,
            beside(self._tell_changes(), emit=self._emit),
            beside(self._hosts.all.watch_here(), emit=self._emit),
        ):
            supervised = await self._supervised(children, inbox)
            ends_at_s = supervised.stop_ends_at_s
            async with Aftermath(inbox, emit=self._emit, ends_at_s=ends_at_s) as aftermath:
                await self._finish_logs(aftermath)
                ending = await self._conclude(self._evidence(supervised), aftermath)
                await self._hosts.agents.end(
                    ending.exit_code,
                    ending.summary,
                    is_final=is_last(ending),
                    limit_s=aftermath.limit_s(_END_LIMIT_S),
                )
        self._dialled.forget()
        return ending

    async def _conclude(self, evidence: Evidence, aftermath: Aftermath) -> Ending:
        """Sweep the hosts, hear the last words of workers, and return how it ended."""
        sweep = self._hosts.all.sweep(limit_s=aftermath.limit_s(_END_LIMIT_S))
        swept = await aftermath.within_time(sweep, doing="the sweep of the hosts")
        silent = tuple(host.host for host in swept or () if not host.answered)
        evidence = replace(evidence, silent=silent)
        ending = conclude(_with_news(evidence, self._hosts.agents.news))
        is_doubtful = ending.verdict is Verdict.LAUNCH_FAILED and bool(self._ready.remote)
        if aftermath.is_hurried or not is_doubtful:
            return ending
        asking = self._waiter.look_again(self._ready.job)
        report = await aftermath.within_time(asking, doing="asking who still lets us in")
        return ending if report is None else blame_hosts(ending, report)

    async def _finish_logs(self, aftermath: Aftermath) -> None:
        if self._logs is not None:
            limit_s = _LOGS_LIMIT_AFTER_A_STOP_S if aftermath.is_hurried else _LOGS_LIMIT_S
            await self._logs.finish(limit_s=limit_s)

    async def _supervised(self, children: Children, inbox: SignalInbox) -> Supervised:
        self._hosts.agents.begin()  # what that begins runs once the program was started
        self._hosts.all.begin()
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
            late_ranks=self._hosts.all.late_ranks,
            alarm=lambda: self._lookout().alarm(is_stopped=lambda: inbox.is_stopped),
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
        family = None if self._starts_ranks_itself else self._family
        return StopTerms(grace_s=self._supervision.grace_s, stop_signal=told, family=family)

    @property
    def _starts_ranks_itself(self) -> bool:
        """Whether the program is a launcher of its own kind, or a script: it decides what runs."""
        return kind_of_program(self._program) is ProgramKind.OTHER_LAUNCHER

    @property
    def _may_lose_ranks(self) -> bool:
        """Whether the program may go on, and succeed, though ranks of it failed."""
        environ = self._plan.environment(self._environ)
        return self._starts_ranks_itself or goes_on_after_failures(self._plan.argv, environ)

    def _lookout(self) -> Lookout:
        return Lookout(
            self._ready,
            self._plan,
            self._settings,
            hosts=self._hosts,
            dialled=self._dialled,
            streams=self._streams,
            look_up=self._waiter.addresses_now,
            ranks=Ranks(
                family=self._family,
                are_of_program=self._starts_ranks_itself,
                may_fail=self._may_lose_ranks,
            ),
            emit=self._emit,
        )

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

        stack, hosts = self._ready.job.stack, self._ready.job.hosts
        missing = self._dialled.missing
        if self._starts_ranks_itself and self._ready.remote and not self._dialled.is_any:
            self._emit(Noted(text=_NOBODY_DIALLED))
        return Evidence(
            process_exit=supervised.process_exit,
            program=f'"{Path(program_word(self._program, self._family)).name}"',
            implementation=stack.implementation if stack is not None else None,
            np=self._plan.np,
            output=supervised.output,
            hosts=(
                *hosts.names,
                *(host.address for host in self._ready.remote if host.address),
                *own_names(),  # by which mpirun may call workers of this machine
            ),
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
            starts_ranks_itself=self._starts_ranks_itself,
            may_lose_ranks=self._may_lose_ranks,
            attempt=self._run_id.attempt,
        )


def _with_news(evidence: Evidence, news: tuple[WorkerNews, ...]) -> Evidence:
    from mpi_agent.explain.known_findings import with_news  # needs the whole catalogue

    return with_news(evidence, news)
