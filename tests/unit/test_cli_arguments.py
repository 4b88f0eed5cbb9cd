"""Where the agent's options end and the program's words begin; nothing is run."""

from __future__ import annotations

import click
import pytest

from mpi_agent.cli import launch, local, plan, wait

COMMANDS = {
    "launch": launch.command,
    "local": local.command,
    "plan": plan.command,
    "wait": wait.command,
}
every_command = pytest.mark.parametrize("name", COMMANDS)


def program_of(command: click.Command, *words: str) -> tuple[str, ...]:
    """Return what a command line has the ranks run."""
    program: tuple[str, ...] = command.make_context("mpi-agent", [*words]).params["program"]
    return program


@every_command
def test_options_behind_the_program_are_the_programs(name: str) -> None:
    """Also without `--`, and also those that the agent has too."""
    words = ("./pi", "--timeout", "9s", "--help")

    assert program_of(COMMANDS[name], "--timeout", "5m", *words) == words


@every_command
def test_two_dashes_separate_the_program_from_the_options(name: str) -> None:
    """They are no word of it; those behind its own options are."""
    words = ("./pi", "--", "-x")

    assert program_of(COMMANDS[name], "--timeout", "5m", "--", *words) == words
