"""Everything that an ending is concluded from, as one value, and what it says at first sight."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpi_agent.explain.launcher_codes import LauncherCodes, codes_of
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.output import Output
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.symptoms import Finding
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["Evidence", "is_same_host"]

_SIGTERM = 15
_LONGEST_START_S = 300.0
"""A program that ran longer has been there, though nobody may have seen it.

A start that takes longer than a minute, and half a second for each host, is ended by the agent.
"""
_HIDES_STOPS = frozenset({Implementation.MPICH})
"""Whose mpirun may end with 0 when it was told to stop.

Source: MPICH 4.0.2, SIGTERM to mpiexec, 2026-11.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one run of a program when its mpirun has ended.

    Attributes:
        program: what was run, for the sentence, quoted.
        implementation: whose mpirun it was; None where the program is none and starts none.
        np: how many ranks were asked for; None where the program decides.
        news: what workers told; more may come until they have said farewell.
        hosts: of the job, by all names and addresses by which a launcher may call them; empty where
            nobody knows them.
        findings: known symptoms, the root cause first.
        stopped_by: the signal that told us to stop; None when nobody did.
        stop_signal: what ranks get when they are told to stop.
        mpirun_was_told: mpirun itself was told to stop, so that its code says that alone.
        ranks_were_told: every host's ranks were told to stop.
        alarm: why the agent itself ended the program; None when it did not.
        not_dialled: which hosts mpirun left out; None when it dialled all, or nobody watched.
        started_everywhere: every host was dialled, so a code that mpirun uses for a failed start is
            none.
        ranks_were_seen: ranks of this run were seen somewhere, by whoever watches hosts.
        starts_ranks_itself: it is a script, or a launcher of its own kind: its code is what it
            makes of that of mpirun, or of several.
        may_lose_ranks: it may go on and succeed though ranks of it failed.
        silent: hosts that did not answer when they were swept after mpirun's end.
        attempt: which run of the program it was, from 1.
    """

    process_exit: ProcessExit
    program: str
    implementation: Implementation | None = None
    np: int | None = None
    output: Output = field(default_factory=Output)
    news: tuple[WorkerNews, ...] = ()
    hosts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    stopped_by: int | None = None
    stop_signal: int = _SIGTERM
    mpirun_was_told: bool = True
    ranks_were_told: bool = False
    alarm: Alarm | None = None
    not_dialled: str | None = None
    started_everywhere: bool = False
    ranks_were_seen: bool = False
    starts_ranks_itself: bool = False
    may_lose_ranks: bool = False
    silent: tuple[str, ...] = ()
    attempt: int = 1

    @property
    def code(self) -> int:
        """Mpirun's own code, or 128 + the signal that ended mpirun itself."""
        return self.process_exit.shell_code

    @property
    def had_ranks(self) -> bool:
        """Whether ranks are known to have run."""
        return self.ranks_were_seen or any(host.saw_ranks or host.rank_exits for host in self.news)

    @property
    def has_run(self) -> bool:
        """Whether the program ran as a whole, going by what was seen or by the time."""
        is_late = self.alarm is not None and self.alarm.kind is AlarmKind.START_TOO_LATE
        return not is_late and (self.had_ranks or self.is_long)

    @property
    def may_be_unstarted(self) -> bool:
        """Whether the start may have failed; what mpirun says when it is ended tells nothing."""
        is_launchers = self.alarm is not None or self.code in self.codes.without_ranks
        return is_launchers and not self.has_run

    @property
    def is_long(self) -> bool:
        """Whether it took longer than any start does."""
        return self.process_exit.duration_s > _LONGEST_START_S

    @property
    def codes(self) -> LauncherCodes:
        """Which codes are mpirun's own."""
        return codes_of(self.implementation)

    @property
    def is_own_code(self) -> bool:
        """Whether mpirun's code is none that it uses itself, so that it is the program's."""
        return self.process_exit.code is not None and self.code not in self.codes.own

    def is_of_job(self, name: str) -> bool:
        """Return whether a host of the job is called so, in short or in full.

        Also for what nobody can tell: an empty name, or a job whose hosts are not known.
        """
        return not (name and self.hosts) or any(is_same_host(name, host) for host in self.hosts)

    @property
    def hides_stops(self) -> bool:
        """Whether mpirun's 0 may mean that it was stopped."""
        return self.implementation in _HIDES_STOPS

    @property
    def is_hydra(self) -> bool:
        """Whether mpirun is Hydra, of MPICH or one of its descendants."""
        return self.implementation in (
            Implementation.MPICH,
            Implementation.INTEL_MPI,
            Implementation.MVAPICH,
        )


def is_same_host(one: str, other: str) -> bool:
    """Return whether two names are one host's: `w-1` and `w-1.job.ns.svc`."""
    one, other = (name.lower().rstrip(".") for name in (one, other))
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
