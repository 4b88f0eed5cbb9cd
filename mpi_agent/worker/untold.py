"""What the launcher of a run was told and may not have heard, because its channel broke.

A connection that breaks says so late, and what was written last is lost. A launcher speaks every
quarter of the lease; two words of it that came after a line was said, on the same connection, mean
that the line has arrived. Whatever is not known to have arrived is told again when the launcher
comes back, so some of it may be heard twice.

Only what happened is kept; what is true now is told anew.
"""

from __future__ import annotations

from collections import deque

from mpi_agent.ssh.worker_words import GraceOver, Line, OutOfMemory, RankGone

__all__ = ["Untold"]

_WORDS = 2
_MOST_LINES = 4096


class Untold:
    """Of one run; the oldest of more than some thousand lines are given up."""

    def __init__(self) -> None:
        self._lines: deque[tuple[Line, int]] = deque(maxlen=_MOST_LINES)
        self._words = 0

    def told(self, line: Line) -> None:
        """Note that a line was said, or could not be."""
        if isinstance(line, GraceOver | OutOfMemory | RankGone):
            self._lines.append((line, self._words + _WORDS))

    def heard(self) -> None:
        """Note a word of the launcher."""
        self._words += 1
        while self._lines and self._lines[0][1] <= self._words:
            self._lines.popleft()

    def again(self) -> tuple[Line, ...]:
        """Return what a launcher that comes back is told; its words count anew."""
        lines = tuple(line for line, _ in self._lines)
        self._lines = deque(((line, self._words + _WORDS) for line in lines), maxlen=_MOST_LINES)
        return lines
