"""Names the variables that travel; their values never stand in argv."""

from __future__ import annotations

from mpi_agent.command.choices import Choices
from mpi_agent.command.dialects.dialect import DialectName, mca
from mpi_agent.command.plan import LaunchRequest
from mpi_agent.command.topics import Topic
from mpi_agent.command.variables import removed_variables
from mpi_agent.errors import SettingsError
from mpi_agent.variable_wishes import LONGEST_STRING_BYTES

__all__ = ["choose_variables"]

_OWN_LIST = mca("mca_base_env_list")
"""Source: Open MPI 4.1.4 aborts where -x stands beside it; 5.0.11 takes both, 2026-11."""


def choose_variables(choices: Choices, request: LaunchRequest) -> None:
    """Pass variables by name: ours, those that travel, and those that moved off the line."""
    own_list = choices.said.by_knob(_OWN_LIST)
    if own_list is not None and choices.dialect.name is DialectName.OPEN_MPI_4:
        choices.notes.append("mca_base_env_list is given, so no variable is added with -x")
        return
    set_here = {v.name for v in choices.variables if not v.stays_here}
    names = {*request.environment.names, *set_here, *choices.translation.names}
    removed = {v.name: v.reason for v in removed_variables(request.environ, choices.dialect)}
    for name in sorted(names & removed.keys() - set_here):
        choices.notes.append(f"{name} does not travel: {removed[name]}")
    names -= removed.keys() - set_here
    if choices.dialect.passes_everything:
        _pass_as_list(choices, request, sorted(names - {choices.dialect.ssh_arguments.variable}))
    else:
        _pass_one_by_one(choices, names)


def _pass_one_by_one(choices: Choices, names: set[str]) -> None:
    """Name each variable, where needed in front of every application, as ours are for the first."""
    line, found = choices.said.line, choices.translation
    own = {v.partition("=")[0] for v in line.values_of(Topic.VARIABLE)} if line else set()
    moved = {name for name, _ in found.values}
    words: list[str] = []
    for name in sorted(names - (own - moved)):
        added = choices.dialect.spellings[Topic.VARIABLE].says(name)
        choices.add(f"variable {name}", *added)
        words += added
    read = choices.said_in_the_end.line
    programs = read.program_words if read is not None else ()
    if words and choices.dialect.passes_to_one_application and len(programs) > 1:
        tokens = list(found.tokens)
        for program in reversed(programs[:-1]):
            behind = tokens.index(":", program) + 1
            tokens[behind:behind] = words
        found.tokens = tuple(tokens)
        choices.notes.append("variables are named for every application on the line")


def _pass_as_list(choices: Choices, request: LaunchRequest, names: list[str]) -> None:
    """Name all variables in one word, without which Hydra passes the whole environment.

    Raises:
        SettingsError: the word would be longer than one argument may be.
    """
    line = choices.said.line
    if choices.translation.names_only:
        given = {name for name, _ in request.environment.extra}
        names = sorted({*choices.translation.names, *given})
        choices.notes.append("the line's own list says which variables travel; --env NAME=V adds")
    elif line is not None and line.has(Topic.ALL_VARIABLES, Topic.NO_VARIABLES):
        choices.notes.append("the line says which variables travel, so none is added")
        return
    if not names:
        choices.say(Topic.NO_VARIABLES, "", "an empty list of variables crashes Intel MPI")
        return
    word = ",".join(names)
    if len(word) > LONGEST_STRING_BYTES:
        raise SettingsError(
            f"cannot pass {len(names)} variables to the ranks: their names take "
            f"{len(word)} bytes, and one argument has room for {LONGEST_STRING_BYTES}",
            hint="pass fewer with --env-prefix, or read them from a file in the program",
        )
    reason = "by name; without a list Hydra passes the launcher's whole environment"
    choices.add(reason, *choices.dialect.spellings[Topic.VARIABLES].says(word))
