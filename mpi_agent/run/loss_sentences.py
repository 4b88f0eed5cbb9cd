"""What is said of hosts that were lost at one moment: one clause, names folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.hosts import fold_names
from mpi_agent.run.liveness import Reason

__all__ = ["Loss", "alarm_of"]

_OWN_NETWORK = "no host answers any more, as if this container's own network were cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A host that is lost, and what its sentence is made of.

    Attributes:
        address: where it was.
        moved: its name leads to another address now.
    """

    loss: HostLoss
    reason: Reason
    address: str
    moved: bool = False

    def moved_to(self, addresses: Sequence[str]) -> Loss:
        """Return the same, saying that the pod was replaced if its name leads elsewhere now.

        Args:
            addresses: of the name, none where it has none or nobody knows.
        """
        if not addresses or self.address in addresses or self.reason.is_evicted:
            return self
        why = f"replaced by another pod at {addresses[0]}, was {self.address}"
        return replace(self, loss=replace(self.loss, why=why), moved=True)


def alarm_of(losses: Sequence[Loss], *, of: int, clock: Callable[[float], str]) -> Alarm:
    """Return the alarm about losses of one moment.

    Args:
        of: how many hosts there were.
        clock: returns the time of day of a monotonic time.
    """
    why = "; ".join(_clauses(losses, clock))
    is_cut = all(one.reason.is_silence and not one.moved for one in losses)
    if len(losses) == of > 1 and is_cut:
        why = f"{_OWN_NETWORK}: {why}"
    return Alarm(kind=AlarmKind.WORKERS_LOST, why=why, losses=tuple(one.loss for one in losses))


def _clauses(losses: Sequence[Loss], clock: Callable[[float], str]) -> tuple[str, ...]:
    """Return a clause for each reason; the earliest time stands for all that share one."""
    groups: dict[object, list[Loss]] = {}
    for one in losses:
        key = one.loss.why if one.moved else (one.reason.sign, one.reason.is_evicted)
        groups.setdefault(key, []).append(one)
    return tuple(_clause(group, clock) for group in groups.values())


def _clause(group: Sequence[Loss], clock: Callable[[float], str]) -> str:
    names = fold_names(tuple(one.loss.host for one in group))
    first = min(group, key=lambda one: one.reason.since_s)
    if first.moved:
        return f"{names} lost: {first.loss.why}"
    if first.reason.is_evicted:
        return f"{names} {'was' if len(group) == 1 else 'were'} evicted"
    return f"{names} lost: {first.reason.clause(clock)}"
