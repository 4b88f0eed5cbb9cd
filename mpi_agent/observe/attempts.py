"""What is known of the attempts: which one it is, how it goes, and how those before it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Ending
from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    RanksStarted,
    RestartDecided,
    WorkerLost,
    WorkerReturned,
    WorkerSuspected,
)

__all__ = ["Attempts", "Suspect", "after_event"]

MOST_PAST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A worker that gives no sign of life, for the time being."""

    host: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Where the attempts stand.

    Attributes:
        number: of the one that runs, or is prepared; attempts of earlier launchers count.
        run_id: of that one; None where nobody told it.
        max_restarts: how often this launcher would begin again.
        restarts: how often it did.
        ranks_after_s: seconds from mpirun's start until every host told of ranks; None before.
        suspects: in this attempt, the first one first.
        losses: in this attempt.
        past: endings of attempts that were not the last, of this launcher, the latest ones.
    """

    number: int = 1
    run_id: str | None = None
    max_restarts: int = 0
    restarts: int = 0
    ranks_after_s: float | None = None
    suspects: tuple[Suspect, ...] = ()
    losses: tuple[HostLoss, ...] = ()
    past: tuple[Ending, ...] = ()

    @property
    def restarts_left(self) -> int:
        """How many restarts are left at least; those that are out of the window would count too."""
        return max(0, self.max_restarts - self.restarts)


def after_event(attempts: Attempts, event: Event) -> Attempts:
    """Return where the attempts stand after an event; the same value when it changes nothing."""
    match event:
        case AttemptBegan(number=number, run_id=run_id, max_restarts=most):
            return replace(attempts, number=number, run_id=run_id, max_restarts=most)
        case RanksStarted(after_s=after_s):
            return replace(attempts, ranks_after_s=after_s)
        case WorkerSuspected(host=host, why=why):
            suspect = Suspect(host=host, why=why)
            return replace(attempts, suspects=(*_without(attempts.suspects, host), suspect))
        case WorkerReturned(host=host):
            return replace(attempts, suspects=_without(attempts.suspects, host))
        case WorkerLost(loss=loss):
            suspects = _without(attempts.suspects, loss.host)
            return replace(attempts, suspects=suspects, losses=(*attempts.losses, loss))
        case AttemptEnded(ending=ending):
            return replace(attempts, past=(*attempts.past, ending)[-MOST_PAST:], suspects=())
        case RestartDecided(restarts=True):
            return Attempts(
                number=attempts.number + 1,
                max_restarts=attempts.max_restarts,
                restarts=attempts.restarts + 1,
                past=attempts.past,
            )
    return attempts


def _without(suspects: tuple[Suspect, ...], host: str) -> tuple[Suspect, ...]:
    return tuple(suspect for suspect in suspects if suspect.host != host)
