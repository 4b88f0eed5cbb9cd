"""Asking a host that runs no agent: one login on the job's terms, and commands in it.

A command says where its answer begins and where it ends, so what an account's start-up files print
is not taken for it, and what they leave running in the background is not waited for.

asyncssh is imported where it is used: loading it takes long, and not every launch asks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from mpi_agent.ssh.remote import dial_options
from mpi_agent.ssh.trust import SshTarget, SshTerms, host_key_alias

if TYPE_CHECKING:
    import asyncssh

__all__ = ["ANSWER_BEGINS", "ANSWER_ENDS", "ErrandError", "HostShell", "HostShells", "SshShells"]

ANSWER_BEGINS = "mpi-agent-errand-begins"
ANSWER_ENDS = "mpi-agent-errand-ends"

_LOGIN_LIMIT_S = 15.0
_CLOSE_LIMIT_S = 0.5
_PIECE_BYTES = 65536
_MOST_BYTES = 1 << 24


class ErrandError(Exception):
    """The host could not be asked, or has not answered to the end; nothing is known of it."""


class HostShell(Protocol):
    """A login on a host."""

    async def run(self, command: str) -> str:
        """Return what a command printed between the two marks; raises ErrandError.

        Bytes that are no UTF-8 stand in it as surrogates.
        """


class HostShells(Protocol):
    """Whoever can log in."""

    def log_in(self, target: SshTarget) -> AbstractAsyncContextManager[HostShell]:
        """Give a login, closed in the end; entering it raises ErrandError."""


class SshShells:
    """Logs in over ssh; the key is read once. Whoever asks limits the time."""

    def __init__(self, terms: SshTerms) -> None:
        self._terms = terms
        self._options: asyncssh.SSHClientConnectionOptions | None = None

    @contextlib.asynccontextmanager
    async def log_in(self, target: SshTarget) -> AsyncIterator[HostShell]:
        """Give a login; see `HostShells`."""
        connection = await self._connect(target)
        try:
            yield _SshShell(connection)
        finally:
            connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_LIMIT_S):
                    await connection.wait_closed()
            connection.abort()

    async def _connect(self, target: SshTarget) -> asyncssh.SSHClientConnection:
        import asyncssh

        try:
            if self._options is None:
                key = asyncssh.read_private_key(self._terms.key_path)
                self._options = dial_options(self._terms, key)
            async with asyncio.timeout(_LOGIN_LIMIT_S):
                return await asyncssh.connect(
                    target.address or target.name,
                    target.port,
                    options=self._options,
                    host_key_alias=host_key_alias(target.name),
                )
        except (asyncssh.Error, OSError, ValueError, TimeoutError) as error:
            raise ErrandError(str(error) or "no login") from error


class _SshShell:
    """The login of one errand."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self._connection = connection

    async def run(self, command: str) -> str:
        """Return the answer; see `HostShell`."""
        import asyncssh

        try:
            process = await self._connection.create_process(
                command, stdin=asyncssh.DEVNULL, stderr=asyncssh.DEVNULL, encoding=None
            )
            try:
                return _answer_in(await _read_answer(process))
            finally:
                with contextlib.suppress(OSError):
                    process.close()
        except (asyncssh.Error, OSError) as error:
            raise ErrandError(str(error) or type(error).__name__) from error


async def _read_answer(process: asyncssh.SSHClientProcess[bytes]) -> bytes:
    """Return what the command printed, up to the mark behind its answer or its end."""
    said = bytearray()
    ends = ANSWER_ENDS.encode()
    while True:
        piece = await process.stdout.read(_PIECE_BYTES)
        searched = max(0, len(said) - len(ends))
        said += piece
        if not piece or said.find(ends, searched) >= 0 or len(said) > _MOST_BYTES:
            return bytes(said)


def _answer_in(said: bytes) -> str:
    """Return what stands between the marks; raises ErrandError where one is missing."""
    _, begins, rest = said.partition(ANSWER_BEGINS.encode())
    answer, ends, _ = rest.partition(ANSWER_ENDS.encode())
    if not (begins and ends):
        raise ErrandError("the login did not answer to the end")
    return answer.decode(errors="surrogateescape")
