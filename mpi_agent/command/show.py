"""A plan for people and for machines: everything that will run, and why; no secret is ever shown.

A value is left out where the plan says that it is a secret, where its variable's name says so, and
where the user gave it. The keys of `plan_values` are public: added, never changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mpi_agent.command.hiding import HIDDEN, shown_words
from mpi_agent.command.plan import AGENT, Choice, LaunchPlan, PlannedVariable
from mpi_agent.variable_names import is_secret

__all__ = ["PlanValue", "plan_values", "render_environment", "render_plan"]

PlanValue: TypeAlias = "str | int | Sequence[PlanValue] | Mapping[str, PlanValue] | None"


def render_plan(plan: LaunchPlan) -> str:
    """Return a plan as text: what will run, what was added to it and why, and what was kept."""
    sections = (
        (f"hostfile {plan.hostfile_path}", plan.hostfile_text.splitlines()),
        ("executable", [_printable(plan.executable)]),
        ("argv", [_quoted(plan.shown_argv)]),
        ("added to argv", [_choice_line(choice) for choice in plan.choices]),
        ("kept as the user said", [_choice_line(choice) for choice in plan.kept]),
        ("variables", [_variable_line(variable) for variable in plan.variables]),
        (
            "removed variables",
            [f"{_printable(v.name)}  # {_printable(v.reason)}" for v in plan.removed_variables],
        ),
        ("notes", [_printable(note) for note in plan.notes]),
    )
    return "".join(_section(title, lines) for title, lines in sections if lines)


def render_environment(plan: LaunchPlan) -> str:
    """Return a table of every variable, its fate and the reason; sorted by name, no values."""
    rows = {p.name: ("to the ranks" if p.travels else "stays", p.reason) for p in plan.passages}
    rows |= {v.name: ("removed", v.reason) for v in plan.removed_variables}
    named = {name for c in plan.choices for word in c.words for name in word.split(",")}
    for variable in plan.variables:
        fate, reason = rows.get(variable.name, ("", ""))
        if fate != "to the ranks":
            fate = "to the ranks" if variable.name in named else "set for mpirun"
            rows[variable.name] = (fate, variable.reason)
        elif variable.said_by == AGENT:
            rows[variable.name] = (fate, f"{reason}; {variable.reason}")
    table = [(_printable(name), *rows[name]) for name in sorted(rows)]
    widths = [max((len(row[i]) for row in table), default=0) for i in range(2)]
    return "".join(
        f"{name:{widths[0]}}  {fate:{widths[1]}}  {_printable(reason)}\n"
        for name, fate, reason in table
    )


def plan_values(plan: LaunchPlan) -> Mapping[str, PlanValue]:
    """Return everything in a plan as values for JSON; a value that is not shown is null."""
    return {
        "executable": plan.executable,
        "argv": plan.shown_argv,
        "np": plan.np,
        "daemon": plan.daemon,
        "hostfile": {"path": plan.hostfile_path, "text": plan.hostfile_text},
        "added": [_choice_values(choice) for choice in plan.choices],
        "kept": [_choice_values(choice) for choice in plan.kept],
        "variables": [_variable_values(variable) for variable in plan.variables],
        "removed_variables": [
            {"name": variable.name, "reason": variable.reason}
            for variable in plan.removed_variables
        ],
        "environment": [
            {
                "name": passage.name,
                "travels": passage.travels,
                "secret": passage.is_secret,
                "reason": passage.reason,
            }
            for passage in plan.passages
        ],
        "notes": plan.notes,
    }


def _is_shown(variable: PlannedVariable) -> bool:
    is_ours = variable.said_by == AGENT
    return is_ours and not variable.is_secret and not is_secret(variable.name)


def _variable_line(variable: PlannedVariable) -> str:
    value = shlex.quote(_printable(variable.value)) if _is_shown(variable) else HIDDEN
    return f"{variable.name}={value}  # {_because(variable.reason, variable.said_by)}"


def _choice_line(choice: Choice) -> str:
    words = _quoted(shown_words(choice.words))
    return f"{words}  # {_because(choice.reason, choice.said_by)}"


def _because(reason: str, said_by: str) -> str:
    return _printable(reason if said_by == AGENT else f"{reason}; said by {said_by}")


def _choice_values(choice: Choice) -> Mapping[str, PlanValue]:
    words = shown_words(choice.words)
    return {"words": words, "reason": choice.reason, "said_by": choice.said_by}


def _variable_values(variable: PlannedVariable) -> Mapping[str, PlanValue]:
    return {
        "name": variable.name,
        "value": variable.value if _is_shown(variable) else None,
        "secret": variable.is_secret or is_secret(variable.name),
        "reason": variable.reason,
        "said_by": variable.said_by,
    }


def _section(title: str, lines: list[str]) -> str:
    return f"{title}:\n" + "".join(f"  {line}\n" for line in lines)


def _quoted(words: tuple[str, ...]) -> str:
    return shlex.join(_printable(word) for word in words)


def _printable(text: str) -> str:
    """Return text for a terminal: what would control it, or is no UTF-8, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
