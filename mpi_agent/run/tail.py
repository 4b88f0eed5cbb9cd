"""What is kept of a program's output: its first lines and its last ones, within bounds.

Everything passes by here, so most of it is only counted: the last lines stay as they came, in whole
lines, and are told apart when somebody asks for them. A line that is written again and again, as a
progress bar does with carriage returns, is kept as it was last; a line without an end is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

from mpi_agent.job.output import Output, OutputLine, Stream

__all__ = ["FIRST_LINES", "LAST_BYTES", "LAST_LINES", "LONGEST_LINE_BYTES", "Tail"]

FIRST_LINES = 200
"""where launchers say that they could not start"""
LAST_LINES = 2_000
LAST_BYTES = 1 << 20
LONGEST_LINE_BYTES = 4096
_LAST_PLACE = 1 << 62
_USUAL_LINE_BYTES = 512
"""blocks with longer lines than this are cut and squeezed at once, so that bars take no room"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Whole lines of one stream, with their ends.

    Attributes:
        place: in the order in which blocks came, of all streams.
    """

    stream: Stream
    place: int
    first_number: int
    count: int
    content: bytes

    def last(self, most: int) -> Iterator[OutputLine]:
        """Yield the last lines as they are kept, in their order; at least one is wanted."""
        pieces = self.content[:-1].rsplit(b"\n", most)[-most:]
        for number, line in enumerate(pieces, self.first_number + self.count - len(pieces)):
            text = squeezed(line).decode("utf-8", "surrogateescape")
            yield OutputLine(text=text, stream=self.stream, number=number)


class _StreamTail:
    """The last blocks of one stream, and its line that has no end yet."""

    def __init__(self) -> None:
        self.blocks: deque[_Block] = deque()
        self.kept_lines = 0
        self.kept_bytes = 0
        self.count = 0
        self.unfinished = b""

    def keep(self, block: _Block) -> None:
        """Add a block."""
        self.blocks.append(block)
        self.kept_lines += block.count
        self.kept_bytes += len(block.content)

    def let_go(self) -> None:
        """Forget the oldest block."""
        gone = self.blocks.popleft()
        self.kept_lines -= gone.count
        self.kept_bytes -= len(gone.content)

    def last(self, most: int, stream: Stream) -> Iterator[tuple[int, tuple[OutputLine, ...]]]:
        """Yield the last lines, from the end, in groups with their places."""
        blocks = list(self.blocks)
        if self.unfinished:
            blocks.append(
                _Block(
                    stream=stream,
                    place=_LAST_PLACE,
                    first_number=self.count + 1,
                    count=1,
                    content=self.unfinished + b"\n",
                )
            )
        while blocks and most > 0:
            block = blocks.pop()
            yield block.place, tuple(block.last(most))
            most -= block.count


class Tail:
    """Takes output piece by piece; `output` tells what was kept. Not for several threads at once.

    Two streams share what there is for the last lines, so that one who floods his stream does not
    drown what was said on the other.

    Args:
        first_lines: how many are kept from the start.
        last_lines, last_bytes: how much is kept of the end, whichever is less.
    """

    def __init__(
        self,
        *,
        first_lines: int = FIRST_LINES,
        last_lines: int = LAST_LINES,
        last_bytes: int = LAST_BYTES,
    ) -> None:
        self._first_left = first_lines
        self._most_lines = last_lines
        self._most_bytes = last_bytes
        self._first: list[OutputLine] = []
        self._streams: dict[Stream, _StreamTail] = {}
        self._places = 0
        self._total_bytes = 0

    def take(self, chunk: bytes, stream: Stream) -> None:
        """Take the next piece of a stream, which may end anywhere."""
        if not chunk:
            return
        self._total_bytes += len(chunk)
        tail = self._streams.setdefault(stream, _StreamTail())
        end = chunk.rfind(b"\n") + 1
        if not end:
            tail.unfinished = _written_on(tail.unfinished, chunk)
            return
        whole = _written_on(tail.unfinished, chunk[:end], limit=False)
        tail.unfinished = _written_on(b"", chunk[end:])
        self._take_lines(whole, stream, tail)

    @property
    def output(self) -> Output:
        """What was kept until now; lines that have no end yet come last."""
        unfinished = sum(bool(tail.unfinished) for tail in self._streams.values())
        groups = [
            group
            for stream, most in self._shares()
            for group in self._streams[stream].last(most, stream)
        ]
        last = [line for _, lines in sorted(groups, key=itemgetter(0)) for line in lines]
        total = sum(tail.count for tail in self._streams.values()) + unfinished
        return Output(
            lines=(*self._first, *last),
            total_bytes=self._total_bytes,
            left_out=total - len(self._first) - len(last),
        )

    def _shares(self) -> Iterator[tuple[Stream, int]]:
        """Yield how many of the last lines each stream has room for, the quietest first."""
        sizes = {
            stream: tail.kept_lines + bool(tail.unfinished)
            for stream, tail in self._streams.items()
        }
        left = self._most_lines
        for done, stream in enumerate(sorted(sizes, key=sizes.__getitem__)):
            share = min(sizes[stream], left // (len(sizes) - done))
            left -= share
            yield stream, share

    def _take_lines(self, content: bytes, stream: Stream, tail: _StreamTail) -> None:
        count = content.count(b"\n")
        if len(content) > _USUAL_LINE_BYTES * count:
            content = b"".join(squeezed(line) + b"\n" for line in content[:-1].split(b"\n"))
        self._places += 1
        block = _Block(
            stream=stream,
            place=self._places,
            first_number=tail.count + 1,
            count=count,
            content=content,
        )
        tail.count += count
        if self._first_left:
            block = self._without_first(block)
        if block.count:
            tail.keep(block)
            self._let_go()

    def _without_first(self, block: _Block) -> _Block:
        """Keep what still belongs to the first lines; return the rest."""
        taken = min(self._first_left, block.count)
        pieces = block.content.split(b"\n", taken)
        first = b"".join(piece + b"\n" for piece in pieces[:taken])
        self._first += replace(block, count=taken, content=first).last(taken)
        self._first_left -= taken
        return replace(
            block,
            first_number=block.first_number + taken,
            count=block.count - taken,
            content=pieces[taken],
        )

    def _let_go(self) -> None:
        """Forget what there is no room for, of whoever has most; nobody loses his share."""
        tails = self._streams.values()
        share = self._most_lines // len(tails)
        while sum(tail.kept_lines for tail in tails) > self._most_lines:
            most = max(tails, key=lambda tail: tail.kept_lines)
            if most.kept_lines - most.blocks[0].count < share:
                break
            most.let_go()
        while sum(tail.kept_bytes for tail in tails) > self._most_bytes:
            most = max(tails, key=lambda tail: tail.kept_bytes)
            if len(most.blocks) == 1:
                break
            most.let_go()


def squeezed(line: bytes) -> bytes:
    """Return what a reader would see of a line: what was written last, and not too much of it."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :][:LONGEST_LINE_BYTES]


def _written_on(line: bytes, chunk: bytes, *, limit: bool = True) -> bytes:
    """Return an unfinished line with what was written behind it, or over it.

    A return at the end is kept: what comes next tells whether it belongs to the line's end.
    """
    if line.endswith(b"\r") and not chunk.startswith((b"\r", b"\n")):
        line = b""
    if not limit:
        return line + chunk
    content = chunk.rstrip(b"\r")
    returns = content.rfind(b"\r")
    kept = content[returns + 1 :] if returns >= 0 else line.rstrip(b"\r") + content
    return kept[:LONGEST_LINE_BYTES] + (b"\r" if chunk.endswith(b"\r") else b"")
