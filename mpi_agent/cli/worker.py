"""`mpi-agent worker`: serve ssh for the launcher."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.command_settings import WorkerSettings
from mpi_agent.worker.worker import Worker

__all__ = ["command"]


@click.command("worker", epilog="Example: mpi-agent worker --ssh-port 2222")
@settings_options("worker")
@click.argument("sshd_arguments", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, sshd_arguments: tuple[str, ...]) -> None:
    """Serve ssh for the launcher and say when it is ready.

    SSHD_ARGUMENTS, behind `--`, are what a manifest gives to sshd; only the port is taken from
    them.
    """
    settings = WorkerSettings.from_given(call.given)

    worker = Worker(settings, sshd_arguments, environ=os.environ, emit=call.log)
    sys.exit(asyncio.run(worker.run()))
