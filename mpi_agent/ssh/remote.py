"""Speaking with a worker's agent: the only way in which one side changes anything on the other.

A login on the job's terms runs the program that every session on a worker is told of, and lines of
`worker_protocol` go both ways through it. `/bin/sh` reads that program, because nothing can be
executed where the worker keeps its files if that place is mounted so. A host whose sessions have no
such variable runs no agent, or an older one, and cannot be spoken with.

asyncssh is imported where it is used: loading it takes long, and not every launch speaks.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from mpi_agent.ssh.trust import (
    BUILTIN_CIPHERS,
    BUILTIN_KEY_EXCHANGES,
    SshTarget,
    SshTerms,
    host_key_alias,
)
from mpi_agent.ssh.worker_protocol import ProtocolError, parse_line, render_call, render_line
from mpi_agent.ssh.worker_words import Call, Line
from mpi_agent.variable_names import WORKER_CALL_VARIABLE

if TYPE_CHECKING:
    import asyncssh

__all__ = [
    "ChannelBrokenError",
    "NoAgentError",
    "SshWorkers",
    "WorkerChannel",
    "Workers",
    "dial_options",
]

_LOGIN_LIMIT_S = 15.0
_CLOSE_LIMIT_S = 0.5
_NO_AGENT = "mpi-agent-no-worker-call"
_LONGEST_NOISE_LINES = 1000


class NoAgentError(Exception):
    """The host let us in, and nobody there takes the call: no agent, or one that does not know it.

    Asking again makes no difference, as long as that is the agent there.
    """


class ChannelBrokenError(Exception):
    """The channel could not be opened, or has ended; trying again may help."""


class WorkerChannel(Protocol):
    """One open conversation with a worker's agent."""

    def send(self, line: Line) -> None:
        """Say something; raises ChannelBrokenError."""

    async def receive(self) -> Line:
        """Return the next line; raises ChannelBrokenError, and NoAgentError at the first one."""

    async def close(self) -> None:
        """End the conversation, within half a second."""


class Workers(Protocol):
    """Whoever can begin conversations."""

    async def open(self, worker: SshTarget, call: Call) -> WorkerChannel:
        """Return a channel on which the call was said; raises ChannelBrokenError."""


def dial_options(terms: SshTerms, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnectionOptions:
    """Return the job's terms as asyncssh takes them: for probes, errands and channels alike."""
    import asyncssh

    known_hosts = terms.known_hosts_path if terms.checks_host_keys else None
    return asyncssh.SSHClientConnectionOptions(
        username=terms.user,
        client_keys=[key],
        known_hosts=None if known_hosts is None else asyncssh.read_known_hosts(known_hosts),
        preferred_auth="publickey",
        kex_algs=BUILTIN_KEY_EXCHANGES,
        encryption_algs=BUILTIN_CIPHERS,
        compression_algs=None,
        agent_path=None,
        # else asyncssh looks below a HOME that this uid may not be able to enter
        x509_trusted_certs=None,
        x509_trusted_cert_paths=None,
        config=None,
    )


class SshWorkers:
    """Opens channels over ssh; the key is read once."""

    def __init__(self, terms: SshTerms) -> None:
        self._terms = terms
        self._options: asyncssh.SSHClientConnectionOptions | None = None

    async def open(self, worker: SshTarget, call: Call) -> WorkerChannel:
        """Log in, start the worker's program, and say the call."""
        import asyncssh

        try:
            async with asyncio.timeout(_LOGIN_LIMIT_S):
                connection = await asyncssh.connect(
                    worker.address or worker.name,
                    worker.port,
                    options=self._dial_options(),
                    host_key_alias=host_key_alias(worker.name),
                )
                return await _begin(connection, call)
        except (asyncssh.Error, OSError, ValueError, TimeoutError) as error:
            why = str(error) or f"no login within {_LOGIN_LIMIT_S:g} s"
            raise ChannelBrokenError(why) from error

    def _dial_options(self) -> asyncssh.SSHClientConnectionOptions:
        import asyncssh

        if self._options is None:
            key = asyncssh.read_private_key(self._terms.key_path)
            self._options = dial_options(self._terms, key)
        return self._options


async def _begin(connection: asyncssh.SSHClientConnection, call: Call) -> _SshChannel:
    """Return a channel over a login; close the login where that does not come about."""
    import asyncssh

    try:
        process = await connection.create_process(
            _command_of(call), encoding=None, stderr=asyncssh.DEVNULL
        )
        with contextlib.suppress(OSError):  # it has ended already; what it said is still to be read
            process.stdin.write(render_call(call))
    except BaseException:
        connection.abort()
        await connection.wait_closed()
        raise
    return _SshChannel(connection, process)


def _command_of(call: Call) -> str:
    """Return the command line for a login, which any login shell takes."""
    script = (
        f'[ -n "${WORKER_CALL_VARIABLE}" ] || {{ echo {_NO_AGENT}; exit; }}; '
        f'exec /bin/sh "${WORKER_CALL_VARIABLE}" {call.verb.value}'
    )
    return f"/bin/sh -c '{script}'"


class _SshChannel:
    """A channel whose worker may print what its start-up files say before the first line."""

    def __init__(
        self, connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]
    ) -> None:
        self._connection = connection
        self._process = process
        self._noise_left = _LONGEST_NOISE_LINES

    def send(self, line: Line) -> None:
        try:
            self._process.stdin.write(render_line(line))
        except OSError as error:
            raise ChannelBrokenError(str(error)) from error

    async def receive(self) -> Line:
        while True:
            raw = await self._next_raw()
            if raw.strip() == _NO_AGENT.encode():
                raise NoAgentError
            try:
                line = parse_line(raw)
            except ProtocolError as error:
                self._noise_left -= 1
                if self._noise_left < 0:
                    raise ChannelBrokenError(str(error)) from error
                continue
            self._noise_left = 0
            if line is not None:
                return line

    async def _next_raw(self) -> bytes:
        """Return the next line; what is longer than asyncssh keeps for us counts as broken."""
        import asyncssh

        try:
            return await self._process.stdout.readuntil(b"\n")
        except (asyncssh.Error, OSError, asyncio.IncompleteReadError) as error:
            raise ChannelBrokenError(str(error)) from error

    async def close(self) -> None:
        self._connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await self._connection.wait_closed()
                return
        self._connection.abort()
