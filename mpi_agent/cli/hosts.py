"""`mpi-agent hosts`: which hosts belong to the job."""

from __future__ import annotations

import asyncio
import os

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.command_settings import HostsSettings, JobSettings
from mpi_agent.job.hosts import Host, HostList
from mpi_agent.job_finder import Job, JobFinder
from mpi_agent.observe.json_text import JsonObject, render_json
from mpi_agent.setting_words import Form

__all__ = ["command", "find_job"]


@click.command("hosts", epilog="Example: mpi-agent hosts --output json")
@settings_options("hosts")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Print a line for each host of the job: name, slots, role; nobody is dialled.

    PROGRAM, behind `--`, may be an mpirun line, whose -H or --hostfile counts as in launch.
    """
    settings = HostsSettings.from_given(call.given)
    hosts = find_job(call, settings.job, program).hosts
    if settings.output is Form.JSON:
        call.say(render_json(_values(hosts), indent=2) + "\n")
    else:
        call.say("".join(_line(host) for host in hosts.hosts))


def find_job(call: Call, settings: JobSettings, program: tuple[str, ...]) -> Job:
    """Return the job, whose hosts are not asked; raises like `JobFinder.find`."""
    finder = JobFinder(settings, program, environ=os.environ, emit=call.log, search_path=())
    job = asyncio.run(finder.find())
    if job.slots_are_auto:
        call.note("hosts that only tell their slots when asked are shown with 1; nobody was asked")
    return job


def _line(host: Host) -> str:
    place = " local" if host.is_local else ""
    return f"{host.name} slots={host.slots} {host.role.value}{place}\n"


def _values(hosts: HostList) -> JsonObject:
    return {
        "source": hosts.source,
        "slots": hosts.total_slots,
        "hosts": [_host_values(host) for host in hosts.hosts],
    }


def _host_values(host: Host) -> JsonObject:
    return {
        "name": host.name,
        "slots": host.slots,
        "slots_from": host.slots_from.name.lower(),
        "role": host.role.value,
        "local": host.is_local,
    }
