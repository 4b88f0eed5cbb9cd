"""`mpi-agent launch`: wait for the workers, run the program, hand its exit code back."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from mpi_agent.children import Children
from mpi_agent.cli.call import Call, ignore_late_signals
from mpi_agent.cli.options import settings_options
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.program_kind import is_question
from mpi_agent.command.stack import detect_stack
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.explain.publish import telling_failures
from mpi_agent.launcher import Launcher
from mpi_agent.run.executable import become
from mpi_agent.run.signals import SignalInbox

__all__ = ["command"]


@click.command(
    "launch",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: mpi-agent launch --timeout 5m -- mpirun ./train",
)
@settings_options("launch")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(call: Call, program: tuple[str, ...]) -> None:
    """Wait for the workers, run PROGRAM on them, say how it ended.

    PROGRAM is a bare program, which gets a whole mpirun command, or an mpirun line, whose gaps
    are filled. Put it behind `--`.
    """
    if is_question(program):
        stack = detect_stack("auto", called_as=program[0], search_path=os.get_exec_path())
        become(stack.mpirun, ("mpirun", *program[1:]), os.environ)
    settings = LaunchSettings.from_given(call.given)
    with call.listening(settings.http_port) as emit:
        launcher = Launcher(settings, program, environ=os.environ, emit=emit)
        if not settings.becomes_mpirun:
            code = asyncio.run(_launch(launcher))
            ignore_late_signals()
            sys.exit(code)
        plan = asyncio.run(_prepare(launcher))
    with telling_failures():
        become(plan.executable, plan.argv, plan.environment(os.environ))


async def _launch(launcher: Launcher) -> int:
    with SignalInbox() as inbox, Children() as children:
        return await launcher.launch(children, inbox)


async def _prepare(launcher: Launcher) -> LaunchPlan:
    with SignalInbox() as inbox:
        return await launcher.prepare(inbox)
