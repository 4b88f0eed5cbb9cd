"""One connection to the worker's agent: lines in, lines out, and nobody can hold it up.

Sending never waits. Whoever does not read what he is told is let go once it has piled up.
"""

from __future__ import annotations

import asyncio
import contextlib

from mpi_agent.ssh.worker_protocol import ProtocolError, render_line
from mpi_agent.ssh.worker_words import Line, Refused

__all__ = ["Conversation"]

_MOST_UNREAD_BYTES = 1 << 20


class Conversation:
    """One conversation.

    Args:
        number: by which it is told from every other one of this worker.
    """

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer

    async def read_line(self) -> bytes:
        """Return the next line, empty when the other side has said its last.

        Raises:
            ProtocolError: the line is too long.
        """
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""
        except ValueError as error:
            raise ProtocolError("the line is too long") from error

    def send(self, line: Line) -> None:
        """Say a line, soon."""
        self.send_raw(render_line(line))

    def send_raw(self, raw: bytes) -> None:
        """Say what is a line already."""
        if self._writer.is_closing():
            return
        self._writer.write(raw)
        if self._writer.transport.get_write_buffer_size() > _MOST_UNREAD_BYTES:
            self.drop()

    async def refuse(self, why: str, *, limit_s: float) -> None:
        """Say why it ends here, and close."""
        self.send(Refused(why=why))
        await self.close(limit_s=limit_s)

    async def close(self, *, limit_s: float) -> None:
        """Close once all that was said is on its way, or at the limit."""
        self._writer.close()
        with contextlib.suppress(OSError):
            try:
                async with asyncio.timeout(limit_s):
                    await self._writer.wait_closed()
            except TimeoutError:
                self.drop()

    def drop(self) -> None:
        """Close at once, whatever is still on its way."""
        transport = self._writer.transport
        if transport.is_closing() and not transport.get_write_buffer_size():
            return  # asyncio (CPython 3.11.7) fails to abort what was closed and has got rid of all
        transport.abort()
