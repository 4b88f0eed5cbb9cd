"""Corrections of the user's own words: only those without which mpirun would refuse or miss us."""

from __future__ import annotations

from mpi_agent.command.arguments import MpirunLine, MpirunOption
from mpi_agent.command.dialects import Dialect

__all__ = ["keep_spelling_or_correct"]

_SHORT = frozenset("n np c H x N mca gmca h v V q s rf wd tv".split())
"""Source: Open MPI 5.0.11 accepts these with one dash and refuses the longer ones, 2026-11."""


def keep_spelling_or_correct(
    line: MpirunLine, dialect: Dialect, hostfile_path: str, ssh_arguments: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the line's tokens and a note for each that was changed.

    Changed are: long options with one dash where the version refuses them, the hostfile, which is
    read as the source of hosts and rendered anew, and ssh arguments, which get ours in front.
    """
    tokens = list(line.tokens)
    notes: list[str] = []
    for option in line.options:
        _respell(option, dialect, tokens, notes)
        if option.name == "hostfile" and option.values:
            _replace_value(option, 0, hostfile_path, tokens)
            notes.append(f"hostfile {option.values[0]} was read and rendered anew")
        is_ssh = option.name != "x" and option.values[:1] and len(option.values) == 2
        if is_ssh and option.values[0] in dialect.ssh_arguments_aliases and ssh_arguments:
            _replace_value(option, 1, f"{ssh_arguments} {option.values[1]}", tokens)
            notes.append(f"{option.values[0]} was kept, with ours in front of it")
    return tuple(tokens), tuple(notes)


def _respell(option: MpirunOption, dialect: Dialect, tokens: list[str], notes: list[str]) -> None:
    bare = option.spelling.lstrip("-")
    is_long_with_one_dash = not option.spelling.startswith("--") and bare not in _SHORT
    if dialect.refuses_single_dash and is_long_with_one_dash:
        tokens[option.at] = "-" + tokens[option.at]
        notes.append(f"{option.spelling} is written -{option.spelling}, as {dialect.name} wants it")


def _replace_value(option: MpirunOption, index: int, value: str, tokens: list[str]) -> None:
    if option.is_joined:
        tokens[option.at] = f"{option.spelling}={value}"
    else:
        tokens[option.at + 1 + index] = value
