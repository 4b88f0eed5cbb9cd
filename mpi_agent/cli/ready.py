"""`mpi-agent ready`: the exec probe of a worker's container."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.given import Given
from mpi_agent.state import state_directory_candidates
from mpi_agent.worker.readiness import probe_readiness

__all__ = ["command"]


@click.command("ready", epilog="Example: mpi-agent ready && echo yes")
@settings_options("ready")
def command(call: Call) -> None:
    """Exit 0 when the worker in this container is ready, 1 with the reason when it is not."""
    refusal = probe_readiness(_ready_file(call.given))
    if refusal is not None:
        click.echo(f"mpi-agent: not ready: {refusal}", err=True)
        sys.exit(1)


def _ready_file(given: Given) -> Path:
    """Return the file that was named, else the first that exists where a worker may keep it."""
    if (named := given.text("ready-file")) is not None:
        return Path(named)
    if (directory := given.text("state-dir")) is not None:
        return Path(directory) / "ready"
    places = [directory / "ready" for directory in state_directory_candidates(os.getuid())]
    return next((place for place in places if place.exists()), places[0])
