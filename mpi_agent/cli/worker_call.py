"""`mpi-agent worker-call`: hidden; asks the agent of this worker, as the launcher does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mpi_agent import worker_call
from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.given import Given
from mpi_agent.ssh.worker_protocol import SOCKET_NAME
from mpi_agent.state import state_directory_candidates

__all__ = ["command"]


@click.command("worker-call", hidden=True, epilog="Example: mpi-agent worker-call status")
@settings_options("worker-call")
@click.argument("verb", type=click.Choice(("status", "clean", "watch")))
@click.argument("line", required=False)
def command(call: Call, verb: str, line: str | None) -> None:
    """Ask the agent of the worker in this container.

    `status` prints what it knows, as JSON. `clean` and `watch` are the launcher's: they take LINE,
    or lines on stdin, and print lines of JSON.
    """
    words = [str(_socket(call.given)), verb]
    sys.exit(worker_call.main(words if line is None else [*words, line]))


def _socket(given: Given) -> Path:
    """Return the socket in the named directory, else the first where a worker may have it."""
    if (directory := given.text("state-dir")) is not None:
        return Path(directory) / SOCKET_NAME
    places = [path / SOCKET_NAME for path in state_directory_candidates(os.getuid())]
    # os.path: a directory of another account is none of ours, not an error
    return next((place for place in places if os.path.exists(place)), places[0])
