"""Tells the ending where Kubernetes looks for it, and where the next one looks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mpi_agent.errors import MpiAgentError, StateDirectoryError
from mpi_agent.explain.ending_message import (
    MESSAGE_LIMIT_BYTES,
    render_ending,
    render_ending_message,
    render_error_message,
)
from mpi_agent.job.endings import Ending
from mpi_agent.state import StateDirectory

__all__ = [
    "ENDING_FILE",
    "keep_ending",
    "tell_ending",
    "telling_failures",
    "write_termination_message",
]

ENDING_FILE = "ending.json"
_TERMINATION_LOG = Path("/dev/termination-log")


@contextlib.contextmanager
def telling_failures(*, path: Path = _TERMINATION_LOG) -> Iterator[None]:
    """Write the termination message of an agent that cannot do its part, and let the error pass."""
    try:
        yield
    except MpiAgentError as error:
        write_termination_message(render_error_message(error), path=path)
        raise


def tell_ending(ending: Ending, *, path: Path = _TERMINATION_LOG) -> bool:
    """Write the termination message of an ending; return whether there was a place for it."""
    return write_termination_message(render_ending_message(ending), path=path)


def keep_ending(ending: Ending, state: StateDirectory) -> str | None:
    """Write an ending, of any attempt, to the state directory; return why not, None when done.

    It replaces that of the attempt before.
    """
    try:
        state.write(ENDING_FILE, render_ending(ending) + "\n")
    except StateDirectoryError as error:
        return error.summary
    return None


def write_termination_message(text: str, *, path: Path = _TERMINATION_LOG) -> bool:
    """Write the message that `kubectl describe` shows; return whether there was a place for it.

    Source: Kubernetes documentation, "Determine the Reason for Pod Failure": the file is there
    when a kubelet runs the container, and at most 4,096 bytes of it are kept.
    """
    if not os.access(path, os.W_OK):
        return False
    message = text.encode("utf-8", "backslashreplace")[:MESSAGE_LIMIT_BYTES]
    with contextlib.suppress(OSError):
        path.write_bytes(message)
        return True
    return False
