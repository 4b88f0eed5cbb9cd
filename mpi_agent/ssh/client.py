"""The built-in ssh client: what mpirun calls in place of `ssh` in images without OpenSSH.

It takes the options that launchers pass to ssh, reads the same ssh_config, and ends as ssh does:
with the command's code, or 255 when ssh itself failed. Its streams are often shared with mpirun,
so they are never made non-blocking: a thread reads the input, output is written where it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from mpi_agent.errors import SettingsError
from mpi_agent.ssh.trust import BUILTIN_CIPHERS, BUILTIN_KEY_EXCHANGES

__all__ = ["ClientRequest", "read_client_arguments", "run_client"]

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
_DIRECTIVES = {"p": "Port", "l": "User", "i": "IdentityFile"}
_PIECE_BYTES = 65536
_SSH_FAILED = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """One call of the client.

    Attributes:
        directives: lines of ssh_config, from -o, -p, -l, -i and USER@; they win over every file.
        config: from -F, None to read the account's and the image's own files.
        reads_input: False with -n.
    """

    host: str
    command: str
    directives: tuple[str, ...] = ()
    config: str | None = None
    reads_input: bool = True


def read_client_arguments(arguments: tuple[str, ...]) -> ClientRequest:
    """Return what ssh-like arguments ask for; options that do not matter here are passed over.

    Raises:
        SettingsError: there is no host, no command, or an option lacks its value.
    Source: ssh(1) of OpenSSH 9.2, and what mpirun of Open MPI 4.1.4 and 5.0.11 passes to an agent.
    """
    rest, directives = list(arguments), list[str]()
    config, reads_input = None, True
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        for letter, value in _options_in(word[1:], rest):
            reads_input = reads_input and letter != "n"
            if letter == "F":
                config = value
            elif letter == "o":
                directives.append(value.replace("=", " ", 1))
            elif letter in _DIRECTIVES:
                directives.append(f"{_DIRECTIVES[letter]} {value}")
    if len(rest) < 2 or not rest[0]:
        raise _misuse("the arguments name no host or no command")
    user, at, host = rest[0].rpartition("@")
    return ClientRequest(
        host=host,
        command=" ".join(rest[1:]),
        directives=(*directives, *([f"User {user}"] if at else [])),
        config=config,
        reads_input=reads_input,
    )


def _options_in(letters: str, rest: list[str]) -> list[tuple[str, str]]:
    """Return (letter, value) pairs of one word, `xF file` or `p2222`; a value may be the next."""
    found: list[tuple[str, str]] = []
    while letters:
        letter, letters = letters[0], letters[1:]
        value = ""
        if letter in _WITH_VALUE:
            if not letters and not rest:
                raise _misuse(f"-{letter} lacks its value")
            value, letters = letters or rest.pop(0), ""
        found.append((letter, value))
    return found


def _misuse(why: str) -> SettingsError:
    return SettingsError(
        f"cannot dial: {why}",
        hint="mpi-agent ssh [-F FILE] [-o KEY=VALUE] [-p PORT] [-l USER] HOST COMMAND...",
    )


async def run_client(request: ClientRequest) -> int:
    """Run the command on the host; return its code, or 255 when ssh failed."""
    try:
        paths = _configuration_of(request)
        async with asyncssh.connect(
            request.host,
            config=paths,
            known_hosts=() if _checks_host_keys(paths) else None,
            agent_path=None,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=None,
            kex_algs=BUILTIN_KEY_EXCHANGES,
            encryption_algs=BUILTIN_CIPHERS,
            preferred_auth="publickey",
        ) as connection:
            await _run_local_command(paths, request.host)
            return await _run(connection, request)
    except asyncssh.HostKeyNotVerifiable as error:
        return _failed(request, f"Host key verification failed: {error}")
    except asyncssh.PermissionDenied as error:
        return _failed(request, f"Permission denied (publickey): {error}")
    except (asyncssh.Error, OSError, ValueError) as error:
        return _failed(request, " ".join(str(error).split()) or type(error).__name__)


def _failed(request: ClientRequest, why: str) -> int:
    print(f'mpi-agent ssh: cannot run a command on "{request.host}": {why}', file=sys.stderr)
    return _SSH_FAILED


def _configuration_of(request: ClientRequest) -> list[str]:
    """Return configuration files in the order in which they count: the first value met wins.

    The arguments become a file in memory, because asyncssh reads nothing but files.
    """
    own = os.memfd_create("ssh-arguments")
    os.write(own, "".join(f"{line}\n" for line in request.directives).encode())
    if request.config is not None:
        return [f"/proc/self/fd/{own}", request.config]
    files = (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))
    return [f"/proc/self/fd/{own}", *(str(file) for file in files if file.is_file())]


def _checks_host_keys(paths: list[str]) -> bool:
    """Return whether host keys are checked; asyncssh itself does not know this directive."""
    for path in paths:
        for line in Path(path).read_text(errors="replace").splitlines():
            words = line.replace("=", " ").lower().split()
            if words[:1] == ["stricthostkeychecking"]:
                return words[1:] not in (["no"], ["off"])
    return True


async def _run_local_command(paths: list[str], host: str) -> None:
    """Run what the configuration wants run once a login succeeded, as ssh does.

    Source: ssh_config(5) of OpenSSH 9.2, LocalCommand; asyncssh 2.24 does not know it.
    """
    values: dict[str, str] = {}
    for path in paths:
        for line in Path(path).read_text(errors="replace").splitlines():
            keyword, _, value = line.strip().partition(" ")
            values.setdefault(keyword.lower(), value.strip())
    if values.get("permitlocalcommand") != "yes" or "localcommand" not in values:
        return
    command = values["localcommand"].replace("%n", host).replace("%%", "%")
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", command, stdin=asyncio.subprocess.DEVNULL
    )
    await child.wait()


async def _run(connection: asyncssh.SSHClientConnection, request: ClientRequest) -> int:
    process = await connection.create_process(request.command, encoding=None)
    if request.reads_input:
        _feed_from_a_thread(process)
    else:
        process.stdin.write_eof()
    await asyncio.gather(_drain(process.stdout, 1), _drain(process.stderr, 2))
    await process.wait_closed()
    return _exit_code(process)


def _feed_from_a_thread(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Hand our input on; its end is the end of the command's input, not of the session.

    The thread does not keep us alive: the input may be a terminal, or closed, or never end.
    """
    loop = asyncio.get_running_loop()

    async def hand_over(piece: bytes) -> None:
        process.stdin.write(piece)
        await process.stdin.drain()

    def read() -> None:
        with contextlib.suppress(OSError, RuntimeError, asyncssh.Error, CancelledError):
            while piece := os.read(0, _PIECE_BYTES):
                asyncio.run_coroutine_threadsafe(hand_over(piece), loop).result()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_end_input, process)

    threading.Thread(target=read, daemon=True).start()


def _end_input(process: asyncssh.SSHClientProcess[bytes]) -> None:
    with contextlib.suppress(OSError):
        process.stdin.write_eof()


async def _drain(source: asyncssh.SSHReader[bytes], descriptor: int) -> None:
    while piece := await source.read(_PIECE_BYTES):
        while piece:
            try:
                piece = piece[os.write(descriptor, piece) :]
            except BlockingIOError:  # somebody else made the shared stream non-blocking
                select.select([], [descriptor], [])


def _exit_code(process: asyncssh.SSHClientProcess[bytes]) -> int:
    """Return the command's code, or 128 + signal as a shell would."""
    if process.exit_signal is not None:
        return 128 + getattr(signal, f"SIG{process.exit_signal[0]}", signal.SIGKILL)
    if process.exit_status is None:
        raise ConnectionError("the connection was lost before the command ended")
    return process.exit_status
