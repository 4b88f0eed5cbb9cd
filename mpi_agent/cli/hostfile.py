"""`mpi-agent hostfile`: the job's hosts in the words of an MPI's launcher."""

from __future__ import annotations

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.hosts import find_job
from mpi_agent.cli.options import settings_options
from mpi_agent.command.hostfile import HostfileForm, hostfile_form_of, render_hostfile
from mpi_agent.command_settings import HostfileSettings
from mpi_agent.errors import MpirunNotFoundError
from mpi_agent.job_finder import Job
from mpi_agent.setting_words import HostfileDialect

__all__ = ["command"]

_FORM_OF = {
    HostfileDialect.OPEN_MPI: HostfileForm.SLOTS,
    HostfileDialect.MPICH: HostfileForm.COLON,
    HostfileDialect.INTEL_MPI: HostfileForm.COLON,
}


@click.command("hostfile", epilog="Example: mpi-agent hostfile --dialect openmpi >hostfile")
@settings_options("hostfile")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Print the hostfile that launch would write; nobody is dialled.

    PROGRAM, behind `--`, may be an mpirun line, whose -H or --hostfile counts as in launch.
    """
    settings = HostfileSettings.from_given(call.given)
    job = find_job(call, settings.job, program)
    call.say(render_hostfile(job.hosts, _form(job, settings.dialect)))


def _form(job: Job, dialect: HostfileDialect) -> HostfileForm:
    if dialect is not HostfileDialect.AUTO:
        return _FORM_OF[dialect]
    if job.stack is None:
        raise MpirunNotFoundError(
            "cannot tell the form of the hostfile: no MPI is installed here",
            hint="name its MPI with --dialect openmpi, mpich or intel",
        )
    return hostfile_form_of(job.stack.implementation)
