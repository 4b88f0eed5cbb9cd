"""Readiness of a worker: the file that says it, and the probe that does not only believe the file.

A worker is ready when a login on its own port succeeded once, and a banner with its own name came
back since its ssh server was started.

The file may lie where others can write, so a probe believes only what this account or root wrote.
A worker holds a lock on its file for as long as it lives and is ready: the kernel frees it with the
process, so another worker can tell a file that was left behind from that of a worker which is slow.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_agent.errors import SettingsError
from mpi_agent.ssh.banner import NotSshError, read_banner
from mpi_agent.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpi_agent.job.events import EventSink
    from mpi_agent.job.worker_events import WorkerReady

__all__ = ["Readiness", "ReadyFile", "probe_readiness"]

_PROBE_LIMIT_S = 2.0
_FORMAT = 1
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_BYTES = 4096
_HIGHEST_PID = 2**22
"""Source: proc(5), /proc/sys/kernel/pid_max: at most 2^22 on 64-bit systems."""
_HIGHEST_PORT = 65535


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
        return cls(
            pid=_number(pid, "process id", _HIGHEST_PID),
            address=address,
            port=_number(port, "port", _HIGHEST_PORT),
            announcement=announcement,
        )


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
        self._lock: int | None = None

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
        if _is_locked(self._path) or probe_readiness(self._path) is None:
            raise SettingsError(
                "cannot start: another worker is ready and keeps its files at"
                f' "{self._path.parent}"',
                hint="one worker a container; a second one needs --state-dir of its own",
            )
        if not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise self._unwritable("its directory is missing or read-only")
        if _is_somebodys(self._path):
            raise self._unwritable("a file is there that no worker wrote")
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
        self._unlock()
        self._lock = _lock(self._path)
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
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _unwritable(self, why: str) -> SettingsError:
        return SettingsError(
            f'cannot write the ready file "{self._path}": {why}',
            hint="name a writable place with --ready-file",
        )


def _is_somebodys(path: Path) -> bool:
    """Return whether a plain file lies there that is no ready file, and not empty."""
    try:
        text = _read(path)
    except (OSError, ValueError):
        return False
    try:
        ReadyFile.parse(text)
    except ValueError:
        return bool(text.strip())
    return False


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
    except (OSError, ValueError, NotSshError) as error:  # ValueError: no address at all
        return f"no ssh banner on {told.address} port {told.port}: {error}"
    if not banner.endswith(told.announcement):
        return f"another ssh server answers on {told.address} port {told.port}: {banner}"
    return None


def _number(text: str, name: str, highest: int) -> int:
    """Return a number from 1 on.

    Raises:
        ValueError: it is none, or is higher than it can be.
    """
    if text.isascii() and text.isdigit() and 0 < int(text) <= highest:
        return int(text)
    raise ValueError(f"{text[:20]!r} is no {name}")


def _read(path: Path) -> str:
    """Return a ready file's text.

    Raises:
        OSError: it cannot be read, or is a symbolic link.
        ValueError: it is no plain file, or somebody else's.
    """
    with _opened(path) as descriptor:
        return os.read(descriptor, _LONGEST_BYTES).decode()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Provide a ready file for reading; what is not a plain file is not waited for.

    Raises:
        OSError: it cannot be opened, or is a symbolic link.
        ValueError: it is a directory, a pipe or a device, or belongs neither to us nor to root.
    """
    descriptor = os.open(path, _OPEN)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no plain file")
        if found.st_uid not in (0, os.getuid()):
            raise ValueError(f"it belongs to uid {found.st_uid}, not to uid {os.getuid()} or root")
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int | None:
    """Return a descriptor that holds a ready file; None where its file system knows no locks.

    Source: flock(2), Linux man-pages 6.03: held until the descriptor is closed.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, _OPEN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    return None


def _is_locked(path: Path) -> bool:
    """Return whether a worker that is alive holds a ready file."""
    try:
        with _opened(path) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ValueError):
        return False
    return False
