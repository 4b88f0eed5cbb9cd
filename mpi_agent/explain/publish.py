"""Tells the ending where Kubernetes looks for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mpi_agent.errors import MpiAgentError

__all__ = ["telling_failures", "write_termination_message"]

_TERMINATION_LOG = Path("/dev/termination-log")
_LIMIT_BYTES = 4096


@contextlib.contextmanager
def telling_failures() -> Iterator[None]:
    """Write the termination message of an agent that cannot do its part, and let the error pass."""
    try:
        yield
    except MpiAgentError as error:
        write_termination_message(f"mpi-agent: {error.summary}\nhint: {error.hint}")
        raise


def write_termination_message(text: str, *, path: Path = _TERMINATION_LOG) -> bool:
    """Write the message that `kubectl describe` shows; return whether there was a place for it.

    Source: Kubernetes documentation, "Determine the Reason for Pod Failure": the file is there
    when a kubelet runs the container, and at most 4,096 bytes of it are kept.
    """
    if not os.access(path, os.W_OK):
        return False
    message = text.encode()[:_LIMIT_BYTES].decode(errors="ignore")
    with contextlib.suppress(OSError):
        path.write_text(message + "\n")
        return True
    return False
