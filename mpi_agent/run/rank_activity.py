"""Which ranks used their CPU between two measures, in words for people.

A hang looks different under each MPI: ranks that wait for another one burn their CPU, and the one
they wait for may be idle. So both are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpi_agent.job.run_reports import HostUsage

__all__ = ["RankActivity", "activity_between"]

_NOTICEABLE = 0.01
"""of the time between two measures; a rank that waits in sleep(3) or for a message uses less"""
_MOST_IDLE_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RankActivity:
    """What ranks did between two measures.

    Attributes:
        busy: ranks that used noticeable CPU.
        idle: the others, each with its host.
        unknown: hosts that did not tell, before or after.
    """

    busy: tuple[int, ...]
    idle: tuple[tuple[int, str], ...]
    unknown: tuple[str, ...] = ()

    @property
    def is_stalled(self) -> bool:
        """Whether it is known that no rank at all makes progress."""
        return bool(self.idle) and not self.busy and not self.unknown

    @property
    def may_be_stuck(self) -> bool:
        """Whether some rank is idle: others may be busy with waiting for it."""
        return bool(self.idle)

    @property
    def sentence(self) -> str:
        """One clause: who is busy and who is idle."""
        if not (self.busy or self.idle):
            return "no host tells what its ranks do"
        parts = [*self._of_busy(), *self._of_idle()]
        if self.unknown:
            count = "1 host does" if len(self.unknown) == 1 else f"{len(self.unknown)} hosts do"
            parts.append(f"{count} not tell")
        return ", ".join(parts)

    def _of_busy(self) -> Iterable[str]:
        if not self.busy:
            return
        if not (self.idle or self.unknown) and len(self.busy) > 1:
            yield f"all {len(self.busy)} ranks are busy"
        else:
            yield _are(self.busy, "busy")

    def _of_idle(self) -> Iterable[str]:
        if not self.idle:
            return
        if not (self.busy or self.unknown) and len(self.idle) > 1:
            yield f"all {len(self.idle)} ranks are idle"
        elif len(self.idle) > _MOST_IDLE_NAMED:
            yield _are(tuple(rank for rank, _ in self.idle), "idle")
        else:
            by_host: dict[str, list[int]] = {}
            for rank, host in self.idle:
                by_host.setdefault(host, []).append(rank)
            for host, ranks in by_host.items():
                yield _are(ranks, "idle", where=f" on {host}")


def activity_between(
    before: Iterable[HostUsage], after: Iterable[HostUsage], *, hosts: Iterable[str], took_s: float
) -> RankActivity:
    """Return what the ranks did that are there now.

    A rank that was not there before, or used more by then, is another process, and busy.

    Args:
        hosts: all of the job, in its order.
        took_s: between the measures.
    """
    first = {usage.host: {r.rank: r.cpu_s for r in usage.ranks} for usage in before}
    second = {usage.host: {r.rank: r.cpu_s for r in usage.ranks} for usage in after}
    busy: list[int] = []
    idle: list[tuple[int, str]] = []
    unknown: list[str] = []
    for host in hosts:
        if host not in first or host not in second:
            unknown.append(host)
            continue
        for rank, cpu_s in second[host].items():
            used_s = cpu_s - first[host].get(rank, -took_s)
            if 0 <= used_s < _NOTICEABLE * took_s:
                idle.append((rank, host))
            else:
                busy.append(rank)
    return RankActivity(busy=tuple(sorted(busy)), idle=tuple(sorted(idle)), unknown=tuple(unknown))


def _are(ranks: Sequence[int], what: str, *, where: str = "") -> str:
    many = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_folded(ranks)}"
    return f"{many}{where} {'is' if len(ranks) == 1 else 'are'} {what}"


def _folded(ranks: Sequence[int]) -> str:
    """Return numbers with runs of them folded, as `0-2,5`."""
    pieces: list[list[int]] = []
    for rank in ranks:
        if pieces and rank == pieces[-1][-1] + 1:
            pieces[-1] = [pieces[-1][0], rank]
        else:
            pieces.append([rank])
    return ",".join("-".join(str(end) for end in piece) for piece in pieces)
