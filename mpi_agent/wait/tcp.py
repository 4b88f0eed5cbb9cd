"""Does a port accept a connection, and does it speak SSH."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.banner import NotSshError, find_banner

__all__ = ["PortAnswer", "ask_port"]

CONNECT_LIMIT_S = 2.0
BANNER_LIMIT_S = 10.0
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAnswer:
    """What one port of one address said.

    Attributes:
        stage: RESOLVED when no connection came about, REACHABLE without a banner, else ANSWERING.
        obstacle: None when a banner came.
    """

    address: str
    port: int
    stage: Stage
    banner: str = ""
    obstacle: Obstacle | None = None
    detail: str = ""


async def ask_port(address: str, port: int) -> PortAnswer:
    """Return what the port says; never raises for "no"."""
    try:
        async with asyncio.timeout(CONNECT_LIMIT_S):
            reader, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        why = f"nothing answered on {address} port {port} within {CONNECT_LIMIT_S:g} s"
        return _unconnected(address, port, Obstacle.PORT_SILENT, why)
    except ConnectionRefusedError:
        why = f"{address} refuses connections on port {port}"
        return _unconnected(address, port, Obstacle.PORT_REFUSED, why)
    except OSError as error:
        silent = error.errno not in _UNREACHABLE
        obstacle = Obstacle.PORT_SILENT if silent else Obstacle.UNREACHABLE
        why = f"{address} port {port}: {error.strerror or error}"
        return _unconnected(address, port, obstacle, why)
    try:
        return await _read_answer(reader, address, port)
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader, address: str, port: int) -> PortAnswer:
    received = b""
    try:
        async with asyncio.timeout(BANNER_LIMIT_S):
            while (banner := find_banner(received)) is None:
                piece = await reader.read(1024)
                if not piece:
                    why = f"{address} port {port} closed the connection before an SSH banner came"
                    return _unanswered(address, port, Obstacle.BANNER_MISSING, why)
                received += piece
    except NotSshError as error:
        why = f"{address} port {port} answers {error}, which is not SSH"
        return _unanswered(address, port, Obstacle.NOT_SSH, why)
    except TimeoutError:
        why = f"{address} port {port} sent no SSH banner within {BANNER_LIMIT_S:g} s"
        return _unanswered(address, port, Obstacle.BANNER_MISSING, why)
    except OSError as error:
        why = f"{address} port {port} broke off before an SSH banner: {error.strerror or error}"
        return _unanswered(address, port, Obstacle.BANNER_MISSING, why)
    return PortAnswer(address=address, port=port, stage=Stage.ANSWERING, banner=banner)


def _unconnected(address: str, port: int, obstacle: Obstacle, detail: str) -> PortAnswer:
    return PortAnswer(
        address=address, port=port, stage=Stage.RESOLVED, obstacle=obstacle, detail=detail
    )


def _unanswered(address: str, port: int, obstacle: Obstacle, detail: str) -> PortAnswer:
    return PortAnswer(
        address=address, port=port, stage=Stage.REACHABLE, obstacle=obstacle, detail=detail
    )
