"""Everything that an ending is concluded from, as one value, and what it says at first sight."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpi_agent.job.alarms import Alarm
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.output import Output
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.symptoms import Finding
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["Evidence"]

_SIGTERM = 15
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
        attempt: which run of the program it was, from 1.
    """

    process_exit: ProcessExit
    program: str
    implementation: Implementation | None = None
    np: int | None = None
    output: Output = field(default_factory=Output)
    news: tuple[WorkerNews, ...] = ()
    findings: tuple[Finding, ...] = ()
    stopped_by: int | None = None
    stop_signal: int = _SIGTERM
    mpirun_was_told: bool = True
    ranks_were_told: bool = False
    alarm: Alarm | None = None
    not_dialled: str | None = None
    started_everywhere: bool = False
    ranks_were_seen: bool = False
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
