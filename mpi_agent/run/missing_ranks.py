"""Which hosts have not started yet, from what was seen there: the start-up deadline's decision.

A healthy program must never be ended for it, so what is not known counts as started:

| seen on a host | it has started |
| --- | --- |
| ranks, now or before | yes |
| nothing: nobody could be asked | yes, at the deadline |
| a daemon and no rank | no, unless it may stay idle or ranks come all at once and some are there |
| neither | no, but for the same; and not where ranks elsewhere have ended already |

Open MPI starts no rank before every daemon has called back, so one rank anywhere tells that the
start is over. Hydra starts each host's ranks as its proxy calls, and a proxy ends with its ranks:
one that is there without ranks is one that waits.

What the program writes says nothing: launchers write to the same streams, also when they fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mpi_agent.job.hosts import fold_names
from mpi_agent.job.run_reports import HostPresence

__all__ = ["MissingRanks", "StartTerms", "StartedHosts", "default_limit_s"]

_FIRST_S = 60.0
_FOR_EACH_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTerms:
    """What is to be there once the program has started.

    Attributes:
        hosts: of the job, in its order.
        np: how many ranks there will be.
        may_idle: fewer ranks than slots, so that some hosts may have none.
        come_at_once: one rank anywhere tells that all are being started.
    """

    hosts: tuple[str, ...]
    np: int
    may_idle: bool = False
    come_at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRanks:
    """What is missing where.

    Attributes:
        without_daemon: hosts where nothing of the run is.
        without_ranks: hosts where a daemon is, and no rank was.
        ranks_were_seen: on another host.
    """

    without_daemon: tuple[str, ...] = ()
    without_ranks: tuple[str, ...] = ()
    ranks_were_seen: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts where something is missing."""
        return (*self.without_daemon, *self.without_ranks)

    @property
    def is_any(self) -> bool:
        """Whether anything is missing."""
        return bool(self.hosts)

    @property
    def sentence(self) -> str:
        """One clause that names who is missing what."""
        rows = (
            (self.without_daemon, "no daemon"),
            (self.without_ranks, "daemon and no rank"),
        )
        return "; ".join(f"{fold_names(names)}: {what}" for names, what in rows if names)


class StartedHosts:
    """What was seen of a start so far."""

    def __init__(self, terms: StartTerms) -> None:
        self._terms = terms
        self._seen: dict[str, HostPresence] = {}
        self._most_ranks: dict[str, int] = {}

    def take(self, presence: Iterable[HostPresence], *, asked: Sequence[str] = ()) -> None:
        """Take in what hosts told.

        Args:
            asked: hosts that were asked; of those that did not answer nothing is known any more.
        """
        for name in asked:
            self._seen.pop(name, None)
        for host in presence:
            self._seen[host.host] = host
            most = max(host.ranks, int(host.had_ranks), self._most_ranks.get(host.host, 0))
            self._most_ranks[host.host] = most

    @property
    def knows_any(self) -> bool:
        """Whether anything is known of any host."""
        return bool(self._seen)

    @property
    def ranks_were_seen(self) -> bool:
        """Whether a rank has started anywhere."""
        return any(self._most_ranks.values())

    @property
    def is_complete(self) -> bool:
        """Whether it is known that all ranks are there, or were."""
        if sum(self._most_ranks.values()) >= self._terms.np:
            return True
        if self._terms.come_at_once and self.ranks_were_seen:
            return True
        return not self.waited_for

    @property
    def may_grow(self) -> bool:
        """Whether it is not known yet on how many hosts ranks are, though all have started."""
        return self._terms.may_idle and sum(self._most_ranks.values()) < self._terms.np

    @property
    def host_count(self) -> int:
        """On how many hosts ranks are, or were, once all have started.

        Where none may stay idle those count, too, on which nobody could see any.
        """
        seen = sum(most > 0 for most in self._most_ranks.values())
        may_be_unseen = not self._terms.may_idle and seen < len(self._terms.hosts)
        is_np_seen = sum(self._most_ranks.values()) >= self._terms.np
        return len(self._terms.hosts) if may_be_unseen and not is_np_seen else seen

    @property
    def waited_for(self) -> tuple[str, ...]:
        """Hosts on which no rank was seen."""
        return tuple(name for name in self._terms.hosts if not self._most_ranks.get(name))

    @property
    def missing(self) -> MissingRanks:
        """What is known to be missing."""
        if self.is_complete:
            return MissingRanks()
        seen = {name: self._seen[name] for name in self.waited_for if name in self._seen}
        has_daemon = tuple(name for name, host in seen.items() if host.daemons)
        has_nothing = tuple(name for name, host in seen.items() if not host.daemons)
        if self.ranks_were_seen and (self._terms.may_idle or self._ranks_have_ended):
            has_nothing = ()
        return MissingRanks(
            without_daemon=has_nothing,
            without_ranks=has_daemon,
            ranks_were_seen=self.ranks_were_seen,
        )

    @property
    def _ranks_have_ended(self) -> bool:
        now: Mapping[str, int] = {name: host.ranks for name, host in self._seen.items()}
        return any(now.get(name, most) < most for name, most in self._most_ranks.items())


def default_limit_s(host_count: int) -> float:
    """Return how long a start may take: a minute, and half a second for each host.

    Source: 200 hosts took 21 s on two cores, dialled one by one (all four MPIs, 2026-11); a login
    that takes 15 s is let through by the wait, and daemons dial by a tree of three levels at most.
    """
    return _FIRST_S + _FOR_EACH_S * host_count
