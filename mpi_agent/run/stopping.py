"""What a stop does, and when: a table without a clock, a process or a signal handler.

Ranks need time to save what they have, and launchers do not give it: Open MPI 5 ends the ranks half
a second after it was told TERM, while Hydra waits for ranks that ignore TERM for ever. So ranks are
told first, by us, and mpirun is left alone until little is left of the grace.

| phase | it begins when | mpirun gets | KILL at |
| --- | --- | --- | --- |
| RUNNING | mpirun was started | nothing | never |
| ASKING | the first stop: ranks are being told | nothing yet | the end of the grace |
| RANKS_FIRST | every host's ranks were told | TERM, when only the reserve is left | the same |
| ENDING | mpirun was told, or an alarm came | nothing more | the same, or sooner |
| KILLED | the end of the grace, or the third stop | KILL | - |

ASKING lasts 3 s at most. When not every host could be told by then, mpirun gets the signal that we
got, at once, because its own path is the only one: ENDING. Where ranks are to get USR1 or USR2
(`--stop-signal`), mpirun gets that one, passes it on, and has its TERM at the reserve: RANKS_FIRST.
The reserve is a quarter of the grace, 3 s at most: what mpirun needs to end its daemons.

The second stop tells mpirun TERM at once and leaves 3 s at most; the third kills. An alarm tells
mpirun TERM and leaves 5 s, or the grace if that is shorter: nobody has anything to save then. Once
a stop has begun, ranks that end or idle are what was asked for, so no alarm about ranks is heard.

USR1 and USR2 go to the ranks first too, and to mpirun only where not all could be told and mpirun
passes them on: Hydra's ends by USR2. QUIT goes to mpirun alone: Hydra's passes it on, that of Open
MPI ends by it. STOP, TSTP and CONT are never passed on.

Source: measured 2026-11-30 with Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI
2021.19: mpirun was sent each signal while a rank ran that notes what it gets.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum

from mpi_agent.command.topics import Family
from mpi_agent.job.alarms import AlarmKind

__all__ = ["ANSWER_LIMIT_S", "STOP_SIGNALS", "Phase", "Step", "StopTerms", "Stopping", "Whom"]

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
ANSWER_LIMIT_S = 3.0
_LONGEST_RESERVE_S = 3.0
_RESERVE_SHARE = 0.25
_AFTER_SECOND_STOP_S = 3.0
_AFTER_ALARM_S = 5.0
_KILL_AT_STOP_NUMBER = 3
_NOT_ALL_TOLD = "not all ranks could be told directly"
_USER_SIGNALS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_PASSED_BY_HYDRA = frozenset({signal.SIGUSR1})
_ABOUT_RANKS = frozenset({AlarmKind.RANK_FAILED, AlarmKind.RANKS_STALLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTerms:
    """How a stop goes.

    Attributes:
        grace_s: from the first stop to KILL.
        stop_signal: what ranks get.
        family: of the launcher; None for a command that is no mpirun.
    """

    grace_s: float
    stop_signal: signal.Signals = signal.SIGTERM
    family: Family | None = None

    @property
    def reserve_s(self) -> float:
        """What is left of the grace when mpirun is told at last."""
        return min(_LONGEST_RESERVE_S, self.grace_s * _RESERVE_SHARE)

    def mpirun_passes(self, number: signal.Signals) -> bool:
        """Return whether mpirun passes a signal on to the ranks, and goes on."""
        return number in (_PASSED_BY_HYDRA if self.family is Family.HYDRA else _USER_SIGNALS)


class Phase(Enum):
    """How far a stop has come."""

    RUNNING = "running"
    ASKING = "asking"
    RANKS_FIRST = "ranks first"
    ENDING = "ending"
    KILLED = "killed"


class Whom(Enum):
    """Who gets a signal."""

    RANKS = "the ranks"
    MPIRUN = "mpirun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A signal that is to be sent now.

    Attributes:
        why: a clause for the log, where nobody sent us this signal now.
        begins_stop: it is what ranks are told first of a stop.
    """

    whom: Whom
    signal: signal.Signals
    why: str = ""
    begins_stop: bool = False


class Stopping:
    """Where a stop is; each method takes what happened and returns what is to be done now."""

    def __init__(self, terms: StopTerms) -> None:
        self._terms = terms
        self._stops = 0
        self._answer_due_at_s: float | None = None
        self._term_at_s: float | None = None
        self._kill_at_s: float | None = None
        self.phase = Phase.RUNNING
        self.stopped_by: signal.Signals | None = None
        self.mpirun_was_told = False
        self.ranks_were_told = False

    @property
    def next_at_s(self) -> float | None:
        """When `at` has to be called next, on the clock of the calls; None while nothing is due."""
        due = (self._answer_due_at_s, self._term_at_s, self._kill_at_s)
        return min((moment for moment in due if moment is not None), default=None)

    def heeds(self, kind: AlarmKind) -> bool:
        """Return whether an alarm counts now."""
        return self.stopped_by is None or kind not in _ABOUT_RANKS

    def received(self, number: signal.Signals, now_s: float) -> tuple[Step, ...]:
        """Take a signal that somebody sent us."""
        if number in _USER_SIGNALS:
            return (Step(whom=Whom.RANKS, signal=number),)
        if number not in STOP_SIGNALS:
            return (Step(whom=Whom.MPIRUN, signal=number),)
        self._stops += 1
        self.stopped_by = self.stopped_by or number
        if self._stops >= _KILL_AT_STOP_NUMBER:
            return self._kill()
        if self._stops > 1:
            self._shorten(now_s + _AFTER_SECOND_STOP_S)
            return self._end(signal.SIGTERM)
        if self.phase is Phase.RUNNING:
            return self._begin(now_s)
        return (Step(whom=Whom.MPIRUN, signal=number),)  # an alarm was here first

    def answered(self, step: Step, *, all_told: bool, now_s: float) -> tuple[Step, ...]:
        """Take whether all ranks could be told directly what the step says."""
        if not step.begins_stop:
            return () if all_told else self._pass_on(step.signal)
        self.ranks_were_told = self.ranks_were_told or all_told
        if self.phase is not Phase.ASKING:
            return ()
        return self._go_on(all_told=all_told, now_s=now_s)

    def alarmed(self, now_s: float) -> tuple[Step, ...]:
        """Take that the program must not go on."""
        self._shorten(now_s + min(self._terms.grace_s, _AFTER_ALARM_S))
        return self._end(signal.SIGTERM, "the alarm")

    def at(self, now_s: float) -> tuple[Step, ...]:
        """Return what is due by now."""
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            return self._kill("end of the grace period")
        if self._term_at_s is not None and now_s >= self._term_at_s:
            return self._end(signal.SIGTERM, "near the end of the grace period")
        if self._answer_due_at_s is not None and now_s >= self._answer_due_at_s:
            return self._go_on(all_told=False, now_s=now_s)
        return ()

    def _begin(self, now_s: float) -> tuple[Step, ...]:
        self.phase = Phase.ASKING
        self._kill_at_s = now_s + self._terms.grace_s
        latest_s = self._terms.grace_s - self._terms.reserve_s
        self._answer_due_at_s = now_s + min(ANSWER_LIMIT_S, latest_s)
        return (Step(whom=Whom.RANKS, signal=self._terms.stop_signal, begins_stop=True),)

    def _go_on(self, *, all_told: bool, now_s: float) -> tuple[Step, ...]:
        assert self.stopped_by is not None, "nobody asks before a stop"
        assert self._kill_at_s is not None, "a stop has its end"
        if not all_told and not self._terms.mpirun_passes(self._terms.stop_signal):
            return self._end(self.stopped_by, _NOT_ALL_TOLD)
        self.phase = Phase.RANKS_FIRST
        self._answer_due_at_s = None
        self._term_at_s = max(now_s, self._kill_at_s - self._terms.reserve_s)
        return () if all_told else self._pass_on(self._terms.stop_signal)

    def _pass_on(self, number: signal.Signals) -> tuple[Step, ...]:
        if not self._terms.mpirun_passes(number):
            return ()
        return (Step(whom=Whom.MPIRUN, signal=number, why=_NOT_ALL_TOLD),)

    def _end(self, number: signal.Signals, why: str = "") -> tuple[Step, ...]:
        if self.phase is Phase.KILLED:
            return ()
        self.phase = Phase.ENDING
        self._answer_due_at_s = self._term_at_s = None
        self.mpirun_was_told = True
        return (Step(whom=Whom.MPIRUN, signal=number, why=why),)

    def _kill(self, why: str = "") -> tuple[Step, ...]:
        self.phase = Phase.KILLED
        self._answer_due_at_s = self._term_at_s = self._kill_at_s = None
        self.mpirun_was_told = True
        return (Step(whom=Whom.MPIRUN, signal=signal.SIGKILL, why=why),)

    def _shorten(self, at_s: float) -> None:
        if self.phase is not Phase.KILLED:
            self._kill_at_s = at_s if self._kill_at_s is None else min(self._kill_at_s, at_s)
