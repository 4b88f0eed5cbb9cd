"""A plan as a POSIX shell script that does what `launch` does once the hosts are ready.

It holds no secret: a value that may not be shown must be set where the script runs.
"""

from __future__ import annotations

import posixpath
import shlex

from mpi_agent.command.hiding import HeldValue, secret_values
from mpi_agent.command.plan import LaunchPlan, PlannedVariable
from mpi_agent.variable_names import is_secret, is_variable_name

__all__ = ["render_script"]

_SHIM_VARIABLE = "MPI_AGENT_SHIM"
_END_OF_HOSTFILE = "END OF HOSTFILE"
"""No line of a hostfile: a host's name has no blanks."""


def render_script(plan: LaunchPlan) -> str:
    """Return the script; a byte that is no UTF-8 stands in it as a lone surrogate.

    Words that hold a secret refer to its variable, and a variable whose value may not be shown
    must be set and not empty where the script runs, which it says by name.
    """
    taken_along = [p.name for p in plan.passages if p.travels and _is_set_outside(plan, p.name)]
    lines = [
        "#!/bin/sh",
        "# Written by `mpi-agent plan --output shell`. Does what `mpi-agent launch` does once the",
        "# hosts are ready. It needs the ssh_config that a launch or a wait has written here; ssh",
        "# options of the mpirun line stand in that file only after a launch of this line.",
        *([f"# Goes to the ranks as it is set here: {' '.join(taken_along)}"] * bool(taken_along)),
        "set -eu",
        "",
        *_hostfile_lines(plan),
        "",
        *(f"unset {v.name}" for v in plan.removed_variables if is_variable_name(v.name)),
        *(line for variable in _exported(plan) for line in _variable_lines(variable)),
        "",
        *_command_lines(plan),
    ]
    return "\n".join(lines) + "\n"


def _is_set_outside(plan: LaunchPlan, name: str) -> bool:
    return all(variable.name != name for variable in plan.variables)


def _hostfile_lines(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what writes the hostfile beside its place and renames it."""
    path = shlex.quote(plan.hostfile_path)
    directory = shlex.quote(posixpath.dirname(plan.hostfile_path) or ".")
    return (
        f"[ -d {directory} ] || mkdir -m 700 -p {directory}",
        f"cat >{path}.$$ <<'{_END_OF_HOSTFILE}'",
        plan.hostfile_text.rstrip("\n"),
        _END_OF_HOSTFILE,
        f"mv {path}.$$ {path}",
    )


def _exported(plan: LaunchPlan) -> tuple[PlannedVariable, ...]:
    return tuple(variable for variable in plan.variables if variable.name != _SHIM_VARIABLE)


def _variable_lines(variable: PlannedVariable) -> tuple[str, ...]:
    name = variable.name
    if variable.is_secret or is_secret(name):
        return (f': "{_reference(name)}"', f"export {name}")
    return (f"export {name}={shlex.quote(variable.value)}",)


def _reference(name: str) -> str:
    """Return what stands for the value of a variable, or ends the script where it has none."""
    return f"${{{name}:?set {name} first}}"


def _command_lines(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what becomes the command.

    A shell cannot choose argv[0]; a command that must not see its own path, because Open MPI 4
    takes it for a prefix, is found by PATH.
    """
    words = _words(plan)
    if "/" in plan.argv[0] or "/" not in plan.executable:
        return (_becomes(plan, (shlex.quote(plan.executable), *words)),)
    directory, name = posixpath.split(plan.executable)
    found = shlex.quote(plan.executable)
    return (
        f'[ "$(command -v {shlex.quote(name)})" = {found} ] || PATH={shlex.quote(directory)}:$PATH',
        _becomes(plan, (shlex.quote(name), *words)),
    )


def _becomes(plan: LaunchPlan, words: tuple[str, ...]) -> str:
    """Return the line that becomes the command, with a variable that nobody needs as the last.

    Source: MPICH 4.0.2's -genvlist loses the last variable of mpiexec's environment, and dash
    hands variables on in an order of its own; env appends what it did not find (2026-11).
    """
    shims = [v.value for v in plan.variables if v.name == _SHIM_VARIABLE]
    env = [f"env -u {_SHIM_VARIABLE} {_SHIM_VARIABLE}={shlex.quote(value)}" for value in shims[-1:]]
    return " ".join(("exec", *env, *words))


def _words(plan: LaunchPlan) -> tuple[str, ...]:
    """Return argv without its first word, quoted; secrets as references to their variables."""
    pairs = zip(plan.argv, secret_values(plan.argv), strict=True)
    return tuple(_word(word, held) for word, held in pairs)[1:]


def _word(word: str, held: tuple[HeldValue, ...]) -> str:
    """Return a quoted word in which a reference stands for each secret."""
    pieces: list[str] = []
    at = 0
    for value in held:
        if is_variable_name(value.name):
            pieces += (_quoted(word[at : value.start]), f'"{_reference(value.name)}"')
            at = value.end
    pieces.append(_quoted(word[at:]))
    return "".join(pieces) or "''"


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""
