"""Children that live on: started, reaped, swept. Both sides use it.

The agent is a subreaper: whatever its children leave behind becomes its own child, as it would
become the child of PID 1, which the agent often is. So "what the job left here" is simply what
descends from us, and no zombie stays. Each child leads a session of its own: a terminal's Ctrl-C
then reaches the agent alone, which passes it on once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import functools
import os
import signal
import subprocess
import termios
import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import IO

from mpi_agent.job.endings import ProcessExit
from mpi_agent.process_signals import is_sent
from mpi_agent.process_table import ProcessStat, every_stat

__all__ = ["Child", "Children"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
_SWEEP_INTERVAL_S = 0.02
_KILL_LIMIT_S = 5.0


class Child:
    """One running child, leader of a session of its own."""

    def __init__(self, popen: subprocess.Popen[bytes], started_at_s: float) -> None:
        self.popen = popen
        self._started_at_s = started_at_s
        self._ended: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        """The child's process id, which is its session's and its group's too."""
        return self.popen.pid

    async def wait(self) -> ProcessExit:
        """Return how the child ended, once it has."""
        return await asyncio.shield(self._ended)

    def signal(self, signal_number: int) -> None:
        """Send a signal to the child alone; nothing happens when it is gone, or is not ours."""
        if not self._ended.done():
            is_sent(os.kill, self.pid, signal_number)

    def signal_group(self, signal_number: int) -> None:
        """Send a signal to those of the child's process group that are there and ours."""
        is_sent(os.killpg, self.pid, signal_number)

    def take_status(self, status: int) -> None:
        """Note the wait status that the kernel told."""
        returncode = os.waitstatus_to_exitcode(status)
        self.popen.returncode = returncode
        if not self._ended.done():
            self._ended.set_result(
                ProcessExit(
                    pid=self.pid,
                    code=returncode if returncode >= 0 else None,
                    signal=-returncode if returncode < 0 else None,
                    started_at_s=self._started_at_s,
                    ended_at_s=time.monotonic(),
                )
            )


class Children:
    """Starts children and reaps all; `with` makes this process a subreaper for that time."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}
        self._adopts_orphans = False

    def __enter__(self) -> Children:
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

    @property
    def running(self) -> tuple[Child, ...]:
        """Children that were started here and have not ended."""
        return tuple(self._running.values())

    def adopt_orphans(self, *, adopt: bool = True) -> None:
        """Reap also what others left to us; only while no thread here waits for its own child."""
        self._reap()  # what ended by now is reaped on the terms of until now
        self._adopts_orphans = adopt
        self._reap()

    def start(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        executable: str | None = None,
        cwd: str | None = None,
        stdin: int | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        controlling: int | None = None,
    ) -> Child:
        """Return a child that was started; it gets TERM should this process die.

        Streams are inherited unless they are given.

        Args:
            controlling: the child's stream (0, 1 or 2) that is its controlling terminal.

        Raises:
            OSError: it could not be started.
        """
        popen = subprocess.Popen(
            argv,
            bufsize=0,
            executable=executable,
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=functools.partial(_begin, controlling),
        )
        child = Child(popen, time.monotonic())
        self._running[child.pid] = child
        return child

    async def sweep(self, grace_s: float, *, spare: Collection[Child] = ()) -> int:
        """End everything that descends from us: TERM, then KILL; return how many were killed.

        What we may not signal is waited for and not counted: it may go when others do.

        Args:
            spare: children that stay, with all that descends from them.
        """
        spared = frozenset(child.pid for child in spare)
        _signal_all(_descendants(spared), signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while _descendants(spared) and time.monotonic() < deadline_s:
            await asyncio.sleep(_SWEEP_INTERVAL_S)
        killed: set[int] = set()
        deadline_s = time.monotonic() + _KILL_LIMIT_S
        while (left := _descendants(spared)) and time.monotonic() < deadline_s:
            killed |= _signal_all(left, signal.SIGKILL)
            await asyncio.sleep(_SWEEP_INTERVAL_S)
        return len(killed.difference(left))

    def _reap(self) -> None:
        for pid in tuple(self._running):
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    self._running.pop(pid).take_status(status)
        if self._adopts_orphans:
            with contextlib.suppress(ChildProcessError):
                while (found_and_status := os.waitpid(-1, os.WNOHANG))[0]:
                    found, status = found_and_status
                    if child := self._running.pop(found, None):
                        child.take_status(status)


def _begin(controlling: int | None) -> None:
    """Ask the kernel for a TERM when our parent is gone, even by KILL; take the terminal.

    Source: prctl(2), PR_SET_PDEATHSIG; ioctl_tty(2), TIOCSCTTY: of a session leader without one.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if controlling is not None:
        fcntl.ioctl(controlling, termios.TIOCSCTTY, 0)


def _descendants(spared: frozenset[int]) -> list[int]:
    """Return live processes below this one; zombies do not count, what is below them does."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in every_stat():
        children.setdefault(stat.parent, []).append(stat)
    waiting = [stat for stat in children.get(os.getpid(), ()) if stat.pid not in spared]
    for stat in waiting:  # which grows until the last leaf was looked at
        waiting += children.get(stat.pid, ())
    return [stat.pid for stat in waiting if not stat.is_zombie]


def _signal_all(pids: list[int], signal_number: int) -> set[int]:
    """Send each a signal; return those that got it."""
    return {pid for pid in pids if is_sent(os.kill, pid, signal_number)}
