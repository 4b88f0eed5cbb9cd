"""What a session of the built-in server is: its environment, its shell, its streams, its end.

It follows OpenSSH where mpirun can see it: a clean environment plus the worker's variables, the
account's shell with `-c`, and an end only when the command has ended and nobody holds its output.
It takes the variables of a client that our sshd would take, and the signals that have a name.
Where OpenSSH would leave a command running after its connection broke, the command's process group
is ended; a daemon that moved to a session of its own, as Open MPI's do, is not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import IO

import asyncssh

from mpi_agent.children import Child, Children
from mpi_agent.job.endings import signal_name
from mpi_agent.setting_words import LoginFiles
from mpi_agent.worker.refusals import NO_SHELL, NO_TERMINAL, ONLY_COMMANDS, no_subsystem
from mpi_agent.worker.session_script import arguments_of_shell
from mpi_agent.worker.sshd_config import SshdPlan

__all__ = ["Session", "SessionRunner", "session_environment"]

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_PIECE_BYTES = 65536
_STEP_GRACE_S = 2.0
_NOT_RUNNABLE = 126
_SFTP_VERSION = 3
"""For asyncssh, which wants one also where there is no sftp."""

_SIGNALS = {
    name: int(getattr(signal, f"SIG{name}"))
    for name in "ABRT ALRM FPE HUP ILL INT KILL PIPE QUIT SEGV TERM USR1 USR2".split()
}
"""Those that have a name in the protocol. Source: RFC 4254, 6.10."""


class Session(asyncssh.SSHServerProcess[bytes]):
    """One session that a client opened: a command, or nothing.

    Args:
        serve: runs the command.
        refuse: is told what was asked for in vain.
    """

    def __init__(
        self,
        serve: Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]],
        refuse: Callable[[str], None],
    ) -> None:
        super().__init__(serve, None, _SFTP_VERSION, allow_scp=False)
        self._refuse = refuse
        self.signal_command: Callable[[int], None] | None = None

    def shell_requested(self) -> bool:
        """Let the session start, so that it can say that there is no shell."""
        self._refuse(NO_SHELL)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Refuse file transfer and its kin."""
        self._refuse(no_subsystem(subsystem))
        return False

    def pty_requested(self, term_type: str, term_size: object, term_modes: object) -> bool:  # noqa: ARG002
        """Refuse a terminal; the command runs without one."""
        self._refuse(NO_TERMINAL)
        return False

    def signal_received(self, signal: str) -> None:
        """Pass a signal on at once, however much input is still on its way."""
        number = _SIGNALS.get(signal)
        if number is not None and self.signal_command is not None:
            self.signal_command(number)

    def break_received(self, msec: int) -> bool:  # noqa: ARG002
        """Refuse what only a terminal could act on."""
        return False

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass over what concerns a terminal."""


def session_environment(
    plan: SshdPlan,
    peer: tuple[str, int],
    own: tuple[str, int],
    accepted: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return what a command finds in its environment: as under sshd, the plan's variables last.

    Args:
        peer: address and port of the client.
        own: address and port that it dialled.
        accepted: what the client sent and the plan accepts.
    """
    environment = {
        "USER": plan.account,
        "LOGNAME": plan.account,
        "HOME": plan.home,
        "SHELL": plan.shell,
        "PATH": _DEFAULT_PATH,
        "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
        "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
        **(accepted or {}),
        **dict(plan.variables),
    }
    if plan.login_files is LoginFiles.READ:
        environment.pop("SHLVL", None)
    return environment


class SessionRunner:
    """Runs the command of one session after the other, each in a process group of its own."""

    def __init__(self, plan: SshdPlan, children: Children) -> None:
        self._plan = plan
        self._children = children

    async def run(self, process: Session) -> None:
        """Run what the client asked for and report how it ended; nothing when it is gone again."""
        if process.get_extra_info("peername") is None:
            return
        if process.command is None:
            _complain(process, ONLY_COMMANDS)
            process.exit(1)
            return
        try:
            child = self._start(process.command, process)
        except (OSError, ValueError) as error:
            _complain(process, f"cannot run the shell: {error}")
            process.exit(_NOT_RUNNABLE)
            return
        process.signal_command = child.signal_group
        await _attend(child, process)

    def _start(self, command: str, process: Session) -> Child:
        shell = self._plan.shell
        return self._children.start(
            (shell, *arguments_of_shell(shell, self._plan.login_files), "-c", command),
            env=session_environment(
                self._plan,
                process.get_extra_info("peername")[:2],
                process.get_extra_info("sockname")[:2],
                _accepted_of(process, self._plan.accepted_variables),
            ),
            cwd=self._directory(process),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _directory(self, process: Session) -> str:
        """Return where a command starts: the plan's directory, else at home; the client is told."""
        wanted, home = self._plan.working_directory, self._plan.home
        if wanted is not None and _can_be_entered(wanted):
            return wanted
        if wanted is not None:
            _complain(process, f'cannot change to "{wanted}"; the command runs at home')
        return home if _can_be_entered(home) else "/"


async def _attend(child: Child, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Carry the streams until the command is over or the connection is lost."""
    feeding = asyncio.create_task(_feed(process, child))
    over = asyncio.create_task(_until_over(process, child))
    lost = asyncio.create_task(process.wait_closed())
    try:
        await asyncio.wait({over, lost}, return_when=asyncio.FIRST_COMPLETED)
        if over.done() and over.exception() is None:
            _report(process, over.result())
        else:  # whatever it prints, nobody reads it
            await _end_group(child)
            process.close()
    finally:
        for task in (feeding, over, lost):
            task.cancel()
        await asyncio.gather(feeding, over, lost, return_exceptions=True)


async def _until_over(process: asyncssh.SSHServerProcess[bytes], child: Child) -> int:
    """Return how the command ended, once all it printed is on its way."""
    assert child.popen.stdout is not None
    assert child.popen.stderr is not None
    async with asyncio.TaskGroup() as group:  # which leaves no stream behind when one is broken
        group.create_task(_drain(child.popen.stdout, process.stdout))
        group.create_task(_drain(child.popen.stderr, process.stderr))
        ended = group.create_task(child.wait())
    return ended.result().returncode


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
        while piece := await process.stdin.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        transport.close()


def _complain(process: Session, text: str) -> None:
    """Tell the client what is wrong, if it is still there."""
    with contextlib.suppress(OSError):
        process.stderr.write(os.fsencode(f"mpi-agent: {text}\n"))


def _report(process: asyncssh.SSHServerProcess[bytes], code: int) -> None:
    """Tell the client the exit code or the signal."""
    name = signal_name(-code).removeprefix("SIG") if code < 0 else ""
    if name in _SIGNALS:
        process.exit_with_signal(name)
    else:
        process.exit(code if code >= 0 else 128 - code)


def _accepted_of(process: Session, names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables that are taken from a client; a line break or NUL is in none of ours."""
    sent = process.channel.get_environment_bytes()
    told = {name: os.fsdecode(sent[name.encode()]) for name in names if name.encode() in sent}
    return {name: value for name, value in told.items() if value.isprintable()}


async def _end_group(child: Child) -> None:
    """End a command whose client is gone: HUP, TERM, KILL, a grace period between them."""
    for signal_number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
        child.signal_group(signal_number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_GRACE_S):
                await child.wait()
                return


def _can_be_entered(directory: str) -> bool:
    return os.path.isdir(directory) and os.access(directory, os.X_OK)
