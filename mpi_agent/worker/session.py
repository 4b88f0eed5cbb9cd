"""What a session of the built-in server is: its environment, its shell, its streams, its end.

It follows OpenSSH where mpirun can see it: a clean environment plus the worker's variables, the
account's shell with `-c`, and an end only when the command has ended and nobody holds its output.
Where OpenSSH would leave a command running after its connection broke, the command's process group
is ended; a daemon that moved to a session of its own, as Open MPI's do, is not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import subprocess
from typing import IO, TYPE_CHECKING

from mpi_agent.children import Child, Children
from mpi_agent.container import Account
from mpi_agent.worker.sshd_config import SshdPlan

if TYPE_CHECKING:
    import asyncssh

__all__ = ["SessionRunner", "session_environment"]

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_NO_SHELLS = frozenset({"nologin", "false"})
_PIECE_BYTES = 65536
_STEP_GRACE_S = 2.0
_NOT_RUNNABLE = 126
_SIGNAL_NAMES = frozenset("ABRT ALRM FPE HUP ILL INT KILL PIPE QUIT SEGV TERM USR1 USR2".split())


def session_environment(
    plan: SshdPlan, account: Account, peer: tuple[str, int], own: tuple[str, int]
) -> dict[str, str]:
    """Return what a command finds in its environment: as under sshd, the plan's variables last.

    Args:
        peer: address and port of the client.
        own: address and port that it dialled.
    """
    return {
        "USER": account.name,
        "LOGNAME": account.name,
        "HOME": str(account.home or "/"),
        "SHELL": _shell_of(account),
        "PATH": _DEFAULT_PATH,
        "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
        "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
        **dict(plan.variables),
    }


class SessionRunner:
    """Runs the command of one session after the other, each in a process group of its own."""

    def __init__(self, plan: SshdPlan, account: Account, children: Children) -> None:
        self._plan = plan
        self._account = account
        self._children = children

    async def run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run what the client asked for and report how it ended."""
        if process.command is None or process.subsystem is not None:
            process.stderr.write(b"mpi-agent: this server runs commands, nothing else\n")
            process.exit(1)
            return
        try:
            child = self._start(process.command, process)
        except (OSError, ValueError) as error:
            process.stderr.write(f"mpi-agent: cannot run the shell: {error}\n".encode())
            process.exit(_NOT_RUNNABLE)
            return
        await _attend(child, process)

    def _start(self, command: str, process: asyncssh.SSHServerProcess[bytes]) -> Child:
        home = self._account.home
        shell = _shell_of(self._account)
        return self._children.start(
            (shell, "-c", command),
            env=session_environment(
                self._plan,
                self._account,
                process.get_extra_info("peername")[:2],
                process.get_extra_info("sockname")[:2],
            ),
            cwd=str(home) if home and os.access(home, os.X_OK) else "/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


async def _attend(child: Child, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Carry the streams until the command is over or the connection is lost."""
    feeding = asyncio.create_task(_feed(process, child))
    over = asyncio.create_task(_until_over(process, child))
    lost = asyncio.create_task(process.wait_closed())
    try:
        await asyncio.wait({over, lost}, return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            _report(process, over.result())
        else:
            await _end_group(child)
    finally:
        for task in (feeding, over, lost):
            task.cancel()
        await asyncio.gather(feeding, over, lost, return_exceptions=True)


async def _until_over(process: asyncssh.SSHServerProcess[bytes], child: Child) -> int:
    """Return how the command ended, once all it printed is on its way."""
    assert child.popen.stdout is not None
    assert child.popen.stderr is not None
    _, _, ended = await asyncio.gather(
        _drain(child.popen.stdout, process.stdout),
        _drain(child.popen.stderr, process.stderr),
        child.wait(),
    )
    return ended.returncode


async def _drain(pipe: IO[bytes], target: asyncssh.SSHWriter[bytes]) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while piece := await reader.read(_PIECE_BYTES):
            target.write(piece)
            await target.drain()
    finally:
        transport.close()


async def _feed(process: asyncssh.SSHServerProcess[bytes], child: Child) -> None:
    """Hand the client's input on; its end is the end of the command's input, not of the command."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, child.popen.stdin
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while piece := await _next_input(process, child):
            writer.write(piece)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        transport.close()


async def _next_input(process: asyncssh.SSHServerProcess[bytes], child: Child) -> bytes:
    """Return the next piece of input; signals that come in between are passed on."""
    import asyncssh

    while True:
        try:
            return await process.stdin.read(_PIECE_BYTES)
        except asyncssh.SignalReceived as received:
            number = getattr(signal, f"SIG{received.signal}", None)
            if number is not None:
                child.signal_group(number)
        except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
            continue


def _report(process: asyncssh.SSHServerProcess[bytes], code: int) -> None:
    """Tell the client the exit code or the signal."""
    name = signal.Signals(-code).name.removeprefix("SIG") if code < 0 else ""
    if name in _SIGNAL_NAMES:
        process.exit_with_signal(name)
    else:
        process.exit(code if code >= 0 else 128 - code)


async def _end_group(child: Child) -> None:
    """End a command whose client is gone: HUP, TERM, KILL, a grace period between them."""
    for signal_number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
        child.signal_group(signal_number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_GRACE_S):
                await child.wait()
                return


def _shell_of(account: Account) -> str:
    try:
        shell = pwd.getpwuid(account.uid).pw_shell
    except KeyError:
        shell = ""
    usable = os.access(shell, os.X_OK) and os.path.basename(shell) not in _NO_SHELLS
    return shell if usable else "/bin/sh"
