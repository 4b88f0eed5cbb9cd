"""Which known failures an output and the agent's own knowledge show, the root cause first.

A line belongs to the first symptom of the catalogue that knows it, and each symptom is found once:
where it was said first, or last where a program may say the same and go on. Causes come before
signs, and signs before consequences; among equals, what was said first.

A program also tells of what it overcame: a batch that was too large, a port that was taken. So a
cause or a sign counts only near the end, or near the launcher's own words that a rank or a daemon
failed. What is older is past: the program went on after it, so it is told behind the signs and is
never the root. Near is measured in lines as a healthy program writes them; those of tracebacks and
errors hardly count, because a failure may fill thousands of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mpi_agent.explain.fates import losses_in_words
from mpi_agent.explain.symptoms import ALL_ROWS
from mpi_agent.explain.symptoms.agent import (
    CPU_THROTTLED,
    MPIRUN_KILLED,
    OUT_OF_MEMORY,
    RANK_FAILED_ALONE,
    RANKS_STALLED,
    START_TOO_LATE,
    WORKER_EVICTED,
    WORKER_GONE,
    WORKER_LOST,
)
from mpi_agent.explain.symptoms.phrases import fill
from mpi_agent.explain.symptoms.row import Row
from mpi_agent.explain.text_search import (
    Place,
    Text,
    first_place,
    last_place,
    texts_of,
    without_tags,
)
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.amounts import render_memory
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.symptoms import Finding, Kind
from mpi_agent.job.worker_news import WorkerNews

__all__ = [
    "find_symptoms",
    "finding_of_alarm",
    "finding_of_exit",
    "finding_of_throttling",
    "findings_of_news",
    "put_together",
]

_NEAR_LINES = 100
_TROUBLED_PER_LINE = 20
"""So many lines of tracebacks and errors count as one."""
_TROUBLE = re.compile(
    r"\s|$|mpi-agent: |.{0,200}(?i:error|warn|exception|traceback|fail|fatal|abort|frame #)"
)
_SIGKILL = 9
_MOST_THROTTLED, _FEWEST_PERIODS = 0.25, 100
_PAST_TIER = 3
_TIERS = {Kind.CAUSE: 1, Kind.SIGN: 2, Kind.CONSEQUENCE: 4}
_SAYS_MORE: tuple[tuple[str, str], ...] = (
    ("out-of-memory", "out-of-memory-kernel"),
    ("worker-evicted", "worker-lost"),
)
"""What tells of one event, the more exact first; the other is left out then."""


def find_symptoms(output: Output) -> tuple[Finding, ...]:
    """Return what an output shows, the root cause first; empty where nothing is known."""
    texts = texts_of(output)
    last_words = [row for row in ALL_ROWS if row.is_last_word]
    said = [place.order for row in last_words if (place := first_place(row, texts))]
    failed_at = min(said, default=len(output.lines))
    since = min(_near(output.lines, failed_at), _near(output.lines, len(output.lines)))
    found: list[tuple[int, int, Finding]] = []
    for row in ALL_ROWS:
        if place := _place(row, texts, since=since, failed_at=failed_at):
            finding = _finding(row, place, since=since)
            found.append((_tier(finding), place.order, finding))
    return tuple(finding for _, _, finding in sorted(found, key=lambda item: item[:2]))


def put_together(said: Sequence[Finding], known: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of an output and what the agent knows by itself, the root cause first.

    Of causes, what the agent knows comes first; of all else, what the output says, which tells more
    of it. Each symptom of a host is told once, and of two that tell of one event the more exact.

    Args:
        said, known: each the root cause first.
    """
    ordered = sorted(
        [
            *((_tier(item), item.symptom.kind is Kind.CAUSE, item) for item in said),
            *((_tier(item), item.symptom.kind is not Kind.CAUSE, item) for item in known),
        ],
        key=lambda entry: entry[:2],
    )
    kept: dict[tuple[str, str], Finding] = {}
    for _, _, item in ordered:
        kept.setdefault((item.symptom.id, item.host), item)
    told = tuple(kept.values())
    return tuple(item for item in told if not any(_says_more(other, item) for other in told))


def findings_of_news(news: Sequence[WorkerNews]) -> tuple[Finding, ...]:
    """Return what workers told, as far as it explains an ending; what killed ranks comes first."""
    killed = [_told(OUT_OF_MEMORY, host.host, _amount(host)) for host in news if host.kills]
    evicted = [host for host in news if host.is_evicted and (host.is_lost or host.ranks)]
    gone = [host for host in news if host.is_lost and not host.is_evicted]
    slowed = [
        finding_of_throttling(host.host, throttled=host.throttled, periods=host.periods)
        for host in news
        if host.periods >= _FEWEST_PERIODS and host.throttled > _MOST_THROTTLED * host.periods
    ]
    return (
        *killed,
        *(_told(WORKER_EVICTED, host.host) for host in evicted),
        *(_told(WORKER_GONE, host.host) for host in gone),
        *slowed,
    )


def finding_of_alarm(alarm: Alarm) -> Finding | None:
    """Return why the agent ended a program, in the words of the alarm; None where no row tells."""
    row = _ROWS_OF_ALARMS.get(alarm.kind)
    if row is None:
        return None
    host = alarm.losses[0].host if alarm.losses else ""
    cause = losses_in_words(alarm.losses) or alarm.why
    return Finding(symptom=row.symptom, cause=cause, host=host)


def finding_of_exit(process_exit: ProcessExit) -> Finding | None:
    """Return that somebody else killed mpirun itself; None for every other end of it.

    To be asked only where the agent neither was told to stop nor ended the program: then it is the
    agent that kills.
    """
    if process_exit.signal != _SIGKILL:
        return None
    return Finding(symptom=MPIRUN_KILLED.symptom, cause=MPIRUN_KILLED.symptom.cause)


def finding_of_throttling(host: str, *, throttled: int, periods: int) -> Finding:
    """Return that the kernel held back a host's ranks for their CPU limit.

    Args:
        throttled: how many of the periods the group of processes had to pause in.
        periods: of the scheduler that passed meanwhile.

    Source: Linux 6.18, Documentation/admin-guide/cgroup-v2.rst, cpu.stat: nr_throttled, nr_periods.
    """
    return _told(CPU_THROTTLED, host, f"in {throttled} of {periods} periods")


def _told(row: Row, host: str, detail: str = "") -> Finding:
    cause = row.symptom.cause.replace("{host}", host) + (f", {detail}" if detail else "")
    return Finding(symptom=row.symptom, cause=cause, host=host)


def _amount(host: WorkerNews) -> str:
    return render_memory(host.used_bytes, host.limit_bytes)


_ROWS_OF_ALARMS = {
    AlarmKind.START_TOO_LATE: START_TOO_LATE,
    AlarmKind.WORKERS_LOST: WORKER_LOST,
    AlarmKind.RANK_FAILED: RANK_FAILED_ALONE,
    AlarmKind.RANKS_STALLED: RANKS_STALLED,
}


def _near(lines: Sequence[OutputLine], end: int) -> int:
    """Return the first line that is near to what comes behind it, in one piece with it."""
    left = _NEAR_LINES * _TROUBLED_PER_LINE
    numbers: dict[Stream, int] = {}
    for order in range(end - 1, -1, -1):
        line = lines[order]
        left -= 1 if _TROUBLE.match(without_tags(line.text)) else _TROUBLED_PER_LINE
        is_torn = line.number < numbers.get(line.stream, line.number) - 1
        if left < 0 or is_torn:
            return order + 1
        numbers[line.stream] = line.number
    return 0


def _place(row: Row, texts: Sequence[Text], *, since: int, failed_at: int) -> Place | None:
    """Return the place of a row that counts."""
    if row.symptom.kind is Kind.CONSEQUENCE:
        return first_place(row, texts)
    if not row.last_counts:
        return first_place(row, texts, since=since) or first_place(row, texts)
    place = last_place(row, texts, before=failed_at)
    if place is None or place.order < since:  # it may be said only after the launcher's words
        return last_place(row, texts) or place
    return place


def _says_more(finding: Finding, other: Finding) -> bool:
    """Return whether a finding tells of the same event as another one, and more of it."""
    is_there = other.host in ("", finding.host)
    return is_there and (finding.symptom.id, other.symptom.id) in _SAYS_MORE


def _tier(finding: Finding) -> int:
    return _PAST_TIER if finding.is_past else _TIERS[finding.symptom.kind]


def _finding(row: Row, place: Place, *, since: int) -> Finding:
    named = place.match.groupdict().items()
    hosts = [value for name, value in named if name.startswith("host_") and value]
    return Finding(
        symptom=row.symptom,
        cause=fill(row.symptom.cause, place.match),
        line=place.line.text,
        line_number=place.line.number,
        stream=place.line.stream,
        host=hosts[0] if hosts else "",
        is_past=row.symptom.kind is not Kind.CONSEQUENCE and place.order < since,
    )
