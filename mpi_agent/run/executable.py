"""The program as a file: is it there, and becoming it."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from mpi_agent.errors import LaunchError, MpirunNotFoundError, MpirunNotRunnableError

__all__ = ["become", "refuse_missing_program", "sha256_of", "start_error"]


def refuse_missing_program(word: str, path: str | None) -> None:
    """Refuse a program that is missing where every rank would run, on this very machine.

    Args:
        word: the program as the user wrote it.
        path: the value of PATH.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: it is missing or cannot be executed.
    """
    if shutil.which(word, path=path) is not None:
        return
    if Path(word).is_file():
        raise MpirunNotRunnableError(
            f'cannot run "{word}": it is not executable', hint="check its mode (chmod +x)"
        )
    raise MpirunNotFoundError(
        f'cannot run "{word}": there is no such program',
        hint="check its name and PATH; `./` in front of it means this directory",
    )


def sha256_of(path: Path) -> str:
    """Return the checksum of a program in hexadecimal, empty where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def start_error(executable: str, error: OSError) -> LaunchError:
    """Return the error for a program that the kernel would not start."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MpirunNotFoundError(
            f'cannot run "{executable}": there is no such program',
            hint="check the command behind `--`",
        )
    return MpirunNotRunnableError(
        f'cannot run "{executable}": {error.strerror}',
        hint="check that it is an executable file for this kind of machine",
    )


def become(executable: str, argv: tuple[str, ...], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program, which finds signals as any program does.

    Args:
        executable: a path, or a name that is looked up in the PATH of the environment.
        environ: the program's whole environment.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError: it cannot be started.
    Source: CPython ignores PIPE and XFSZ from its start, and what is ignored stays so after exec
    (signal(7)).
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(executable, argv, dict(environ))
    except OSError as error:
        raise start_error(executable, error) from error
