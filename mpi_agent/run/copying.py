"""One stream, copied by a thread of its own: what was read is written at once, byte for byte.

A thread, because whoever reads our output may be slow, and neither signals nor workers may wait for
him; reading and writing leave Python's lock alone. The thread waits for its source, and for the
reader to go away: the source is closed then, so that the program notices at its next write, as it
would without us. A pipe with a name may find another reader; there it notices one write later.

A full disk is another matter: it is said once and the output is dropped until writing works again.
The program runs on, and what it said last is still known, although nobody could keep it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import stat
import threading
from collections.abc import Callable

__all__ = ["Copier"]

_CHUNK_BYTES = 1 << 18
_WRITE_BYTES = 1 << 16
"""what is written at once, so that a slow reader's progress can be seen"""
_LAST_BYTES = 4 << 20
"""what is still read after `stop`: more than a pipe of ours holds"""
_READER_GONE = frozenset({errno.EPIPE, errno.ECONNRESET})
_TERMINAL_GONE = frozenset({errno.EIO})


class Copier:
    """Copies until the source ends, the reader goes, or `stop`.

    Args:
        source: read, and closed at the end; must not block.
        sink: written, never closed; may block.
        took: is called with each piece once it was written, or could not be, by the thread; must
            not raise.
        note: is called in the event loop with what the user has to know.
        then: is called in the event loop at the end.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        *,
        took: Callable[[bytes], None],
        note: Callable[[str], None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._took = took
        self._note = note
        self._then = then
        self._gone = _READER_GONE | (_TERMINAL_GONE if os.isatty(sink) else frozenset())
        self._loop = asyncio.get_running_loop()
        self._stop, self._to_stop = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = threading.Lock()
        self._is_closed = False
        self._drops = False
        self._in_hand = b""
        self._has_noted = False
        self._ended = asyncio.Event()
        self.written_bytes = 0
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Read what is there and end: whoever still holds the stream is not waited for."""
        with self._closing, contextlib.suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._to_stop, b".")

    def close(self) -> None:
        """Close what is ours; by hand only where it was never started."""
        with self._closing:
            self._is_closed = True
            for number in (self._source, self._stop, self._to_stop):
                os.close(number)

    @property
    def has_ended(self) -> bool:
        """Nothing is read or written any more."""
        return self._ended.is_set()

    async def ended(self) -> None:
        """Return once it has."""
        await self._ended.wait()

    def abandon(self) -> None:
        """Take what is there and write no more; the thread ends when its write comes back.

        It waits for `took`: not in the event loop.
        """
        self._drops = True
        self.stop()
        in_hand, self._in_hand = self._in_hand, b""
        if in_hand:
            self._took(in_hand)
        with self._closing, contextlib.suppress(OSError):
            for _ in range(0 if self._is_closed else _LAST_BYTES // _CHUNK_BYTES):
                if not (chunk := os.read(self._source, _CHUNK_BYTES)):
                    break
                self._took(chunk)

    def _run(self) -> None:
        try:
            self._copy()
        finally:
            self.close()
            self._tell(self._then)
            self._tell(self._ended.set)

    def _copy(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        if not _may_be_read_again(self._sink):
            poll.register(self._sink, 0)  # errors and hang-ups alone
        while self._stop not in (ready := dict(poll.poll())):
            if gone := ready.get(self._sink):
                if not gone & select.POLLNVAL:
                    return
                poll.unregister(self._sink)
            if self._source in ready and self._pass_on() == 0:
                return
        left = _LAST_BYTES
        while left > 0 and (count := self._pass_on()) > 0:
            left -= count

    def _pass_on(self) -> int:
        """Read and write once; return how much, 0 for the end, -1 where nothing was there."""
        try:
            chunk = os.read(self._source, _CHUNK_BYTES)
        except BlockingIOError:
            return -1
        except OSError:  # EIO: nobody holds the other side of the terminal
            return 0
        if not chunk:
            return 0
        self._in_hand = chunk
        has_reader = self._write(memoryview(chunk))
        if self._in_hand:
            self._in_hand = b""
            self._took(chunk)
        return len(chunk) if has_reader else 0

    def _write(self, content: memoryview) -> bool:
        """Write everything; False when nobody will ever read it."""
        while content and not self._drops:
            try:
                count = os.write(self._sink, content[:_WRITE_BYTES])
            except BlockingIOError:
                _wait_for_room(self._sink)
                continue
            except OSError as error:
                if error.errno in self._gone:
                    return False
                self._complain(error)
                return True
            self.written_bytes += count
            content = content[count:]
        return True

    def _complain(self, error: OSError) -> None:
        if not self._has_noted:
            self._has_noted = True
            text = f"cannot write the program's output: {error.strerror}; it is dropped meanwhile"
            self._tell(self._note, text)

    def _tell(self, call: Callable[..., object], *words: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for us
            self._loop.call_soon_threadsafe(call, *words)


def _may_be_read_again(sink: int) -> bool:
    """Return whether another reader may come: of a pipe with a name."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sink).st_mode)
        return is_pipe and not os.readlink(f"/proc/self/fd/{sink}").startswith("pipe:")
    except OSError:
        return False


def _wait_for_room(sink: int) -> None:
    """Return once a sink that does not block takes something, or is gone."""
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    poll.poll()
