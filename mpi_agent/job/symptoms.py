"""A known failure, and one that was found in an output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Stream

__all__ = ["Finding", "Kind", "Symptom", "root_of"]


class Kind(Enum):
    """How far a symptom stands from the root of what went wrong; the lower one explains more.

    A CAUSE is what went wrong, a SIGN is what one sees of it, a CONSEQUENCE is what launchers say
    when something else went wrong before.
    """

    CAUSE = 1
    SIGN = 2
    CONSEQUENCE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One row of the catalogue.

    Attributes:
        id: public, never reused: words with hyphens, such as `ssh-host-key-changed`.
        pattern: is searched for in one line; named groups may be used in the cause as `{name}`.
        stacks: who writes it, in words: `Open MPI 4`, `Hydra`, `ssh`; for people.
        verdict: what the job's ending is when this was its root; None where it does not tell.
        cause: one clause, no full stop.
        remedy: one action.
        source: where the text was seen, with the version.
    """

    id: str
    pattern: re.Pattern[str]
    stacks: tuple[str, ...]
    kind: Kind
    verdict: Verdict | None
    cause: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A symptom that was found.

    Attributes:
        cause: the symptom's, with what its line says filled in.
        line: verbatim; empty where it is not from the output but from what the agent knows.
        line_number: 1-based within its stream; 0 where it is not from the output.
        host: where it was seen; empty where nothing tells.
        is_past: the program went on for long after it, so that it is no reason for its end.
    """

    symptom: Symptom
    cause: str
    line: str = ""
    line_number: int = 0
    stream: Stream = Stream.MERGED
    host: str = ""
    is_past: bool = False


def root_of(findings: Iterable[Finding]) -> Finding | None:
    """Return what may be called the cause of an ending, None where there is nothing of the kind.

    A consequence is never called one, however alone it stands, nor is what the program outlived.

    Args:
        findings: the nearest to the root first.
    """
    for finding in findings:
        if finding.symptom.kind is not Kind.CONSEQUENCE and not finding.is_past:
            return finding
    return None
