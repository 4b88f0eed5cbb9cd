"""Whether a program is begun again after an attempt, and after which pause.

An attempt is not repeated that succeeded or was stopped, whose verdict was not asked for, or that
shows that the next one would fail alike: the program failed twice in a row with the same code, and
got no further. How far it got is not told by anything but time, so it counts as progress only if
the second attempt ran clearly longer: a fault that waits at the same place is met sooner, not
later, by a program that goes on from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.supervision_settings import RestartSettings

__all__ = ["PastAttempt", "RestartDecision", "decide"]

_LONGER_S, _LONGER_BY = 60.0, 1.1
"""What makes an attempt clearly longer: a minute beyond a tenth more than the one before."""
_LONG_RUN_IN_DELAYS = 10
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """An attempt of this launcher that is over.

    Attributes:
        ended_at_s: on the monotonic clock.
    """

    ending: Ending
    ended_at_s: float

    @property
    def ran_s(self) -> float:
        """How long its mpirun ran."""
        return self.ending.process_exit.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """Whether the program is begun again.

    Attributes:
        delay_s: until then; 0 where it is not.
        reason: one clause, printed either way; says how many restarts are left.
        left: restarts that are left after this decision.
    """

    restarts: bool
    delay_s: float
    reason: str
    left: int


def decide(
    settings: RestartSettings,
    past: Sequence[PastAttempt],
    now_s: float,
    *,
    is_stopped: bool = False,
) -> RestartDecision:
    """Return what follows from the attempts so far, of which the last one has just ended.

    Each but the last was followed by a restart.

    Args:
        past: not empty, the first one first.
        is_stopped: we were told to stop, if only when the program had ended.
    """
    left = max(0, settings.max_restarts - _restarts_that_count(settings, past, now_s))
    refusal = "we were told to stop" if is_stopped else _refusal(settings, past)
    verdict = past[-1].ending.verdict.value
    within = "" if settings.window_s is None else f" within {settings.window_s:g} s"
    total = f"of {_restarts(settings.max_restarts)}{within}"
    if refusal is None and left == 0:
        refusal = f"{verdict}, and none {total} is left"
    elif refusal is not None:
        refusal = f"{refusal}; {left} {total} left"
    if refusal is not None:
        return RestartDecision(restarts=False, delay_s=0.0, reason=refusal, left=left)
    reason = f"{verdict}; {left - 1} {total} left after this one"
    return RestartDecision(
        restarts=True, delay_s=_delay_s(settings, past), reason=reason, left=left - 1
    )


def _restarts(count: int) -> str:
    return "1 restart" if count == 1 else f"{count} restarts"


def _restarts_that_count(
    settings: RestartSettings, past: Sequence[PastAttempt], now_s: float
) -> int:
    """Return how many restarts there were, within the window where there is one."""
    restarted = past[:-1]
    if settings.window_s is None:
        return len(restarted)
    return sum(attempt.ended_at_s > now_s - settings.window_s for attempt in restarted)


def _refusal(settings: RestartSettings, past: Sequence[PastAttempt]) -> str | None:
    """Return why the program is not begun again however many restarts are left, or None."""
    ending = past[-1].ending
    if ending.verdict in (Verdict.SUCCEEDED, Verdict.STOPPED):
        return f"the program {_as_clause(ending.verdict)}"
    if ending.verdict not in settings.verdicts:
        return f'"{ending.verdict.value}" is not in --restart-on'
    if len(past) > 1 and _fails_alike(past[-2], past[-1]):
        return (
            f"the program failed with code {ending.exit_code} twice in a row without progress:"
            f" after {past[-2].ran_s:.0f} s, and after {past[-1].ran_s:.0f} s"
        )
    return None


def _as_clause(verdict: Verdict) -> str:
    return "succeeded" if verdict is Verdict.SUCCEEDED else "was stopped on request"


def _fails_alike(before: PastAttempt, last: PastAttempt) -> bool:
    """Return whether the program itself failed twice with one code, and got no further."""
    endings = (before.ending, last.ending)
    if any(ending.verdict is not Verdict.PROGRAM_FAILED for ending in endings):
        return False
    if before.ending.exit_code != last.ending.exit_code:
        return False
    return last.ran_s <= before.ran_s * _LONGER_BY + _LONGER_S


def _delay_s(settings: RestartSettings, past: Sequence[PastAttempt]) -> float:
    """Return the pause: doubled for each restart in a row, from the first one after a long run."""
    longest_s = max(settings.longest_delay_s, settings.first_delay_s)  # the user's own may be long
    in_a_row = 0
    for attempt in reversed(past):
        if attempt.ran_s > _LONG_RUN_IN_DELAYS * settings.longest_delay_s:
            break
        in_a_row += 1
    doublings = min(max(0, in_a_row - 1), _MOST_DOUBLINGS)
    return float(min(longest_s, settings.first_delay_s * 2.0**doublings))
