"""Starts the notary's process, with nothing loaded for it here: the earlier it runs, the better."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import mpi_agent
from mpi_agent.container import own_python
from mpi_agent.errors import HostKeyError

__all__ = ["no_help", "start_notary"]

_WORDS = {
    "identity": "make the worker's identity",
    "certificate": "certify the worker's host key anew",
    "login": "try a login on the worker's own port",
}
"""What it is asked to do, by the verbs of `notary_words`, which is not loaded for this."""

_MODULE = "mpi_agent.worker.notary_child"
_PACKAGE_ROOT = str(Path(mpi_agent.__file__).parents[1])


def start_notary(environ: Mapping[str, str], *, verb: str = "identity") -> subprocess.Popen[bytes]:
    """Return the process, which loads what it needs and ends when its input does, or we do.

    It runs where our own package lies, in which nothing can be planted that a relative entry of
    PYTHONPATH leads to. Its session is its own, so that a terminal's Ctrl-C reaches the worker
    alone.

    Args:
        verb: of the question for which it is started, for messages.

    Raises:
        HostKeyError: it cannot be started.
    """
    try:
        return subprocess.Popen(
            (*own_python(), "-m", _MODULE),
            bufsize=0,
            env=dict(environ),
            cwd=_PACKAGE_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise no_help(verb, f"it cannot be started: {error.strerror}") from error


def no_help(verb: str, why: str) -> HostKeyError:
    """Return the error for a notary that fails at a question."""
    return HostKeyError(
        f"cannot {_WORDS[verb]}: the process that works with keys failed: {why}",
        hint="see the lines above; the container may lack memory or processes",
    )
