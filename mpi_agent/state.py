"""The private directory in which an agent keeps its files: ours alone, never behind a symlink.

It has the same path on launcher and workers where the containers allow it, because Open MPI's
tree spawn hands the path of the ssh configuration on to the workers.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from mpi_agent.errors import StateDirectoryError

__all__ = ["StateDirectory", "open_state_directory", "state_directory_candidates"]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateDirectory:
    """One private directory; files are written beside their place and renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Return the path of a file in the directory."""
        return self.path / name

    def write(self, name: str, content: str | bytes, *, mode: int = 0o600) -> Path:
        """Write a file with its mode from the start, replacing an older one at once.

        Raises:
            StateDirectoryError: it cannot be written.
        """
        try:
            return self._replace(
                name, content.encode() if isinstance(content, str) else content, mode
            )
        except OSError as error:
            raise StateDirectoryError(
                f'cannot write "{self.file(name)}": {error.strerror}',
                hint="name a writable directory with --state-dir",
            ) from error

    def _replace(self, name: str, content: bytes, mode: int) -> Path:
        """Write beside the file and rename; what lies at either place is never written through.

        The name beside it cannot be foreseen: in a directory that is shared, as that of a ready
        file may be, somebody could plant a file there that is not ours to remove.
        """
        target = self.file(name)
        beside = self.file(f".{name}.{os.urandom(8).hex()}")
        descriptor = os.open(beside, _NEW_FILE, mode)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(content)
            os.replace(beside, target)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        return target


def state_directory_candidates(uid: int) -> tuple[Path, ...]:
    """Return the places that are tried in turn when the user names none."""
    return (
        Path("/run/mpi-agent"),
        Path(f"/tmp/mpi-agent-{uid}"),
        Path(f"/dev/shm/mpi-agent-{uid}"),
    )


def open_state_directory(wanted: str | None) -> StateDirectory:
    """Return the private directory, made if it does not exist yet.

    One that is there and that others may look into is closed to them (0700), as it would have been
    made, if nobody else can miss it: when nothing is in it yet, or when it is one of the places
    that we choose ourselves. One that the user named and that holds something keeps its mode, for
    it may be his home or a directory that he shares; what we keep in it is closed file by file.

    Raises:
        StateDirectoryError: the wanted one cannot be used, or none of the candidates can.
    """
    if wanted and not wanted.isprintable():
        raise StateDirectoryError(
            f"cannot keep private files in {wanted!r}: no ssh_config can carry that name",
            hint="name a directory of printable characters with --state-dir",
        )
    paths = (Path(os.path.abspath(wanted)),) if wanted else state_directory_candidates(os.getuid())
    refusals = []
    for path in paths:
        refusal = _prepare(path, is_our_choice=wanted is None)
        if refusal is None:
            return StateDirectory(path)
        refusals.append(f"{path}: {refusal}")
    raise StateDirectoryError(
        f"cannot keep private files in {' or '.join(str(p) for p in paths)}: {refusals[-1]}",
        hint="mount an emptyDir at /tmp, or name a writable directory with --state-dir",
        evidence=tuple(refusals),
    )


def _prepare(path: Path, *, is_our_choice: bool) -> str | None:
    """Make the directory ours; return why it cannot be, or None."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except FileExistsError:
        return "exists and is not a directory"
    except OSError as error:
        return error.strerror or str(error)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        return "is a symbolic link or not a directory"
    if found.st_uid != os.getuid():
        return f"belongs to uid {found.st_uid}, not to uid {os.getuid()}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"is open to others (mode {stat.S_IMODE(found.st_mode):04o}); name one below it"
    if not os.access(path, os.W_OK | os.X_OK):
        return "not writable"
    if found.st_mode & _FOR_OTHERS:
        _close_to_others(path, only_if_empty=not is_our_choice)
    return None


def _close_to_others(path: Path, *, only_if_empty: bool) -> None:
    """Take the rights of group and others away, as far as the file system lets us."""
    with contextlib.suppress(OSError):
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not (only_if_empty and os.listdir(directory)):
                os.fchmod(directory, stat.S_IMODE(os.fstat(directory).st_mode) & ~_FOR_OTHERS)
        finally:
            os.close(directory)
