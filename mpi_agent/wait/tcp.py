"""Does a port accept a connection, and does it speak SSH.

The connection of a port that does stays open, with its banner unread, so that the login goes over
the same one: sshd counts connections that end without a login (MaxStartups, PerSourcePenalties)
and logs each of them. Only a second address or port that answers too is closed unused.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.banner import NotSshError, find_banner, words_of_refusal

__all__ = ["PortAnswer", "knock"]

CONNECT_LIMIT_S = 2.0
BANNER_LIMIT_S = 10.0
_PEEKED_BYTES = 16384
_PEEK_PAUSE_S = 0.02
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAnswer:
    """What one port of one address said.

    Attributes:
        stage: RESOLVED when no connection came about, REACHABLE without a banner, else ANSWERING.
        obstacle: None when a banner came.
        connection: open, its banner unread, when a banner came; whoever asked closes it.
        steps: seconds that each question took, by the stage it asked for.
    """

    address: str
    port: int
    stage: Stage
    banner: str = ""
    obstacle: Obstacle | None = None
    detail: str = ""
    connection: socket.socket | None = None
    steps: tuple[tuple[Stage, float], ...] = ()


async def knock(
    address: str,
    port: int,
    *,
    connected: Callable[[], None] = lambda: None,
    connect_limit_s: float = CONNECT_LIMIT_S,
    banner_limit_s: float = BANNER_LIMIT_S,
) -> PortAnswer:
    """Return what the port says; never raises for "no".

    Args:
        connected: called as soon as the connection is accepted, long before a late banner.
    """
    loop = asyncio.get_running_loop()
    started_at_s = loop.time()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        connection = _PromptSocket(family, socket.SOCK_STREAM)
    except OSError as error:  # IPv6 may be switched off altogether
        return _unconnected(address, port, error, connect_limit_s)
    connection.setblocking(False)
    try:
        try:
            async with asyncio.timeout(connect_limit_s):
                await loop.sock_connect(connection, (address, port))
        except OSError as error:
            connection.close()
            return _unconnected(address, port, error, connect_limit_s)
        connected_at_s = loop.time()
        connected()
        answer = await _read_banner(connection, address, port, banner_limit_s)
    except BaseException:
        connection.close()
        raise
    steps = (
        (Stage.REACHABLE, connected_at_s - started_at_s),
        (Stage.ANSWERING, loop.time() - connected_at_s),
    )
    if answer.obstacle is not None:
        connection.close()
        return replace(answer, steps=steps)
    return replace(answer, steps=steps, connection=connection)


class _PromptSocket(socket.socket):
    """A socket whose acknowledgements are not delayed.

    sshd sends the answers of a session in small pieces and holds each back until the one before is
    acknowledged, which Linux delays for 40 ms unless told otherwise after every read.

    Source: tcp(7), TCP_QUICKACK, "not permanent"; a probe of OpenSSH 9.2 on loopback took 105 ms
    without and 63 ms with it, 2026-11-30.
    """

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return what came, and acknowledge it at once."""
        received = super().recv(size, flags)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return received


async def _read_banner(
    connection: socket.socket, address: str, port: int, limit_s: float
) -> PortAnswer:
    where = f"{address} port {port}"

    def refusal(obstacle: Obstacle, detail: str) -> PortAnswer:
        return PortAnswer(
            address=address, port=port, stage=Stage.REACHABLE, obstacle=obstacle, detail=detail
        )

    try:
        async with asyncio.timeout(limit_s):
            received = b""
            while (banner := find_banner(received)) is None:
                is_over = _peer_has_closed(connection)
                received = await _peek(connection, received)
                if is_over and find_banner(received) is None:
                    if words := words_of_refusal(received):
                        return refusal(Obstacle.TURNED_AWAY, f'{where} says "{words}"')
                    why = f"{where} closed the connection before an SSH banner came"
                    return refusal(Obstacle.CLOSED_EARLY, why)
    except NotSshError as error:
        return refusal(Obstacle.NOT_SSH, f"{where} answers {error}, which is not SSH")
    except TimeoutError:
        why = f"{where} accepted and sent no SSH banner within {limit_s:g} s"
        return refusal(Obstacle.BANNER_LATE, why)
    except OSError as error:
        why = f"{where} broke off before an SSH banner: {error.strerror or error}"
        return refusal(Obstacle.CLOSED_EARLY, why)
    return PortAnswer(address=address, port=port, stage=Stage.ANSWERING, banner=banner)


async def _peek(connection: socket.socket, before: bytes) -> bytes:
    """Return all that has come and was not read yet, waiting for more than `before`."""
    await _until_readable(connection)
    received = connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    if received == before:
        await asyncio.sleep(_PEEK_PAUSE_S)
    return received


async def _until_readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def settle() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(connection, settle)
    try:
        await readable
    finally:
        loop.remove_reader(connection)


def _peer_has_closed(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _unconnected(address: str, port: int, error: OSError, limit_s: float) -> PortAnswer:
    if isinstance(error, TimeoutError) and error.errno is None:
        obstacle = Obstacle.PORT_FILTERED
        why = f"nothing answered on {address} port {port} within {limit_s:g} s"
    elif isinstance(error, ConnectionRefusedError):
        obstacle = Obstacle.PORT_REFUSED
        why = f"{address} refuses connections on port {port}"
    else:
        unreachable = error.errno in _UNREACHABLE or error.errno == errno.EAFNOSUPPORT
        obstacle = Obstacle.UNREACHABLE if unreachable else Obstacle.PORT_FILTERED
        why = f"{address} port {port}: {error.strerror or error}"
    return PortAnswer(
        address=address, port=port, stage=Stage.RESOLVED, obstacle=obstacle, detail=why
    )
