"""Which known failures an output shows: the root cause first, then what followed from it.

Each symptom is found once, where it was said first. A line belongs to the first symptom of the
catalogue that knows it. Causes come before signs, and signs before consequences; among equals, what
was said first. Time is bounded whatever the output holds: a pattern is tried only where a literal
part of it stands, on a few lines cut to a bounded length, and not without end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mpi_agent.explain.symptoms import ALL_ROWS
from mpi_agent.explain.symptoms.agent import (
    CPU_THROTTLED,
    OUT_OF_MEMORY,
    WORKER_EVICTED,
    WORKER_GONE,
)
from mpi_agent.explain.symptoms.phrases import fill
from mpi_agent.explain.symptoms.row import Row
from mpi_agent.job.amounts import render_memory
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.symptoms import Finding
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["find_symptoms", "finding_of_throttling", "findings_of_news"]

_TAGS = re.compile(
    r"(?:\x1b\[[0-9;]{0,8}m"
    r"|\[pod/[^\]\s]{1,256}\]\s"  # kubectl logs --prefix
    r"|\d{4}-\d\d-\d\dT[\d:.]{5,20}(?:Z|[+-]\d\d:?\d\d)\s"  # kubectl logs --timestamps
    r"|\[\d{1,9},\s?\d{1,9}\](?:<std(?:out|err)>)?:?\s?"  # Open MPI's --tag-output
    r"|\[(?:prterun-)?[\w.@-]{1,128},\d{1,9}\]<std(?:out|err)>:\s?"  # PRRTE's
    r"|\[\d{1,9}\]\s"  # Hydra's -prepend-rank, Intel MPI's -l
    r"){1,4}"
)
_REACH = 1024
"""How many characters of a line are looked at, on either side of what was found in it."""
_MOST_TRIES = 400
"""A literal that is everywhere is tried where it stands first and last, so often each."""


def find_symptoms(output: Output) -> tuple[Finding, ...]:
    """Return what an output shows, the root cause first; empty where nothing is known."""
    found: list[tuple[int, int, Finding]] = []
    texts = _texts(output)
    for number, row in enumerate(ALL_ROWS):
        places = [place for text in texts if (place := _first_place(row, number, text))]
        if places:
            first = min(places, key=lambda place: place.order)
            found.append((row.symptom.rank.value, first.order, _finding(row, first)))
    return tuple(finding for _, _, finding in sorted(found, key=lambda item: item[:2]))


def findings_of_news(news: Sequence[WorkerNews]) -> tuple[Finding, ...]:
    """Return what workers told, as far as it explains an ending; what killed ranks comes first."""
    killed = [_told(OUT_OF_MEMORY, host.host, _amount(host)) for host in news if host.kills]
    evicted = [host for host in news if host.is_evicted and (host.is_lost or host.ranks)]
    gone = [host for host in news if host.is_lost and not host.is_evicted]
    return (
        *killed,
        *(_told(WORKER_EVICTED, host.host) for host in evicted),
        *(_told(WORKER_GONE, host.host) for host in gone),
    )


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


def _texts(output: Output) -> list[_Text]:
    """Return a text for each stream that has lines."""
    parts: dict[Stream, tuple[list[int], list[OutputLine]]] = {}
    for order, line in enumerate(output.lines):
        orders, lines = parts.setdefault(line.stream, ([], []))
        orders.append(order)
        lines.append(line)
    return [_Text(orders, lines) for orders, lines in parts.values()]


class _Text:
    """The lines of one stream as one text, in which a literal is found fast."""

    def __init__(self, orders: Sequence[int], lines: Sequence[OutputLine]) -> None:
        self.orders = orders
        self.lines = lines
        self.text = "\n".join([line.text for line in lines])
        self.starts = list(accumulate((len(line.text) + 1 for line in lines), initial=0))[:-1]

    def hits(self, literal: str) -> Iterator[int]:
        """Yield where a literal stands: the first places in order, then the last ones."""
        at, last = -1, -1
        for _ in range(_MOST_TRIES):
            if (at := self.text.find(literal, at + 1)) < 0:
                return
            last = at
            yield at
        at = len(self.text)
        for _ in range(_MOST_TRIES):
            if (at := self.text.rfind(literal, last + 1, at)) < 0:
                return
            yield at

    def line_at(self, place: int) -> int:
        """Return the index of the line in which a character stands."""
        return bisect_right(self.starts, place) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a row was found; `order` is that of the line among all lines of the output."""

    order: int
    line: OutputLine
    match: re.Match[str]


def _first_place(row: Row, number: int, text: _Text) -> _Place | None:
    """Return the first place where a row stands in a text, on a line that no earlier row knows."""
    places = [
        place
        for phrase, literal in zip(row.phrases, row.literals, strict=True)
        if (place := _first_place_of(row, number, text, phrase, literal))
    ]
    return min(places, key=lambda place: place.order, default=None)


def _first_place_of(row: Row, number: int, text: _Text, phrase: str, literal: str) -> _Place | None:
    before = 2 * phrase[: phrase.index(literal)].count("\n")  # an empty line may stand between
    count = 2 * phrase.count("\n") + 1
    for hit in text.hits(literal):
        at = text.line_at(hit)
        block = _block(text, at, hit, first=max(at - before, 0), count=count)
        match = row.symptom.pattern.search(block)
        if match is None or _is_known(block, number):
            continue
        index = max(at - before, 0) + block.count("\n", 0, match.start())
        return _Place(order=text.orders[index], line=text.lines[index], match=match)
    return None


def _block(text: _Text, at: int, hit: int, *, first: int, count: int) -> str:
    """Return some lines without their tags, each cut to what is looked at."""
    column = hit - text.starts[at]
    lines = [line.text[:_REACH] for line in text.lines[first : first + count]]
    lines[at - first] = text.lines[at].text[max(column - _REACH, 0) : column + _REACH]
    return "\n".join(_TAGS.sub("", line, count=1) if _TAGS.match(line) else line for line in lines)


def _is_known(block: str, number: int) -> bool:
    """Return whether a row that stands earlier in the catalogue knows a line."""
    return any(
        row.symptom.pattern.search(block)
        for row in ALL_ROWS[:number]
        if any(literal in block for literal in row.literals)
    )


def _finding(row: Row, place: _Place) -> Finding:
    named = place.match.groupdict().items()
    hosts = [value for name, value in named if name.startswith("host_") and value]
    return Finding(
        symptom=row.symptom,
        cause=fill(row.symptom.cause, place.match),
        line=place.line.text,
        line_number=place.line.number,
        stream=place.line.stream,
        host=hosts[0] if hosts else "",
    )
