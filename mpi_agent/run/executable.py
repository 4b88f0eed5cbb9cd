"""The program as a file: is it there, and becoming it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

from mpi_agent.errors import MpirunNotFoundError, MpirunNotRunnableError

__all__ = ["become", "refuse_missing_program"]


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


def become(executable: str, argv: tuple[str, ...]) -> NoReturn:
    """Replace this process by a program."""
    os.execv(executable, argv)
