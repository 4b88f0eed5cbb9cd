"""`mpi-agent local`: a whole job on this machine."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from mpi_agent.children import Children
from mpi_agent.cli.call import Call, ignore_late_signals
from mpi_agent.cli.options import settings_options
from mpi_agent.command_settings import LocalSettings
from mpi_agent.local.cluster import LocalCluster
from mpi_agent.run.signals import SignalInbox

__all__ = ["command"]


@click.command(
    "local",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: mpi-agent local --workers 2 --slots 2 -- python pi.py",
)
@settings_options("local")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Start workers on this machine, run PROGRAM on them over real ssh, clean up.

    Needs no root and no sshd: where OpenSSH is missing, the built-in server and client stand in.
    """
    settings = LocalSettings.from_given(call.given)
    with call.listening(None) as emit:
        cluster = LocalCluster(settings, program, environ=os.environ, emit=emit)
        code = asyncio.run(_run(cluster))
        ignore_late_signals()
    sys.exit(code)


async def _run(cluster: LocalCluster) -> int:
    with SignalInbox() as inbox, Children() as children:
        return await cluster.run(children, inbox)
