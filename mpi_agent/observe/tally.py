"""Hosts counted by stage and by obstacle, under names that are public and from closed sets.

A host that is ready counts as `ready` and under no stage, so that the counts add up to the hosts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport, Stage

__all__ = ["OUTCOMES", "STAGES", "Tally", "outcome_name", "stage_name", "tally"]

_PASSED = "passed"
STAGES = (*(stage.name.lower() for stage in Stage), "ready")
"""Where a host may stand."""
OUTCOMES = (_PASSED, *(obstacle.name.lower() for obstacle in Obstacle))
"""How a probe may end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many hosts stand where.

    Attributes:
        by_stage: every name of `STAGES` in their order, zeros included.
        by_obstacle: what hosts that are not ready met last, the most frequent first; None stands
            for those that no probe told of yet.
    """

    by_stage: tuple[tuple[str, int], ...]
    by_obstacle: tuple[tuple[Obstacle | None, int], ...]


def tally(report: ReadinessReport) -> Tally:
    """Return the counts of a report."""
    stages = Counter(stage_name(host) for host in report.hosts)
    obstacles = Counter(host.obstacle for host in report.laggards)
    return Tally(
        by_stage=tuple((name, stages[name]) for name in STAGES),
        by_obstacle=tuple(obstacles.most_common()),
    )


def stage_name(host: HostReadiness) -> str:
    """Return the name of `STAGES` under which a host counts."""
    return STAGES[-1] if host.is_ready else host.stage.name.lower()


def outcome_name(obstacle: Obstacle | None) -> str:
    """Return the name of `OUTCOMES` for a probe that met an obstacle, or none."""
    return _PASSED if obstacle is None else obstacle.name.lower()
