"""One cheap look whether a host lives: a connection to its ssh port, and the banner that comes.

Nothing is looked up and nobody logs in: the address is the one on which the host was dialled. What
went wrong on our own side, such as no file descriptor left, tells nothing of the host.
"""

from __future__ import annotations

import asyncio
import errno
import socket

from mpi_agent.run.liveness import Sign
from mpi_agent.ssh.banner import NotSshError, find_banner, words_of_refusal
from mpi_agent.ssh.trust import SshTarget

__all__ = ["probe_host"]

_PIECE_BYTES = 4096
_OUR_OWN_TROUBLE = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EPERM}
)
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


async def probe_host(target: SshTarget, *, limit_s: float, banner: str = "") -> Sign | None:
    """Return what is seen of a host at this moment; None where we could not look.

    Args:
        target: with its address; without one nothing is seen.
        limit_s: for the connection and for the banner together.
        banner: what its worker's agent said; another one is another host. Empty where any will do.

    Source: sshd_config(5) of OpenSSH 10.0, PerSourcePenalties: a connection without a login costs
    a second, which a probe a second does not add up; a penalty is told in words, by a live sshd.
    """
    if target.address is None:
        return None
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    with connection:
        connection.setblocking(False)
        return await _look(connection, (target.address, target.port), limit_s, banner)


async def _look(
    connection: socket.socket, address: tuple[str, int], limit_s: float, banner: str
) -> Sign | None:
    loop = asyncio.get_running_loop()
    is_connected = False
    try:
        async with asyncio.timeout(limit_s):
            await loop.sock_connect(connection, address)
            is_connected = True
            return await _greeting(connection, banner)
    except TimeoutError as error:
        if error.errno is None and is_connected:
            return Sign.MUTE
        return Sign.SILENT
    except OSError as error:
        return Sign.CLOSED if is_connected else _sign_of(error)


async def _greeting(connection: socket.socket, wanted: str) -> Sign:
    loop = asyncio.get_running_loop()
    received = b""
    try:
        while (banner := find_banner(received)) is None:
            piece = await loop.sock_recv(connection, _PIECE_BYTES)
            received += piece
            if not piece:
                return Sign.BANNER if words_of_refusal(received) else Sign.CLOSED
    except NotSshError:
        return Sign.OTHER_HOST
    return Sign.BANNER if wanted in ("", banner) else Sign.OTHER_HOST


def _sign_of(error: OSError) -> Sign | None:
    if isinstance(error, ConnectionRefusedError):
        return Sign.REFUSED
    if error.errno in _OUR_OWN_TROUBLE:
        return None
    return Sign.UNREACHABLE if error.errno in _UNREACHABLE else Sign.SILENT
