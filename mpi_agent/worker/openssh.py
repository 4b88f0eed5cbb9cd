"""OpenSSH's sshd as the worker's server: found, checked with `sshd -t`, run, listened to.

Its log is read as long as anybody writes to it. The sessions of an sshd that died go on and hold
the pipe: were it closed, or only not read, they would end or hang at their next word.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mpi_agent.children import Child, Children
from mpi_agent.container import real_program
from mpi_agent.errors import SshdConfigError
from mpi_agent.job.endings import signal_name
from mpi_agent.job.events import EventSink
from mpi_agent.job.worker_events import SshServerSpoke
from mpi_agent.state import StateDirectory
from mpi_agent.worker.sshd_config import SshdPlan, render_sshd_config
from mpi_agent.worker.sshd_log import SshdLog

__all__ = ["OpenSshServer", "SshdHeritage", "find_sshd", "parents_are_private"]

_SSHD_PLACES = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")
_CHECK_LIMIT_S = 20.0
_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")
_LAST_WORDS_S = 0.2


@dataclass(slots=True)
class SshdHeritage:
    """What one sshd leaves to the next.

    Attributes:
        listeners: read the logs of those that died, to which their sessions still write. The event
            loop knows tasks by weak references alone, so somebody has to hold them.
        accepted_text: the configuration that `sshd -t` found good, which is not asked again.
    """

    listeners: set[asyncio.Task[None]] = field(default_factory=set)
    accepted_text: str | None = None


class OpenSshServer:
    """One sshd process in the foreground.

    Args:
        emit: is told what sshd says; nothing is printed here.
        heritage: of those before it; None for the first and only one.
    """

    def __init__(
        self,
        sshd: str,
        plan: SshdPlan,
        state: StateDirectory,
        children: Children,
        *,
        emit: EventSink,
        heritage: SshdHeritage | None = None,
    ) -> None:
        self._sshd = sshd
        self._plan = plan
        self._state = state
        self._children = children
        self._child: Child | None = None
        self._emit = emit
        self._heritage = heritage or SshdHeritage()
        self._log = SshdLog(plan.account)
        self._last_words = ""
        self._listener: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Write the configuration, have sshd check it, start sshd.

        Raises:
            SshdConfigError: sshd refuses its configuration or cannot be run.
        """
        text = render_sshd_config(self._plan, version=sshd_version(self._sshd))
        config = str(self._state.write("sshd_config", os.fsencode(text)))
        if text != self._heritage.accepted_text:
            _check_config(self._sshd, config)
            self._heritage.accepted_text = text
        try:
            self._child = self._children.start(
                (self._sshd, "-D", "-e", "-f", config),
                env={**_environment(), **dict(self._plan.server_environment)},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise _cannot_run(self._sshd, error) from error
        self._listener = asyncio.create_task(self._listen(self._child))
        self._heritage.listeners.add(self._listener)
        self._listener.add_done_callback(self._heritage.listeners.discard)

    async def wait(self) -> str:
        """Return how sshd ended and the last it said."""
        assert self._child is not None
        code = (await self._child.wait()).returncode
        if code >= 0:  # who was killed has said nothing about it
            await self._hear_last_words()
        how = f"with code {code}" if code >= 0 else f"by {signal_name(-code)}"
        return f"sshd ended {how}" + (f": {self._last_words}" if self._last_words else "")

    def stop_listening(self) -> None:
        """End the listener; sshd's sessions are processes of their own."""
        if self._child is not None:
            self._child.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End a listener that does not even listen to TERM, as one that was stopped."""
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    def reload_identity(self) -> None:
        """Have the listener read its files again; it keeps its process id."""
        if self._child is not None:
            self._child.signal(signal.SIGHUP)

    async def stop(self, grace_s: float) -> int:
        """Stop sshd and its sessions; return how many processes had to be killed."""
        if self._child is not None:
            self._child.signal(signal.SIGTERM)
        killed = await self._children.sweep(grace_s)
        if listeners := self._heritage.listeners.copy():
            await asyncio.wait(listeners, timeout=_LAST_WORDS_S)
        for listener in listeners:
            listener.cancel()
        return killed

    async def _hear_last_words(self) -> None:
        """Give sshd's last words a moment to come through; sessions may hold the pipe open."""
        if self._listener is not None:
            await asyncio.wait({self._listener}, timeout=_LAST_WORDS_S)

    async def _listen(self, child: Child) -> None:
        """Tell what sshd says until nobody can say anything any more."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: protocol, child.popen.stderr
        )
        try:
            while True:
                try:
                    raw = await reader.readline()
                except ValueError:  # longer than any line of sshd's
                    continue
                if not raw:
                    break
                self._hear(raw.decode(errors="replace").rstrip())
        finally:
            transport.close()

    def _hear(self, line: str) -> None:
        event = self._log.read(line) if line else None
        if event is not None:
            self._emit(event)
        if isinstance(event, SshServerSpoke):
            self._last_words = event.line


def find_sshd() -> str | None:
    """Return the absolute path of the image's real sshd, None without one."""
    found = shutil.which("sshd")
    for path in (*([found] if found else []), *_SSHD_PLACES):
        sshd = real_program(Path(path).absolute())
        if os.access(sshd, os.X_OK):
            return str(sshd)
    return None


def parents_are_private(path: Path) -> bool:
    """Return whether sshd's StrictModes would accept the directories above a file of ours.

    Source: OpenSSH 9.2, misc.c, safe_path(): each must belong to root or the account, and be
    writable for neither group nor others; the sticky bit is not considered.
    """
    stats = (parent.stat() for parent in path.resolve().parents)
    return all(not s.st_mode & 0o022 and s.st_uid in (0, os.getuid()) for s in stats)


@functools.cache
def sshd_version(sshd: str) -> tuple[int, int]:
    """Return (major, minor); an sshd too old to tell (before 9.2, no -V) counts as (0, 0)."""
    child = _run(sshd, "-V")
    match = _VERSION.search(child.stderr.decode(errors="replace"))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _check_config(sshd: str, config: str) -> None:
    child = _run(sshd, "-t", "-f", config)
    if child.returncode == 0:
        return
    words = tuple(child.stderr.decode(errors="replace").splitlines())
    raise SshdConfigError(
        f'cannot run sshd with "{config}": {words[-1] if words else "it is refused"}',
        hint="`mpi-agent worker --sshd builtin` needs no sshd",
        evidence=words,
    )


def _run(sshd: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run sshd to its end; it must be called by its absolute path, as it says itself."""
    try:
        return subprocess.run(
            [sshd, *arguments],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _cannot_run(sshd, error) from error


def _cannot_run(sshd: str, error: Exception) -> SshdConfigError:
    return SshdConfigError(
        f'cannot run "{sshd}": {error}', hint="`mpi-agent worker --sshd builtin` needs no sshd"
    )


def _environment() -> Mapping[str, str]:
    return {**os.environ, "MPI_AGENT_SHIM": "off"}
