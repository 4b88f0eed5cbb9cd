"""`mpi-agent worker`: serve ssh for the launcher."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.worker.notary_start import start_notary
from mpi_agent.worker.stop_signals import StopSignals
from mpi_agent.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from mpi_agent.job.events import EventSink

__all__ = ["command"]


@click.command("worker", epilog="Example: mpi-agent worker --ssh-port 2222")
@settings_options("worker")
@click.argument("sshd_arguments", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, sshd_arguments: tuple[str, ...]) -> None:
    """Serve ssh for the launcher and say when it is ready.

    SSHD_ARGUMENTS, behind `--`, are what a manifest gives to sshd; what contradicts the agent's own
    configuration is named and not used.
    """
    settings = WorkerSettings.from_given(call.given)
    stop = StopSignals()
    notary = start_notary(os.environ)  # it loads its part while the worker loads its own

    import asyncio

    from mpi_agent.observe.fan_out import FanOut
    from mpi_agent.observe.patient_log import PatientLog
    from mpi_agent.observe.usage import Recently, usage_here
    from mpi_agent.observe.worker_pages import serving_worker_pages
    from mpi_agent.observe.worker_status import Role, WorkerStatus
    from mpi_agent.worker.worker import Worker

    status = WorkerStatus(
        role=Role.WORKER,
        name=settings.worker_name or socket.gethostname(),
        now_s=time.monotonic,
        look=Recently(usage_here, now_s=time.monotonic),
    )

    async def run(log: EventSink) -> int:
        worker = Worker(
            settings,
            sshd_arguments,
            environ=os.environ,
            emit=FanOut(log, status),
            status=status.render,
            stop=stop,
            notary_process=notary,
        )
        async with serving_worker_pages(status, settings.http_port):
            return await worker.run()

    with PatientLog(call.log) as log:  # a reader who stalls must not stall ssh
        code = asyncio.run(run(log))
    sys.exit(code)
