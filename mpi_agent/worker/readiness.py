"""Readiness of a worker: the file that says it, and the probe that does not only believe the file.

A worker is ready when a login on its own port succeeded once, and a banner with its own name came
back since its ssh server was started.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_agent.errors import SettingsError
from mpi_agent.ssh.banner import NotSshError, read_banner
from mpi_agent.state import StateDirectory

if TYPE_CHECKING:
    from mpi_agent.job.events import EventSink
    from mpi_agent.job.worker_events import WorkerReady

__all__ = ["Readiness", "ReadyFile", "probe_readiness"]

_PROBE_LIMIT_S = 2.0
_FORMAT = 1
_LONGEST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFile:
    """What stands in the file: who is ready, where to ask, and what must be answered.

    Attributes:
        announcement: end of the banner by which the worker's own server is known.
    """

    pid: int
    address: str
    port: int
    announcement: str

    def render(self) -> str:
        """Return the file's text."""
        return f"{_FORMAT} {self.pid} {self.address} {self.port} {self.announcement}\n"

    @classmethod
    def parse(cls, text: str) -> ReadyFile:
        """Return what a file says.

        Raises:
            ValueError: it is not a file of ours.
        """
        version, pid, address, port, announcement = text.strip().split(" ", 4)
        if int(version) != _FORMAT:
            raise ValueError(f"format {version} is not known")
        return cls(pid=int(pid), address=address, port=int(port), announcement=announcement)


class Readiness:
    """Whether this worker is ready, told by a file and by events; `with` ends it.

    The file is written beside its place and renamed, so a symbolic link that somebody put there is
    replaced and never followed. Every reason is told once until the worker is ready again.

    Args:
        path: of the ready file.
    """

    def __init__(self, path: Path, emit: EventSink) -> None:
        self._path = path
        self._emit = emit
        self._why_not: str | None = "it is starting"
        self._told: set[str] = set()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether the worker lets the launcher in."""
        return self._why_not is None

    @property
    def why_not(self) -> str | None:
        """Why the worker is not ready; None when it is."""
        return self._why_not

    def claim(self) -> None:
        """Make the place of the file ours, before anything is started.

        Raises:
            SettingsError: a worker that is alive has it, or it cannot be written.
        """
        if os.path.lexists(self._path) and probe_readiness(self._path) is None:
            raise SettingsError(
                "cannot start: another worker is ready and keeps its files at"
                f' "{self._path.parent}"',
                hint="one worker a container; a second one needs --state-dir of its own",
            )
        if not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise self._unwritable("its directory is missing or read-only")
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(
                f"what lies there cannot be removed: {error.strerror}"
            ) from error

    def announce(self, told: ReadyFile, event: WorkerReady) -> None:
        """Say that the worker is ready.

        Raises:
            StateDirectoryError: the file cannot be written; then the worker is not ready.
        """
        if self._is_closed:
            return
        StateDirectory(self._path.parent).write(self._path.name, told.render(), mode=0o644)
        self._why_not = None
        self._told.clear()
        self._emit(event)

    def withdraw(self, why: str) -> None:
        """Say that the worker is not ready, or not any more, and why."""
        from mpi_agent.job.worker_events import WorkerNotReady

        self._remove()
        if self._is_closed:
            return
        self._why_not = why
        if why not in self._told:
            self._told.add(why)
            self._emit(WorkerNotReady(why=why))

    def close(self, why: str) -> None:
        """Be not ready for good, whatever the server says from now on; whoever calls tells why."""
        self._is_closed, self._why_not = True, why
        self._remove()

    def __enter__(self) -> Readiness:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _unwritable(self, why: str) -> SettingsError:
        return SettingsError(
            f'cannot write the ready file "{self._path}": {why}',
            hint="name a writable place with --ready-file",
        )


def probe_readiness(path: Path) -> str | None:
    """Return why the worker is not ready, None when it is; takes at most a few seconds."""
    try:
        told = ReadyFile.parse(_read(path))
    except OSError as error:
        return f'no ready file "{path}": {error.strerror}'
    except ValueError as error:
        return f'"{path}" is not a ready file of a worker: {error}'
    with contextlib.suppress(PermissionError):
        try:
            os.kill(told.pid, 0)
        except ProcessLookupError:
            return f"the worker, pid {told.pid}, is gone"
    try:
        banner = read_banner(told.address, told.port, timeout_s=_PROBE_LIMIT_S)
    except (OSError, NotSshError) as error:
        return f"no ssh banner on {told.address} port {told.port}: {error}"
    if not banner.endswith(told.announcement):
        return f"another ssh server answers on {told.address} port {told.port}: {banner}"
    return None


def _read(path: Path) -> str:
    """Return a ready file's text; what is not a plain file is not waited for.

    Raises:
        OSError: it cannot be read, or is a symbolic link.
        ValueError: it is a directory, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no plain file")
        return os.read(descriptor, _LONGEST_BYTES).decode()
    finally:
        os.close(descriptor)
