"""`mpi-agent plan`: what launch would run, and why."""

from __future__ import annotations

import asyncio
import io
import os
import sys

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.script import render_script
from mpi_agent.command.show import plan_values, render_environment, render_plan
from mpi_agent.command_settings import PlanSettings
from mpi_agent.launcher import Launcher
from mpi_agent.observe.json_text import render_json
from mpi_agent.setting_words import PlanForm

__all__ = ["command"]


@click.command(
    "plan",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: mpi-agent plan --hosts a:2,b:2 -- ./train",
)
@settings_options("plan")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Print the hostfile, the command and the variables for PROGRAM; nobody is dialled."""
    settings = PlanSettings.from_given(call.given)
    launcher = Launcher(settings.launch, program, environ=os.environ, emit=call.log)
    call.say(_render(asyncio.run(launcher.plan()), settings))


def _render(plan: LaunchPlan, settings: PlanSettings) -> str:
    if settings.output is PlanForm.JSON:
        return render_json(plan_values(plan), indent=2) + "\n"
    if settings.output is PlanForm.SHELL:
        _write_bytes_as_they_came()
        return render_script(plan)
    return render_environment(plan) if settings.shows_environment else render_plan(plan)


def _write_bytes_as_they_came() -> None:
    """Let words that are no UTF-8 reach the script as the bytes that they were given as."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")
