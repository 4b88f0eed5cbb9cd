"""The directories of a job on this machine: where they may be, and that none is left for ever."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mpi_agent.errors import StateDirectoryError

__all__ = ["temporary_directory", "usable"]


def usable(parent: str, *, otherwise: str | None = None) -> str:
    """Return a directory in which we may make one of our own.

    Raises:
        StateDirectoryError: we may not, and there is nothing to fall back to.
    """
    if Path(parent).is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return parent
    if otherwise is not None:
        return usable(otherwise)
    raise StateDirectoryError(
        f'cannot keep the job\'s files in "{parent}": it is no directory that can be written to',
        hint="name another one with --state-dir",
    )


def _own_prefix() -> str:
    """Return a prefix that only runs in our pid namespace have: a pid means nothing elsewhere."""
    return f"mpi-agent-local-{Path('/proc/self/ns/pid').stat().st_ino}-"


def _remove_leftovers(parent: str) -> None:
    """Remove what an earlier run of ours left because it was killed: its pid is gone."""
    for left in Path(parent).glob(f"{_own_prefix()}[0-9]*-*"):
        pid = left.name.removeprefix(_own_prefix()).split("-")[0]
        with contextlib.suppress(OSError):
            if left.stat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def temporary_directory(parent: str) -> Iterator[Path]:
    """Provide a directory with a short path: sockets below it may have 108 bytes."""
    _remove_leftovers(parent)
    try:
        root = Path(tempfile.mkdtemp(prefix=f"{_own_prefix()}{os.getpid()}-", dir=parent))
    except OSError as error:
        raise StateDirectoryError(
            f'cannot keep the job\'s files in "{parent}": {error.strerror}',
            hint="name a writable directory with --state-dir",
        ) from error
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
