"""Where the words of a symptom stand in an output.

Time is bounded whatever the output holds: a pattern is tried only where a literal part of it
stands, on a few lines cut to a bounded length, and not without end.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mpi_agent.explain.symptoms import ALL_ROWS
from mpi_agent.explain.symptoms.row import Row
from mpi_agent.job.output import Output, OutputLine, Stream

__all__ = ["Place", "Text", "first_place", "last_place", "texts_of", "without_tags"]

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
_NUMBERS = {row.symptom.id: number for number, row in enumerate(ALL_ROWS)}


class Text:
    """The lines of one stream as one text, in which a literal is found fast.

    Attributes:
        orders: of each line its place among all lines of the output.
    """

    def __init__(self, orders: Sequence[int], lines: Sequence[OutputLine]) -> None:
        self.orders = orders
        self.lines = lines
        self._text = "\n".join([line.text for line in lines])
        self._starts = list(accumulate((len(line.text) + 1 for line in lines), initial=0))

    def hits(self, literal: str, start: int, end: int) -> Iterator[int]:
        """Yield where a literal stands: the first places in order, then the last ones."""
        at, last = start - 1, start - 1
        for _ in range(_MOST_TRIES):
            if (at := self._text.find(literal, at + 1, end)) < 0:
                return
            last = at
            yield at
        yield from self.hits_from_the_end(literal, last + 1, end)

    def hits_from_the_end(self, literal: str, start: int, end: int) -> Iterator[int]:
        """Yield where a literal stands, the last place first."""
        for _ in range(_MOST_TRIES):
            if (end := self._text.rfind(literal, start, end)) < 0:
                return
            yield end

    @property
    def end(self) -> int:
        """Where the text ends."""
        return len(self._text)

    def line_at(self, place: int) -> int:
        """Return the index of the line in which a character stands."""
        return bisect_right(self._starts, place, hi=len(self.lines)) - 1

    def start_of(self, index: int) -> int:
        """Return where a line begins."""
        return self._starts[index]

    def place_of(self, order: int) -> int:
        """Return where the lines begin that are not before a place among all lines."""
        return self._starts[bisect_left(self.orders, order)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a row was found; `order` is that of the line among all lines of the output."""

    order: int
    line: OutputLine
    match: re.Match[str]


def texts_of(output: Output) -> list[Text]:
    """Return a text for each stream that has lines."""
    parts: dict[Stream, tuple[list[int], list[OutputLine]]] = {}
    for order, line in enumerate(output.lines):
        orders, lines = parts.setdefault(line.stream, ([], []))
        orders.append(order)
        lines.append(line)
    return [Text(orders, lines) for orders, lines in parts.values()]


def without_tags(line: str) -> str:
    """Return a line without what ranks' launchers and kubectl put in front of it."""
    return _TAGS.sub("", line, count=1) if _TAGS.match(line) else line


def first_place(row: Row, texts: Sequence[Text], *, since: int = 0) -> Place | None:
    """Return the first place of a row, on a line that no earlier row knows.

    Args:
        since: only lines from this one on count, by their place among all lines.
    """
    places = [
        place
        for text in texts
        for phrase, literal in zip(row.phrases, row.literals, strict=True)
        for hits in (text.hits(literal, text.place_of(since), text.end),)
        if (place := _place_among(hits, row, text, phrase, literal))
    ]
    return min(places, key=lambda place: place.order, default=None)


def last_place(row: Row, texts: Sequence[Text], *, before: int | None = None) -> Place | None:
    """Return the last place of a row, on a line that no earlier row knows.

    Args:
        before: only lines before this one count, by their place among all lines; None for all.
    """
    places = [
        place
        for text in texts
        for phrase, literal in zip(row.phrases, row.literals, strict=True)
        for end in (text.end if before is None else text.place_of(before),)
        for hits in (text.hits_from_the_end(literal, 0, end),)
        if (place := _place_among(hits, row, text, phrase, literal))
    ]
    return max(places, key=lambda place: place.order, default=None)


def _place_among(
    hits: Iterator[int], row: Row, text: Text, phrase: str, literal: str
) -> Place | None:
    before = 2 * phrase[: phrase.index(literal)].count("\n")  # an empty line may stand between
    count = 2 * phrase.count("\n") + 1
    for hit in hits:
        at = text.line_at(hit)
        first = max(at - before, 0)
        block = _block(text, at, hit, first=first, count=count)
        match = row.symptom.pattern.search(block)
        if match is None or _is_known(block, _NUMBERS[row.symptom.id]):
            continue
        index = first + block.count("\n", 0, match.start())
        return Place(order=text.orders[index], line=text.lines[index], match=match)
    return None


def _block(text: Text, at: int, hit: int, *, first: int, count: int) -> str:
    """Return some lines without their tags, each cut to what is looked at."""
    column = hit - text.start_of(at)
    lines = [line.text[:_REACH] for line in text.lines[first : first + count]]
    lines[at - first] = text.lines[at].text[max(column - _REACH, 0) : column + _REACH]
    return "\n".join(without_tags(line) for line in lines)


def _is_known(block: str, number: int) -> bool:
    """Return whether a row that stands earlier in the catalogue knows a line."""
    return any(
        row.symptom.pattern.search(block)
        for row in ALL_ROWS[:number]
        if any(literal in block for literal in row.literals)
    )
