"""A port of the launcher that workers connect to while it waits, as MPI daemons will later.

Whoever connects is let go at once; nothing is read and nothing is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

__all__ = ["listening"]


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[int | None]:
    """Provide the port, open on every address; None where this container cannot listen."""
    listener = _listener()
    if listener is None:
        yield None
        return
    server = await asyncio.start_server(_let_go, sock=listener)
    port: int = listener.getsockname()[1]
    async with server:
        yield port


def _listener() -> socket.socket | None:
    with contextlib.suppress(OSError):
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with contextlib.suppress(OSError):
        return socket.create_server(("0.0.0.0", 0))
    return None


async def _let_go(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
