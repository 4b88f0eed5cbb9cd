"""The wait in words: the progress line, the table at the end, and the error that it becomes."""

from __future__ import annotations

from collections import Counter

from mpi_agent.errors import (
    HostsNotReadyError,
    HostsRefusedError,
    HostsUnfitError,
    ReadinessError,
)
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport, Stage
from mpi_agent.wait.ladder import can_still_succeed, is_refused, is_unfit
from mpi_agent.wait.remedies import Surroundings, remedy_for

__all__ = ["progress_line", "readiness_error", "table_lines"]

_STAGE_WORDS = {
    Stage.UNKNOWN: "no name yet",
    Stage.RESOLVED: "name resolves",
    Stage.REACHABLE: "port open",
    Stage.ANSWERING: "ssh answers",
    Stage.AUTHENTICATED: "logged in",
    Stage.EQUIPPED: "ready",
}
_COLUMNS = ("host", "stage", "since", "probes", "cause")
_REFUSALS = frozenset({Obstacle.HOST_KEY_UNKNOWN, Obstacle.KEY_REFUSED})


def progress_line(report: ReadinessReport) -> str:
    """Return one line that says who is missing, folded, and at which stage."""
    counts = Counter(_obstacle_words(host) for host in report.laggards)
    reasons = ", ".join(f"{number} {words}" for words, number in counts.most_common())
    limit = "no limit" if report.timeout_s is None else f"limit {report.timeout_s:.0f} s"
    names = fold_names(tuple(host.host for host in report.laggards))
    return (
        f"{report.ready_count} of {len(report.hosts)} hosts ready after {report.elapsed_s:.0f} s "
        f"({limit}); waiting for {names}: {reasons}"
    )


def table_lines(report: ReadinessReport) -> tuple[str, ...]:
    """Return a table of who is not ready; hosts of one stage and cause share a row.

    A row's time and number of probes are those of its first host, and so is the sentence.
    """
    rows = [_COLUMNS, *(_row(report, group) for group in _alike(report.laggards))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    return tuple(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row[:-1], widths, strict=True)), row[-1]])
        for row in rows
    )


def _alike(hosts: tuple[HostReadiness, ...]) -> list[tuple[HostReadiness, ...]]:
    groups: dict[tuple[Stage, Obstacle | None], list[HostReadiness]] = {}
    for host in hosts:
        groups.setdefault((host.stage, host.obstacle), []).append(host)
    return [tuple(group) for group in groups.values()]


def _row(report: ReadinessReport, group: tuple[HostReadiness, ...]) -> tuple[str, ...]:
    first = group[0]
    detail = first.last_failure.detail if first.last_failure else "its first answer is not in yet"
    return (
        fold_names(tuple(host.host for host in group)),
        _STAGE_WORDS[first.stage],
        f"{max(0.0, report.at_s - first.since_s):.0f} s",
        str(first.attempts),
        detail,
    )


def readiness_error(report: ReadinessReport, surroundings: Surroundings) -> ReadinessError:
    """Return the error for a wait that ended with hosts missing, refused or unfit.

    Who refused for good, and by that ended the wait, is blamed alone. At the deadline missing beats
    refused beats unfit, so that a code which says "a retry ends the same way" means it.
    """
    hopeless = () if _may_succeed(report) else _refused(report)
    suspects = hopeless or report.laggards
    kind = next(kind for kind in _VERBS if any(_kind_of(host) is kind for host in suspects))
    blamed = tuple(host for host in suspects if _kind_of(host) is kind)
    obstacle = Counter(host.obstacle for host in blamed).most_common(1)[0][0]
    names = fold_names(tuple(host.host for host in blamed if host.obstacle is obstacle))
    words = obstacle.value if obstacle else _obstacle_words(blamed[0])
    summary = (
        f"cannot {_VERBS[kind]} {len(blamed)} of {len(report.hosts)} hosts "
        f'{"after" if hopeless else "within"} {report.elapsed_s:.3g} s: "{names}": {words}'
    )
    if others := sum(host.obstacle is not obstacle for host in blamed):
        summary += f"; {others} more for other causes"
    remedy = remedy_for(obstacle, report, surroundings)
    error = kind(summary, hint=f"{remedy.cause}: {remedy.action}", report=report)
    error.evidence = (*table_lines(report), *_other_remedies(report, obstacle, surroundings))
    return error


def _may_succeed(report: ReadinessReport) -> bool:
    return can_still_succeed(report.hosts, report.at_s, wanted=report.wanted)


def _refused(report: ReadinessReport) -> tuple[HostReadiness, ...]:
    return tuple(host for host in report.laggards if is_refused(host, report.at_s))


_VERBS: dict[type[ReadinessError], str] = {
    HostsNotReadyError: "reach",
    HostsRefusedError: "log in to",
    HostsUnfitError: "use",
}


def _kind_of(host: HostReadiness) -> type[ReadinessError]:
    if is_unfit(host):
        return HostsUnfitError
    return HostsRefusedError if host.obstacle in _REFUSALS else HostsNotReadyError


def _other_remedies(
    report: ReadinessReport, told: Obstacle | None, surroundings: Surroundings
) -> tuple[str, ...]:
    """Return a line for each obstacle in the table that the hint does not speak of."""
    others = dict.fromkeys(host.obstacle for host in report.laggards if host.obstacle is not told)
    found = ((o, remedy_for(o, report, surroundings)) for o in others if o is not None)
    return tuple(f"{o.value}: {remedy.cause}: {remedy.action}" for o, remedy in found)


def _obstacle_words(host: HostReadiness) -> str:
    if host.obstacle is not None:
        return host.obstacle.value
    return f"{_STAGE_WORDS[host.stage]}, no answer yet" if host.stage else "no answer yet"
