"""One row of the catalogue: a symptom, and what to look for before its pattern is tried."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpi_agent.explain.symptoms.phrases import compile_phrases, longest_literal
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind, Symptom

__all__ = ["Row", "row"]

_NOWHERE = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A symptom with its words.

    Attributes:
        phrases: the ways in which it is said; none where only the agent itself knows it.
        literals: for each phrase its part that never differs; the pattern need not be tried on a
            text without any of them.
    """

    symptom: Symptom
    phrases: tuple[str, ...]
    literals: tuple[str, ...]
    last_counts: bool = False
    is_last_word: bool = False


def row(
    symptom_id: str,
    *phrases: str,
    stacks: str,
    kind: Kind = Kind.CAUSE,
    verdict: Verdict | None = None,
    cause: str,
    remedy: str,
    source: str,
    last_counts: bool = False,
    is_last_word: bool = False,
) -> Row:
    """Return one row; see `phrases` for how the words of a failure are written, and `Row`.

    Args:
        stacks: who writes it, separated by commas.
        cause: may use the names in the phrases; a part in brackets is left out where they are not
            told.
    """
    symptom = Symptom(
        id=symptom_id,
        pattern=compile_phrases(phrases) if phrases else _NOWHERE,
        stacks=tuple(stack.strip() for stack in stacks.split(",")),
        kind=kind,
        verdict=verdict,
        cause=cause,
        remedy=remedy,
        source=source,
    )
    literals = tuple(longest_literal(phrase) for phrase in phrases)
    return Row(
        symptom=symptom,
        phrases=phrases,
        literals=literals,
        last_counts=last_counts,
        is_last_word=is_last_word,
    )
