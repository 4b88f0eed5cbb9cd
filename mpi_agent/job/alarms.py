"""Why the agent itself ends a program that would go on, or hang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Alarm", "AlarmKind", "HostLoss"]


class AlarmKind(Enum):
    """What was noticed."""

    HOSTS_NOT_DIALLED = "hosts not dialled"
    """mpirun left hosts out (promise P1)"""
    START_TOO_LATE = "start too late"
    """the start-up deadline is over and daemons or ranks are still missing"""
    WORKERS_LOST = "workers lost"
    RANK_FAILED = "rank failed"
    """a rank ended badly and the others went on for the straggler's grace"""
    RANKS_STALLED = "ranks stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoss:
    """A host that is not there any more.

    Attributes:
        why: one clause: `no answer on TCP since 12:01:07`, `replaced by another pod`.
        after_s: seconds from the program's start until it was given up.
        noticed_after_s: seconds from its last sign of life until it was given up.
    """

    host: str
    why: str
    after_s: float
    noticed_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Why the program must not go on.

    Attributes:
        why: one clause, names folded.
        losses: of WORKERS_LOST, in the order in which they were noticed.
        ranks_were_seen: at least one rank had started by then.
        exit_code: of RANK_FAILED: the code, or 128 + the signal, of the rank that failed first;
            None where nothing tells it.
    """

    kind: AlarmKind
    why: str
    losses: tuple[HostLoss, ...] = ()
    ranks_were_seen: bool = True
    exit_code: int | None = None
