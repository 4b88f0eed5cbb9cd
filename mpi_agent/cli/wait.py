"""`mpi-agent wait`: wait for the workers and run nothing, for init containers and scripts."""

from __future__ import annotations

import asyncio
import os

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.command_settings import WaitSettings
from mpi_agent.errors import ReadinessError
from mpi_agent.explain.publish import telling_failures
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job_access import JobAccess
from mpi_agent.observe.status import render_report
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.signals import SignalInbox
from mpi_agent.setting_words import Form
from mpi_agent.waiter import Waiter

__all__ = ["command"]


@click.command(
    "wait",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: mpi-agent wait --timeout 5m --output json -- ./train",
)
@settings_options("wait")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Wait until the workers are ready, as launch does, and run nothing.

    PROGRAM, behind `--`, tells which MPI the workers must have, and must be linked with no other.
    Without one they must have the MPI that is installed here, if there is any.
    """
    settings = WaitSettings.from_given(call.given)
    try:
        with telling_failures(), call.listening(settings.http_port) as emit:
            access = JobAccess(settings.job, emit=emit)
            waiter = Waiter(settings.job, program, access, environ=os.environ, emit=emit)
            ready = asyncio.run(_wait(waiter, settings.min_workers))
    except ReadinessError as error:
        _answer(call, error.report, settings.output)
        raise
    _answer(call, ready.report, settings.output)


async def _wait(waiter: Waiter, enough: int | None) -> ReadyJob:
    with SignalInbox() as inbox:
        return await inbox.unless_stopped(waiter.wait(enough=enough), doing="waiting")


def _answer(call: Call, report: ReadinessReport, form: Form) -> None:
    if form is Form.JSON:
        call.say(render_report(report))
