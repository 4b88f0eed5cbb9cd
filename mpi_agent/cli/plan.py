"""`mpi-agent plan`: what launch would run, and why."""

from __future__ import annotations

import asyncio
import os
import shlex

import click

from mpi_agent.cli.call import Call
from mpi_agent.cli.options import settings_options
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.launcher import Launcher

__all__ = ["command"]


@click.command("plan", epilog="Example: mpi-agent plan --hosts a:2,b:2 -- ./train")
@settings_options("plan")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Print the hostfile, the command and the variables for PROGRAM; nobody is dialled."""
    settings = LaunchSettings.from_given(call.given)
    launcher = Launcher(settings, program, environ=os.environ, emit=call.log)
    click.echo(_render(asyncio.run(launcher.plan())))


def _render(plan: LaunchPlan) -> str:
    added = [f"  {shlex.join(c.words)}  # {c.reason}" for c in plan.choices]
    variables = [f"  {name}={_shown(name, value, plan)}" for name, value in plan.variables]
    removed = [f"  {name}  # not handed to mpirun" for name in plan.removed_variables]
    notes = [f"  {note}" for note in plan.notes]
    sections = (
        ("hostfile", [f"  {line}" for line in plan.hostfile_text.splitlines()]),
        ("executable", [f"  {plan.executable}"]),
        ("argv", [f"  {shlex.join(plan.shown_argv)}"]),
        ("added to argv", added),
        ("variables", variables + removed),
        ("notes", notes),
    )
    return "\n".join("\n".join([f"{title}:", *lines]) for title, lines in sections if lines)


def _shown(name: str, value: str, plan: LaunchPlan) -> str:
    """Return a value as it may be printed: one that --env gave may be a secret."""
    return "...  # given with --env" if name in plan.secret_names else shlex.quote(value)
