"""What became of workers, in words: who ran out of memory, who was evicted, who is lost."""

from __future__ import annotations

from collections.abc import Sequence

from mpi_agent.explain.exit_status import describe_seconds
from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.amounts import render_memory
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["EVICTED_WHY", "evicted", "losses_in_words", "out_of_memory"]

EVICTED_WHY = "it was evicted"
"""The reason of a HostLoss, whoever noticed it."""
_EVICTED = ("was evicted", "were evicted")
_EVICTED_IDLE = ("was evicted when no program ran there", "were evicted when no program ran there")
_WENT_AWAY = ("went away", "went away")
"""What becomes of a worker, and of several; the last one without that it was told to end."""


def out_of_memory(hosts: Sequence[WorkerNews]) -> str:
    """Return who ran out of memory; numbers are those of the first one. Empty for nobody."""
    killed = [host for host in hosts if host.kills]
    if not killed:
        return ""
    first, names = killed[0], fold_names(tuple(host.host for host in killed))
    how_much = render_memory(first.used_bytes, first.limit_bytes)
    if how_much and len(killed) > 1:
        how_much = f"{how_much} on {first.host}"
    return f"out of memory on {names}" + (f", {how_much}" if how_much else "")


def evicted(hosts: Sequence[WorkerNews]) -> str:
    """Return what became of those hosts that are not there any more. Empty for nobody."""
    fates: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        if fate := _fate_of(host):
            fates.setdefault(fate, []).append(host.host)
    return ", ".join(
        f"{fold_names(tuple(names))} {one if len(names) == 1 else several}"
        for (one, several), names in fates.items()
    )


def _fate_of(host: WorkerNews) -> tuple[str, str] | None:
    if not host.is_evicted:
        return _WENT_AWAY if host.is_lost else None
    return _EVICTED if host.is_lost or host.ranks else _EVICTED_IDLE


def losses_in_words(losses: Sequence[HostLoss]) -> str:
    """Return `pi-worker-3 lost after 2 h 14 min: no answer on TCP since 12:01:07`, or was evicted.

    Empty for several: whoever noticed them together says more of them in the words of the alarm.
    """
    if len(losses) != 1:
        return ""
    (loss,) = losses
    after = f"after {describe_seconds(loss.after_s)}"
    if loss.why == EVICTED_WHY:
        return f"{loss.host} {_EVICTED[0]} {after}"
    return f"{loss.host} lost {after}: {loss.why}"
