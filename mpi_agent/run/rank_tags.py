"""Tells output apart by the tags that the launcher put in front of each rank's pieces of it.

What stands behind a tag belongs to its rank, up to the next tag or the end of the line; a line
without a tag is the launcher's own. A tag that is not complete yet waits for the rest of it.
"""

from __future__ import annotations

import re

from mpi_agent.command.dialects import TagForm

__all__ = ["TagReader"]

_LONGEST_TAG_BYTES = 32


class TagReader:
    """Reads one stream, piece by piece.

    Args:
        form: of the tags; None where there are none, and all is nobody's.
        np: how many ranks there are; a tag with a greater number is text.
    """

    def __init__(self, form: TagForm | None, np: int) -> None:
        self._np = np
        self._tag = None if form is None else re.compile(form.value.encode())
        self._first = b"" if form is None else form.value.encode().lstrip(b"\\")[:1]
        self._rank: int | None = None
        self._waiting = b""

    def read(self, chunk: bytes) -> list[tuple[int | None, bytes]]:
        """Return a chunk in pieces without their tags, each with its rank; None is the launcher."""
        if self._tag is None:
            return [(None, chunk)]
        text = self._waiting + chunk if self._waiting else chunk
        complete = len(text) - self._incomplete_bytes(text)
        self._waiting = text[complete:]
        return self._pieces(text, complete, self._tag)

    def rest(self) -> list[tuple[int | None, bytes]]:
        """Return what waited for the rest of a tag that did not come; whose line it is, is over."""
        found: list[tuple[int | None, bytes]] = []
        self._until_line_ends(self._waiting, found)
        self._waiting, self._rank = b"", None
        return found

    def _pieces(
        self, text: bytes, end: int, tags: re.Pattern[bytes]
    ) -> list[tuple[int | None, bytes]]:
        found: list[tuple[int | None, bytes]] = []
        start = 0
        for tag in tags.finditer(text, 0, end):
            rank = int(tag[1])
            if rank >= self._np:
                continue
            self._until_line_ends(text[start : tag.start()], found)
            self._rank, start = rank, tag.end()
        self._until_line_ends(text[start:end], found)
        return found

    def _until_line_ends(self, text: bytes, found: list[tuple[int | None, bytes]]) -> None:
        """Add the text between two tags; what comes behind a line's end has no rank."""
        if not text:
            return
        end = text.find(b"\n") + 1
        if self._rank is None or not end:
            found.append((self._rank, text))
            return
        found.append((self._rank, text[:end]))
        self._rank = None
        if len(text) > end:
            found.append((None, text[end:]))

    def _incomplete_bytes(self, text: bytes) -> int:
        """Return how many bytes at the end may be the start of a tag."""
        tail = text[-_LONGEST_TAG_BYTES:]
        at = tail.rfind(self._first)
        if at < 0 or b"\n" in tail[at:]:
            return 0
        assert self._tag is not None, "there are tags"
        return 0 if self._tag.match(tail, at) else len(tail) - at
