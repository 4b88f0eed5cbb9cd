"""Texts as outputs."""

from __future__ import annotations

from mpi_agent.job.output import Output, OutputLine, Stream

__all__ = ["an_output"]


def an_output(text: str, *, stderr: str = "") -> Output:
    """Return an output of one stream, and of a second one that came after it."""
    stream = Stream.STDOUT if stderr else Stream.MERGED
    return Output(lines=(*_lines(text, stream), *_lines(stderr, Stream.STDERR)))


def _lines(text: str, stream: Stream) -> tuple[OutputLine, ...]:
    lines = text.split("\n") if text else []
    return tuple(
        OutputLine(text=line, stream=stream, number=number) for number, line in enumerate(lines, 1)
    )
