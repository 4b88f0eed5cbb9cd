"""A plan for people and for machines: everything that will run, and why; no secret is ever shown.

A value is left out where the plan says that it is a secret, where its variable's name says so, and
where the user gave it. The keys of `plan_values` are public: added, never changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from mpi_agent.command.plan import AGENT, Choice, LaunchPlan, PlannedVariable
from mpi_agent.variable_names import is_secret, is_variable_name

__all__ = ["PlanValue", "hidden_variable", "plan_values", "render_environment", "render_plan"]

PlanValue: TypeAlias = "str | int | Sequence[PlanValue] | Mapping[str, PlanValue] | None"

_HIDDEN = "..."


def render_plan(plan: LaunchPlan) -> str:
    """Return a plan as text: what will run, what was added to it and why, and what was kept."""
    sections = (
        (f"hostfile {plan.hostfile_path}", plan.hostfile_text.splitlines()),
        ("executable", [_printable(plan.executable)]),
        ("argv", [_quoted(_shown_words(plan, plan.argv))]),
        ("added to argv", [_choice_line(plan, choice) for choice in plan.choices]),
        ("kept as the user said", [_choice_line(plan, choice) for choice in plan.kept]),
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
        "argv": _shown_words(plan, plan.argv),
        "np": plan.np,
        "daemon": plan.daemon,
        "hostfile": {"path": plan.hostfile_path, "text": plan.hostfile_text},
        "added": [_choice_values(plan, choice) for choice in plan.choices],
        "kept": [_choice_values(plan, choice) for choice in plan.kept],
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


def hidden_variable(word: str, shown: str, before: str) -> str | None:
    """Return the variable whose value a word of an argv holds, None where it holds none.

    Args:
        shown: the word as `LaunchPlan.shown_argv` has it.
        before: the word in front of it.
    """
    name, equals, _ = word.partition("=")
    if shown != word:
        return before if shown == _HIDDEN else name
    return name if equals and is_variable_name(name) and is_secret(name) else None


def _shown_words(plan: LaunchPlan, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return words of a command without the values that the user wrote in them."""
    shown = replace(plan, argv=words).shown_argv
    befores = ("", *words)
    return tuple(
        _without_value(word, shown_word, before)
        for word, shown_word, before in zip(words, shown, befores, strict=False)
    )


def _without_value(word: str, shown: str, before: str) -> str:
    name = hidden_variable(word, shown, before)
    return shown if name is None or shown != word else f"{name}={_HIDDEN}"


def _is_shown(variable: PlannedVariable) -> bool:
    is_ours = variable.said_by == AGENT
    return is_ours and not variable.is_secret and not is_secret(variable.name)


def _variable_line(variable: PlannedVariable) -> str:
    value = shlex.quote(_printable(variable.value)) if _is_shown(variable) else _HIDDEN
    return f"{variable.name}={value}  # {_because(variable.reason, variable.said_by)}"


def _choice_line(plan: LaunchPlan, choice: Choice) -> str:
    words = _quoted(_shown_words(plan, choice.words))
    return f"{words}  # {_because(choice.reason, choice.said_by)}"


def _because(reason: str, said_by: str) -> str:
    return _printable(reason if said_by == AGENT else f"{reason}; said by {said_by}")


def _choice_values(plan: LaunchPlan, choice: Choice) -> Mapping[str, PlanValue]:
    words = _shown_words(plan, choice.words)
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
