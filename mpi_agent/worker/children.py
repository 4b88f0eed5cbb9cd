"""Children of a worker: started, reaped, swept. The only caller of wait() in a worker.

The worker is a subreaper: whatever its sessions leave behind becomes its child, as it would become
the child of PID 1, which the worker often is. So "what the job left here" is simply what descends
from us, and no zombie stays.
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
from types import TracebackType

__all__ = ["WorkerChild", "WorkerChildren"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
_SWEEP_INTERVAL_S = 0.02
_KILL_LIMIT_S = 5.0


class WorkerChild:
    """One running child, leader of a session of its own."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        """Return the exit code, or minus the signal that ended the child."""
        return await asyncio.shield(self._ended)

    def signal(self, signal_number: int) -> None:
        """Send a signal to the child alone; nothing happens when it is gone."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.popen.pid, signal_number)

    def signal_group(self, signal_number: int) -> None:
        """Send a signal to the child's process group; nothing happens when all are gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal_number)

    def take_status(self, status: int) -> None:
        """Note the wait status that the kernel told."""
        self.popen.returncode = os.waitstatus_to_exitcode(status)
        if not self._ended.done():
            self._ended.set_result(self.popen.returncode)


class WorkerChildren:
    """Starts children and reaps all; `with` makes this process a subreaper for that time."""

    def __init__(self) -> None:
        self._running: dict[int, WorkerChild] = {}

    def __enter__(self) -> WorkerChildren:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def start(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> WorkerChild:
        """Return a child that was started; it gets TERM should the worker die.

        Raises:
            OSError: it could not be started.
        """
        popen = subprocess.Popen(
            argv,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        child = WorkerChild(popen)
        self._running[popen.pid] = child
        return child

    async def sweep(self, grace_s: float) -> int:
        """End everything that descends from us: TERM, then KILL; return how many were killed."""
        first, killed = _descendants(), 0
        _signal_all(first, signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while _descendants() and time.monotonic() < deadline_s:
            await asyncio.sleep(_SWEEP_INTERVAL_S)
        deadline_s = time.monotonic() + _KILL_LIMIT_S
        while (left := _descendants()) and time.monotonic() < deadline_s:
            killed = max(killed, len(left))
            _signal_all(left, signal.SIGKILL)
            await asyncio.sleep(_SWEEP_INTERVAL_S)
        return killed

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                if child := self._running.pop(pid, None):
                    child.take_status(status)


def _die_with_parent() -> None:
    """Ask the kernel for a TERM when our parent is gone, even by KILL.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _descendants() -> list[int]:
    """Return live processes below this one; zombies do not count."""
    import psutil

    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _signal_all(pids: list[int], signal_number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_number)
