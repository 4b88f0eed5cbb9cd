"""A saved log as an output, whatever its size: all of it, or its first and its last part.

Lines keep their numbers in the file. Bytes that are no UTF-8 are kept as surrogates, and what is no
text at all is refused.
"""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from mpi_agent.errors import LogNotTextError
from mpi_agent.job.output import Output, OutputLine, Stream

__all__ = ["read_log"]

_CHUNK_BYTES = 1 << 20
_FIRST_CHUNKS, _LAST_CHUNKS = 4, 12
_LOOKED_AT_BYTES = 1 << 16
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\b\a\x1b")
_MOST_CONTROLS = 0.05


def read_log(stream: BinaryIO, name: str) -> Output:
    """Return the lines of a saved log; of a very long one the first 4 and the last 12 MiB.

    Raises:
        LogNotTextError: it is compressed, or binary otherwise.
    """
    first = b"".join(_chunks(stream, _FIRST_CHUNKS))
    if _is_binary(first[:_LOOKED_AT_BYTES]):
        raise LogNotTextError(
            f'cannot explain "{name}": it is no text',
            hint="decompress it first, for example `zcat log.gz | mpi-agent explain -`",
        )
    last: deque[bytes] = deque()
    left_out, total = 0, len(first)
    while chunk := stream.read(_CHUNK_BYTES):
        last.append(chunk)
        total += len(chunk)
        if len(last) > _LAST_CHUNKS:
            left_out += last.popleft().count(b"\n")
    kept = sum(len(chunk) for chunk in last)
    is_whole = len(first) + kept == total
    if is_whole:
        lines = _lines(first + b"".join(last), 1)
    else:
        number = first.count(b"\n") + left_out + 1
        lines = (*_lines(first, 1), *_lines(b"".join(last), number))
    return Output(lines=lines, total_bytes=total, left_out=left_out)


def _chunks(stream: BinaryIO, most: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < most and (chunk := stream.read(_CHUNK_BYTES)):
        found.append(chunk)
    return found


def _is_binary(sample: bytes) -> bool:
    controls = sum(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls > _MOST_CONTROLS * len(sample)


def _lines(data: bytes, number: int) -> tuple[OutputLine, ...]:
    texts = data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    return tuple(
        OutputLine(text=text.removesuffix("\r"), stream=Stream.MERGED, number=at)
        for at, text in enumerate(texts, number)
    )
