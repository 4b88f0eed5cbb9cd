"""Children of this process: started, waited for, reaped. The only caller of wait().

Streams are inherited, so what the program prints passes byte for byte and without delay. Each
child leads a session of its own: a terminal's Ctrl-C then reaches the agent alone, which passes it
on once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from mpi_agent.errors import MpirunNotFoundError, MpirunNotRunnableError
from mpi_agent.job.endings import ProcessExit

__all__ = ["Child", "Children"]

_LEFTOVER_GRACE_S = 2.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Child:
    """One running child."""

    def __init__(self, popen: subprocess.Popen[bytes], started_at_s: float) -> None:
        self._popen = popen
        self._started_at_s = started_at_s
        self._ended: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        """The child's process id, which is its session's too."""
        return self._popen.pid

    async def wait(self) -> ProcessExit:
        """Return how the child ended, once it has."""
        return await asyncio.shield(self._ended)

    def send(self, signal_number: int) -> None:
        """Send a signal to the child alone; nothing happens when it is gone."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    def take_status(self, status: int) -> None:
        """Note the wait status that the kernel told."""
        code = os.waitstatus_to_exitcode(status)
        self._popen.returncode = code
        if not self._ended.done():
            self._ended.set_result(
                ProcessExit(
                    pid=self.pid,
                    code=code if code >= 0 else None,
                    signal=-code if code < 0 else None,
                    started_at_s=self._started_at_s,
                    ended_at_s=time.monotonic(),
                )
            )


class Children:
    """Starts children and reaps them; `with` installs and removes its SIGCHLD handler.

    Attributes:
        adopts_orphans: also reap processes that are not ours but became our children, as PID 1
            must. Only while nobody else in this process waits for children of his own.
    """

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}
        self.adopts_orphans = False

    def __enter__(self) -> Children:
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def start(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        executable: str | None = None,
        output: Path | None = None,
    ) -> Child:
        """Return a child that was started; it gets TERM should this process die.

        Args:
            output: file for what it prints, None to inherit our streams.

        Raises:
            MpirunNotFoundError, MpirunNotRunnableError: it could not be.
        """
        try:
            popen = _start(argv, executable, env, output)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MpirunNotFoundError(
                f'cannot run "{executable or argv[0]}": there is no such program',
                hint="check the command behind `--`",
            ) from error
        except OSError as error:
            raise MpirunNotRunnableError(
                f'cannot run "{executable or argv[0]}": {error.strerror}',
                hint="check that it is an executable file of this machine's kind",
            ) from error
        child = Child(popen, time.monotonic())
        self._running[child.pid] = child
        return child

    async def end_session_of(self, child: Child) -> None:
        """End what a child that is gone left running in its session: TERM, then KILL."""
        deadline_s = time.monotonic() + _LEFTOVER_GRACE_S
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            leftovers = _session_members(child.pid)
            for pid in leftovers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            while leftovers and _session_members(child.pid) and time.monotonic() < deadline_s:
                await asyncio.sleep(0.02)

    def _reap(self) -> None:
        for pid in tuple(self._running):
            self._reap_one(pid)
        if self.adopts_orphans:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    def _reap_one(self, pid: int) -> None:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            found, status = pid, 0
        if found:
            self._running.pop(pid).take_status(status)


def _start(
    argv: tuple[str, ...], executable: str | None, env: Mapping[str, str], output: Path | None
) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(output.open("ab")) if output is not None else None
        return subprocess.Popen(
            argv,
            executable=executable,
            env=dict(env),
            stdin=subprocess.DEVNULL if stream else None,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    """Ask the kernel for a TERM when our parent is gone, even by KILL.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _session_members(session: int) -> list[int]:
    """Return live processes of a session; zombies do not count."""
    import psutil

    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error, PermissionError):
            is_member = process.pid != os.getpid() and os.getsid(process.pid) == session
            if is_member and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process.pid)
    return members
