"""What hosts tell of one run: which of its processes are there, what they use, what was ended.

The same whether an agent on the host tells it, or the host was asked over ssh alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HostPresence", "HostSwept", "HostUsage", "RankCpu", "SignalPassed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPresence:
    """What of a run is on a host.

    Attributes:
        daemons: mpirun's; their number is not known to be right where no agent tells it.
        ranks: live ones.
        had_ranks: there are ranks, or were.
        had_daemons: there are daemons, or were; known only where an agent tells it.
    """

    host: str
    daemons: int
    ranks: int
    had_ranks: bool
    had_daemons: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCpu:
    """What a rank used until now, with all that it started."""

    rank: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUsage:
    """What the ranks of a run on a host used until now."""

    host: str
    ranks: tuple[RankCpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalPassed:
    """How many ranks on a host were sent a signal; None where the host did not answer."""

    host: str
    ranks: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSwept:
    """What was ended on a host.

    Attributes:
        answered: False where the host could not be asked, so that nothing is known.
        ended: processes that are gone.
        killed: how many of those did not end by themselves.
        left: processes that are still there.
        segments: of shared memory, that were removed.
    """

    host: str
    answered: bool = True
    ended: int = 0
    killed: int = 0
    left: int = 0
    segments: int = 0
