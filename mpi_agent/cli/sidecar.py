"""`mpi-agent sidecar`: tell of an ssh server and ranks that somebody else started next door."""

from __future__ import annotations

import asyncio
import sys

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.sidecar import Sidecar
from mpi_agent.worker_settings import SidecarSettings

__all__ = ["command"]


@click.command("sidecar", epilog="Example: mpi-agent sidecar --ssh-port 2222 --http-port 9390")
@settings_options("sidecar")
def command(call: Call) -> None:
    """Serve readiness, health, status and metrics of the sshd and the ranks next door.

    For a worker whose image may not be touched: it needs the pod's network, and for the ranks
    the pod's PID namespace (shareProcessNamespace: true).
    """
    settings = SidecarSettings.from_given(call.given)

    sys.exit(asyncio.run(Sidecar(settings, log=call.log).run()))
