"""Tells the ending where Kubernetes looks for it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["write_termination_message"]

_TERMINATION_LOG = Path("/dev/termination-log")
_LIMIT_BYTES = 4096


def write_termination_message(text: str, *, path: Path = _TERMINATION_LOG) -> bool:
    """Write the message that `kubectl describe` shows; return whether there was a place for it.

    Source: Kubernetes documentation, "Determine the Reason for Pod Failure": the file is there
    when a kubelet runs the container, and at most 4,096 bytes of it are kept.
    """
    if not (path.exists() and os.access(path, os.W_OK)):
        return False
    message = text.encode()[:_LIMIT_BYTES].decode(errors="ignore")
    with contextlib.suppress(OSError):
        path.write_text(message + "\n")
        return True
    return False
