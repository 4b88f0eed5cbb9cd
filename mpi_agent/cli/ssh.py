"""`mpi-agent ssh`: hidden; mpirun calls it where there is no OpenSSH."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from mpi_agent.cli.call import report_error
from mpi_agent.observe.log import Log
from mpi_agent.ssh.client import read_client_arguments, run_client

__all__ = ["command"]


@click.command(
    "ssh",
    hidden=True,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run a command on a host, with the arguments and the exit code of ssh."""
    try:
        code = asyncio.run(run_client(read_client_arguments(arguments)))
    except Exception as error:
        report_error(error, Log())
        code = 255
    sys.stdout.flush()
    os._exit(code)  # a thread may still be reading an input that never ends
