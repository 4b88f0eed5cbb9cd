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

Where every host answers and no rank is there, nobody was told: the program is still being started,
or between two mpiruns of a script. It gets the signal that we got, at once: ENDING. So it does when
ranks come during RANKS_FIRST to a host that had none: they know of no stop, and are too young to
have anything to save.

The second stop tells mpirun TERM at once and leaves 3 s at most; the third kills. An alarm tells
mpirun TERM and leaves 3 s, or the grace if that is shorter: nobody has anything to save then. Once
a stop has begun, ranks that end or idle are what was asked for, so no alarm about ranks is heard.
Four seconds after KILL all is to be over, whatever is left to be ended and told: `ends_at_s`.

USR1 and USR2 go to the ranks first too, and to mpirun only where not all could be told and mpirun
passes them on: Hydra's ends by USR2. Another command gets them where no rank did. QUIT goes to
mpirun alone: Hydra's passes it on, that of Open MPI ends by it. STOP, TSTP and CONT are never
passed on.

Source: measured 2026-11-30 with Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI
2021.19: mpirun was sent each signal while a rank ran that notes what it gets.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum

from mpi_agent.command.topics import Family
from mpi_agent.job.alarms import AlarmKind

__all__ = [
    "ABOUT_RANKS",
    "ANSWER_LIMIT_S",
    "STOP_SIGNALS",
    "Phase",
    "Step",
    "StopTerms",
    "Stopping",
    "Told",
    "Whom",
]

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
ABOUT_RANKS = frozenset({AlarmKind.RANK_FAILED, AlarmKind.RANKS_STALLED})
"""alarms that are not heard once a stop has begun"""
ANSWER_LIMIT_S = 3.0
_LONGEST_RESERVE_S = 3.0
_RESERVE_SHARE = 0.25
_AFTER_SECOND_STOP_S = 3.0
_AFTER_ALARM_S = 3.0
_AFTER_KILL_S = 4.0
_KILL_AT_STOP_NUMBER = 3
_NOT_ALL_TOLD = "not all ranks could be told directly"
_NOBODY_TOLD = "no rank is there to be told"
_LATE_RANKS = "ranks began after the stop"
_USER_SIGNALS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_PASSED_BY_HYDRA = frozenset({signal.SIGUSR1})


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
        """Return whether mpirun passes a signal on to the ranks, and goes on.

        Of another command nobody knows.
        """
        if self.family is None:
            return False
        return number in (_PASSED_BY_HYDRA if self.family is Family.HYDRA else _USER_SIGNALS)


class Phase(Enum):
    """How far a stop has come."""

    RUNNING = "running"
    ASKING = "asking"
    RANKS_FIRST = "ranks first"
    ENDING = "ending"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Whom a signal reached directly.

    Attributes:
        everywhere: every host answered.
        ranks: how many got it, as far as hosts answered.
        without_ranks: hosts that answered that no rank is there.
    """

    everywhere: bool = False
    ranks: int = 0
    without_ranks: tuple[str, ...] = ()

    @property
    def nobody(self) -> bool:
        """There is no rank yet, or none any more."""
        return self.everywhere and self.ranks == 0

    @property
    def all(self) -> bool:
        """Every rank got it, and there was one."""
        return self.everywhere and self.ranks > 0


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
    """Where a stop is; each method takes what happened and returns what is to be done now.

    Attributes:
        stopped_by: the first stop, None before it.
        ends_at_s: when all has to be over, on the clock of the calls; None before a stop.
    """

    def __init__(self, terms: StopTerms) -> None:
        self._terms = terms
        self._stops = 0
        self._answer_due_at_s: float | None = None
        self._term_at_s: float | None = None
        self._kill_at_s: float | None = None
        self.phase = Phase.RUNNING
        self.stopped_by: signal.Signals | None = None
        self.ends_at_s: float | None = None
        self.mpirun_was_told = False
        self.ranks_were_told = False

    @property
    def next_at_s(self) -> float | None:
        """When `at` has to be called next, on the clock of the calls; None while nothing is due."""
        due = (self._answer_due_at_s, self._term_at_s, self._kill_at_s)
        return min((moment for moment in due if moment is not None), default=None)

    def heeds(self, kind: AlarmKind) -> bool:
        """Return whether an alarm counts now."""
        return self.stopped_by is None or kind not in ABOUT_RANKS

    def received(self, number: signal.Signals, now_s: float) -> tuple[Step, ...]:
        """Take a signal that somebody sent us."""
        if number in _USER_SIGNALS:
            return (Step(whom=Whom.RANKS, signal=number),)
        if number not in STOP_SIGNALS:
            return (Step(whom=Whom.MPIRUN, signal=number),)
        steps = self._stop(number, now_s)
        ends_at_s = _AFTER_KILL_S + (now_s if self._kill_at_s is None else self._kill_at_s)
        self.ends_at_s = ends_at_s if self.ends_at_s is None else min(self.ends_at_s, ends_at_s)
        return steps

    def _stop(self, number: signal.Signals, now_s: float) -> tuple[Step, ...]:
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

    def answered(self, step: Step, *, told: Told, now_s: float) -> tuple[Step, ...]:
        """Take which ranks could be told directly what the step says."""
        if not step.begins_stop:
            return self._after_user_signal(step.signal, told)
        self.ranks_were_told = self.ranks_were_told or told.all
        if self.phase is not Phase.ASKING:
            return ()
        return self._go_on(told, now_s)

    def late_ranks_came(self) -> tuple[Step, ...]:
        """Take that there are ranks now that nobody told."""
        if self.phase is not Phase.RANKS_FIRST:
            return ()
        assert self.stopped_by is not None, "a stop has begun"
        return self._end(self.stopped_by, _LATE_RANKS)

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
            return self._go_on(Told(), now_s)
        return ()

    def _begin(self, now_s: float) -> tuple[Step, ...]:
        self.phase = Phase.ASKING
        self._kill_at_s = now_s + self._terms.grace_s
        latest_s = self._terms.grace_s - self._terms.reserve_s
        self._answer_due_at_s = now_s + min(ANSWER_LIMIT_S, latest_s)
        return (Step(whom=Whom.RANKS, signal=self._terms.stop_signal, begins_stop=True),)

    def _go_on(self, told: Told, now_s: float) -> tuple[Step, ...]:
        assert self.stopped_by is not None, "nobody asks before a stop"
        assert self._kill_at_s is not None, "a stop has its end"
        if told.nobody:
            return self._end(self.stopped_by, _NOBODY_TOLD)
        passes = self._terms.mpirun_passes(self._terms.stop_signal)
        if not told.all and not passes:
            return self._end(self.stopped_by, _NOT_ALL_TOLD)
        self.phase = Phase.RANKS_FIRST
        self._answer_due_at_s = None
        self._term_at_s = max(now_s, self._kill_at_s - self._terms.reserve_s)
        return () if told.all else self._pass_on(self._terms.stop_signal, _NOT_ALL_TOLD)

    def _after_user_signal(self, number: signal.Signals, told: Told) -> tuple[Step, ...]:
        is_for_program = told.ranks == 0 and self._terms.family is None
        if told.all or not (is_for_program or self._terms.mpirun_passes(number)):
            return ()
        return self._pass_on(number, _NOBODY_TOLD if told.nobody else _NOT_ALL_TOLD)

    def _pass_on(self, number: signal.Signals, why: str) -> tuple[Step, ...]:
        return (Step(whom=Whom.MPIRUN, signal=number, why=why),)

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
