"""The built-in ssh client: what mpirun calls in place of `ssh` in images without OpenSSH.

It understands what launchers pass to ssh, reads the same ssh_config of ours, carries the streams
byte for byte, and ends as ssh does: with the command's code, or 255 when ssh itself failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from mpi_agent.errors import SettingsError

__all__ = ["ClientRequest", "read_client_arguments", "run_client"]

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
_PIECE_BYTES = 65536
_SSH_FAILED = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """One call of the client.

    Attributes:
        config: from -F, None without one.
        user: from -l, None to take the configuration's.
        port: from -p, None to take the configuration's.
    """

    host: str
    command: str
    config: str | None = None
    user: str | None = None
    port: int | None = None


def read_client_arguments(arguments: tuple[str, ...]) -> ClientRequest:
    """Return what ssh-like arguments ask for; options that do not matter here are passed over.

    Raises:
        SettingsError: no host, no command, or a port that is none.
    Source: ssh(1) of OpenSSH 9.2, and what mpirun of Open MPI 4.1.4 and 5.0.11 passes to an agent.
    """
    values: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        letter, joined = word[1:2], word[2:]
        if letter in _WITH_VALUE:
            values[letter] = joined or (rest.pop(0) if rest else "")
    if len(rest) < 2 or not values.get("p", "1").isdigit():
        raise SettingsError(
            "cannot dial: the arguments name no host, no command, or no valid port",
            hint="mpi-agent ssh [-F FILE] [-p PORT] [-l USER] HOST COMMAND...",
        )
    user, at, host = rest[0].rpartition("@")
    return ClientRequest(
        host=host,
        command=" ".join(rest[1:]),
        config=values.get("F"),
        user=user if at else values.get("l"),
        port=int(values["p"]) if "p" in values else None,
    )


async def run_client(request: ClientRequest) -> int:
    """Run the command on the host; return its code, or 255 when ssh failed."""
    try:
        async with asyncssh.connect(request.host, **_options(request)) as connection:
            return await _run(connection, request.command)
    except asyncssh.HostKeyNotVerifiable as error:
        return _failed(request, f"Host key verification failed: {error}")
    except asyncssh.PermissionDenied as error:
        return _failed(request, f"Permission denied (publickey): {error}")
    except (asyncssh.Error, OSError, ValueError) as error:
        return _failed(request, str(error) or type(error).__name__)


def _options(request: ClientRequest) -> dict[str, Any]:
    """Return asyncssh's options; what is not said here it reads from the configuration."""
    options: dict[str, Any] = {"agent_path": None, "preferred_auth": "publickey"}
    if request.config is not None:
        options["config"] = [request.config]
        if "StrictHostKeyChecking no" in Path(request.config).read_text():
            options["known_hosts"] = None
    if request.user is not None:
        options["username"] = request.user
    if request.port is not None:
        options["port"] = request.port
    return options


async def _run(connection: asyncssh.SSHClientConnection, command: str) -> int:
    async with await connection.create_process(command, encoding=None) as process:
        feeding = asyncio.create_task(_feed(process))
        try:
            await asyncio.gather(
                _drain(process.stdout, sys.stdout.fileno()),
                _drain(process.stderr, sys.stderr.fileno()),
            )
            ended = await process.wait()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
    if ended.exit_status is None or ended.exit_status < 0:
        return _SSH_FAILED
    return ended.exit_status


async def _feed(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Hand our input on; its end is the end of the command's input, not of the session."""
    descriptor = sys.stdin.fileno()
    while piece := await asyncio.to_thread(os.read, descriptor, _PIECE_BYTES):
        process.stdin.write(piece)
        await process.stdin.drain()
    process.stdin.write_eof()


async def _drain(source: asyncssh.SSHReader[bytes], descriptor: int) -> None:
    while piece := await source.read(_PIECE_BYTES):
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]


def _failed(request: ClientRequest, why: str) -> int:
    print(f"mpi-agent ssh: cannot run a command on {request.host}: {why}", file=sys.stderr)
    return _SSH_FAILED
