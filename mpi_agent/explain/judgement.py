"""What one kind of evidence says of an ending, before all of it is put into one line."""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_exit
from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Verdict

__all__ = ["UNKNOWN_FAILURE_CODE", "Judgement", "as_mpirun_said"]

UNKNOWN_FAILURE_CODE = 1
"""of a program that failed, where nothing tells with which code"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with its code and its words.

    Attributes:
        summary: what happened, to which a cause may be added behind a colon.
        losses: hosts that were lost.
        named: those of which the summary says what became of them.
        is_explained: the summary says already which rank did what, to which a mere sign of it adds
            nothing.
        has_known_code: the code is the program's or a rank's, and not only mpirun's.
        said: what mpirun said instead, in brackets with a blank before; empty where it agrees.
    """

    verdict: Verdict
    code: int
    summary: str
    said: str = ""
    losses: tuple[HostLoss, ...] = ()
    named: tuple[str, ...] = ()
    is_explained: bool = False
    has_known_code: bool = False


def as_mpirun_said(evidence: Evidence, *, unless: int | None = None) -> str:
    """Return ` (mpirun: exit code 255)`; nothing where its code is the one that is expected."""
    if unless == evidence.code:
        return ""
    return f" (mpirun: {describe_exit(evidence.process_exit)})"
