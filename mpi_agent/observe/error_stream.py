"""Our stderr, as a log writes to it: whole lines, and no lock that outlives the log.

Python locks the buffer in front of its own stderr while somebody writes, and waits for that lock
when it ends: an agent whose log is read by nobody would end by SIGABRT.

Source: CPython 3.11, `_enter_buffered_busy` in Modules/_io/bufferedio.c; seen 2026-11-30.
"""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["error_stream"]


def error_stream() -> TextIO:
    """Return a stream to our stderr; it leads nowhere where we have none."""
    if sys.stderr is None:
        # the descriptor was closed; what is opened then takes its number, for children too
        return Path(os.devnull).open("w")
    try:
        raw = _WholeWrites(sys.stderr.fileno(), "w", closefd=False)
    except (OSError, ValueError):  # somebody put another stream in its place
        return sys.stderr
    return io.TextIOWrapper(
        raw,
        encoding=sys.stderr.encoding,
        errors=sys.stderr.errors,
        write_through=True,
    )


class _WholeWrites(io.FileIO):
    """A descriptor that takes all that is written, however long that takes."""

    def write(self, piece: ReadableBuffer, /) -> int:
        """Write all of it; a descriptor that does not wait by itself is waited for."""
        whole = memoryview(piece)
        done = 0
        while done < len(whole):
            written = super().write(whole[done:])
            if written is None:
                select.select((), (self,), ())
            done += written or 0
        return done
