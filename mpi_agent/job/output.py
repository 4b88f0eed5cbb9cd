"""What the program said last: a bounded piece of its output, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Output", "OutputLine", "Stream"]


class Stream(Enum):
    """Where a line was written; MERGED where both went to one place and cannot be told apart."""

    STDOUT = "stdout"
    STDERR = "stderr"
    MERGED = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """One line of the program's output.

    Attributes:
        text: without its end; bytes that are no UTF-8 are kept as surrogates, and a very long line
            is cut.
        number: 1-based within its stream, counted from the program's start.
    """

    text: str
    stream: Stream
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What was kept of the output, in the order in which it came.

    Attributes:
        total_bytes: that were passed through, of all streams.
        left_out: how many lines were not kept: those between the first and the last ones.
    """

    lines: tuple[OutputLine, ...] = ()
    total_bytes: int = 0
    left_out: int = 0
