"""The command group; a command's file is loaded only when that command is called."""

from __future__ import annotations

import importlib

import click

from mpi_agent import __version__
from mpi_agent.container import ensure_identity

__all__ = ["main"]

_COMMANDS = {
    "launch": "Wait for the workers, run the program on them, say how it ended.",
    "worker": "Serve ssh for the launcher and say when it is ready.",
    "sidecar": "Serve readiness, health and metrics of the sshd and the ranks next door.",
    "local": "Run workers and launcher on this machine, without a cluster.",
    "wait": "Wait for the workers as launch does, and run nothing.",
    "plan": "Print what launch would run, and why.",
    "hosts": "Print the job's hosts, without asking any.",
    "hostfile": "Print the job's hosts as an MPI's launcher reads them.",
    "explain": "Read a saved log and name the cause.",
    "ready": "Exit 0 when the worker in this container is ready (exec probe).",
    "ssh": "",
    "worker-call": "",
}
_HIDDEN = frozenset({"ssh", "worker-call"})


class _LazyGroup(click.Group):
    """A group whose commands are modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the job's life."""
        return [name for name in _COMMANDS if name not in _HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load the module of one command."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"mpi_agent.cli.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: mpi-agent launch -- ./train",
)
@click.version_option(__version__, prog_name="mpi-agent")
def main() -> None:
    """Run MPI jobs in containers: wait, render, run, explain."""
    ensure_identity()
