"""Writes the program through which a session on this worker speaks to the worker's agent.

It is three lines of sh in the state directory, with every path in it, so that it runs in whatever
directory and environment a session has. Each session finds its path in MPI_AGENT_WORKER_CALL. Where
the state directory is mounted noexec the file cannot be executed itself, so callers always say
`/bin/sh "$MPI_AGENT_WORKER_CALL" VERB`, which works in both cases and costs nothing more.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from mpi_agent.ssh.worker_protocol import SOCKET_NAME
from mpi_agent.state import StateDirectory

__all__ = ["write_call_program"]

_NAME = "worker-call"
_CARRIER = Path(__file__).parents[1] / "worker_call.py"


def write_call_program(state: StateDirectory) -> Path:
    """Return the absolute path of the program, once it is written with mode 0700.

    Raises:
        StateDirectoryError: it cannot be written.
    """
    words = (sys.executable, "-I", "-S", str(_CARRIER), str(state.file(SOCKET_NAME).absolute()))
    text = (
        "#!/bin/sh\n"
        "# mpi-agent's worker: a session's way to the worker's agent; see worker_call.py\n"
        f'exec {shlex.join(words)} "$@"\n'
    )
    return state.write(_NAME, os.fsencode(text), mode=0o700).absolute()
