"""How the program's streams run through the agent: by pipes, or by a terminal where we have one.

Each of our streams that is a terminal is one for the program too: one of ours, of the same size.
What is not goes through a pipe; where our stdout and stderr are the same file, through one pipe, so
that the order stays. Standard input is handed on as it is, because Open MPI 5 hangs on a pipe there
that nobody closes; only a terminal's is copied, because the program's session is another.

Either way nothing is changed, nothing is held back, and what was said first and last is kept.

- One was closed when the agent began: what the program says there is kept, and goes nowhere.
- No terminal can be had: that is said, and a pipe takes its place.
- Our reader goes away: the program's writes fail, as they would without us, and the agent goes on.
- Our disk is full: that is said once; the output is dropped until there is room.
- The program has ended and something of it still holds a pipe: it is waited for one second.
- Nobody reads what is there: 30 s without any progress, 2 s after a stop; the rest is dropped and
  that is said. After a stop it is dropped as well when the time is over, however fast he reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import math
import os
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mpi_agent.job.output import Output, Stream
from mpi_agent.run.copying import Copier
from mpi_agent.run.tail import LAST_BYTES, Tail
from mpi_agent.run.terminal import Keyboard, Terminal, is_same, is_terminal, was_given

__all__ = ["ChildEnds", "ProgramStreams"]

_T = TypeVar("_T")

_PIPE_BYTES = 1 << 20
_QUIET_LIMIT_S = 1.0
_READER_LIMIT_S = 30.0
_READER_LIMIT_IN_A_HURRY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnds:
    """What a child's streams are to be; None where it inherits ours.

    Attributes:
        controlling: the child's stream (0, 1 or 2) that is its controlling terminal.
    """

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    controlling: int | None = None


class ProgramStreams:
    """The streams of one run of a program: `start`, then `finish`.

    Args:
        tap: is called with each piece of output as it comes, by a thread of its own; the output
            waits for it. It must not raise.
        tail_bytes: how much of the end is kept.
        stdin, stdout, stderr: our own.
    """

    def __init__(
        self,
        *,
        tap: Callable[[bytes, Stream], None] | None = None,
        tail_bytes: int = LAST_BYTES,
        stdin: int = 0,
        stdout: int = 1,
        stderr: int = 2,
    ) -> None:
        self._tap = tap
        self._tail = Tail(last_bytes=tail_bytes)
        self._keeping = threading.Lock()
        self._ours = (stdin, stdout, stderr)
        self._copiers: list[Copier] = []
        self._given: list[int] = []
        self._nowhere: list[int] = []
        self._terminal: Terminal | None = None
        self._keyboard: Keyboard | None = None
        self._note: Callable[[str], None] = lambda _: None
        self._reader_limit_s = _READER_LIMIT_S
        self._ends_at_s = math.inf
        self._waiting: asyncio.Timeout | None = None
        self.last_output_at_s = time.monotonic()

    @property
    def output(self) -> Output:
        """What was kept until now of the output."""
        with self._keeping:
            return self._tail.output

    def start(self, start: Callable[[ChildEnds], _T], *, note: Callable[[str], None]) -> _T:
        """Return what `start` returns, which starts the child with the ends that it is given.

        Args:
            note: is told what the user has to know.
        """
        self._note = note
        try:
            started = start(self._connect())
        except BaseException:
            self._close()
            raise
        finally:
            while self._given:
                os.close(self._given.pop())
        self.last_output_at_s = time.monotonic()
        for copier in self._copiers:
            copier.start()
        if self._keyboard is not None:
            self._keyboard.start()
        if self._terminal is not None:
            self._terminal.follow_size()
        return started

    async def finish(self) -> None:
        """Pass on what is there and close all; the child has ended."""
        if self._terminal is not None:
            self._terminal.leave()
        await self._all_ended(_QUIET_LIMIT_S)
        for copier in self._left:
            copier.stop()
        written_bytes = -1
        while self._left and self._written_bytes > written_bytes and not self._is_late:
            written_bytes = self._written_bytes
            await self._all_ended(self._reader_limit_s)
        if self._left:
            self._note(self._why_dropped)
        for copier in self._left:
            await asyncio.to_thread(copier.abandon)  # the tap may take a while
        self._close_terminal()
        self._close_nowhere()

    def hurry(self, ends_at_s: float) -> None:
        """Have `finish` end by then, on the event loop's clock, and sooner where nobody reads.

        It may be called before `finish` and meanwhile: somebody told us to stop and counts the
        seconds.
        """
        self._reader_limit_s = _READER_LIMIT_IN_A_HURRY_S
        self._ends_at_s = min(self._ends_at_s, ends_at_s)
        if self._waiting is not None:
            before_s = self._waiting.when() or math.inf
            self._waiting.reschedule(min(before_s, _now_s() + self._wait_s(self._reader_limit_s)))

    def _connect(self) -> ChildEnds:
        """Make what is needed; return the child's ends."""
        stdin, stdout, stderr = self._ours
        stdout, stderr = self._or_nowhere(stdout), self._or_nowhere(stderr)
        self._ours = (stdin, stdout, stderr)
        terminals = [number for number in (stdout, stderr, stdin) if is_terminal(number)]
        ends = self._connect_terminal(*terminals) if terminals else {}
        if {stdout, stderr}.isdisjoint(ends) and is_same(stdout, stderr):
            ends[stdout] = ends[stderr] = self._pipe(stdout, Stream.MERGED)
        for number, stream in ((stdout, Stream.STDOUT), (stderr, Stream.STDERR)):
            if number not in ends:
                ends[number] = self._pipe(number, stream)
        inner = None if self._terminal is None else self._terminal.inner
        theirs = [ends.get(number) for number in self._ours]
        return ChildEnds(
            stdin=ends.get(stdin, stdin or None),
            stdout=ends[stdout],
            stderr=ends[stderr],
            controlling=None if inner is None else theirs.index(inner),
        )

    def _or_nowhere(self, number: int) -> int:
        """Return a stream of ours; one that goes nowhere where it was closed when we began."""
        if was_given(number):
            return number
        self._nowhere.append(os.open(os.devnull, os.O_WRONLY))
        return self._nowhere[-1]

    def _connect_terminal(self, outer: int, *others: int) -> dict[int, int]:
        """Make a terminal; return its end for each of our streams that it stands for."""
        try:
            self._terminal = Terminal(outer)
        except (OSError, termios.error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._note(f"cannot give the program a terminal: {why}; it writes to pipes")
            return {}
        stdin, stdout, stderr = self._ours
        given = {outer, *(n for n in others if n == stdin or is_same(n, outer))}
        if stdin in given:
            self._keyboard = Keyboard(stdin, self._terminal)
        stream = _stream_of(has_stdout=stdout in given, has_stderr=stderr in given)
        source = os.dup(self._terminal.master)
        self._copy(source, outer, stream, then=self._close_terminal)
        return dict.fromkeys(given, self._terminal.inner)

    def _pipe(self, sink: int, stream: Stream) -> int:
        """Return the end of a pipe to write to; the other one is copied."""
        source, end = os.pipe2(os.O_CLOEXEC)
        self._given.append(end)
        os.set_blocking(source, False)
        with contextlib.suppress(OSError):  # the user has many, or large ones are not allowed
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._copy(source, sink, stream)
        return end

    def _copy(
        self, source: int, sink: int, stream: Stream, then: Callable[[], None] = lambda: None
    ) -> None:
        took = functools.partial(self._take, stream)
        self._copiers.append(Copier(source, sink, took=took, note=self._note, then=then))

    def _take(self, stream: Stream, chunk: bytes) -> None:
        with self._keeping:
            self._tail.take(chunk, stream)
        self.last_output_at_s = time.monotonic()
        if self._tap is not None:
            self._tap(chunk, stream)

    @property
    def _left(self) -> list[Copier]:
        return [copier for copier in self._copiers if not copier.has_ended]

    @property
    def _written_bytes(self) -> int:
        return sum(copier.written_bytes for copier in self._copiers)

    @property
    def _is_late(self) -> bool:
        return _now_s() >= self._ends_at_s

    @property
    def _why_dropped(self) -> str:
        if self._is_late:
            return "there is no time to pass on all of the program's output; the rest is dropped"
        return (
            f"nobody read the program's output for {self._reader_limit_s:.0f} s;"
            " the rest is dropped"
        )

    def _wait_s(self, limit_s: float) -> float:
        """Return how long may be waited, where a limit is usual."""
        return max(0.0, min(limit_s, self._ends_at_s - _now_s()))

    async def _all_ended(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(self._wait_s(limit_s)) as self._waiting:
                    for copier in self._copiers:
                        await copier.ended()
            finally:
                self._waiting = None

    def _close(self) -> None:
        for copier in self._copiers:
            copier.close()
        self._close_terminal()
        self._close_nowhere()

    def _close_terminal(self) -> None:
        if self._keyboard is not None:
            self._keyboard.close()
            self._keyboard = None
        if self._terminal is not None:
            self._terminal.close()
            self._terminal = None

    def _close_nowhere(self) -> None:
        while self._nowhere:
            os.close(self._nowhere.pop())


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _stream_of(*, has_stdout: bool, has_stderr: bool) -> Stream:
    if has_stdout == has_stderr:
        return Stream.MERGED
    return Stream.STDOUT if has_stdout else Stream.STDERR
