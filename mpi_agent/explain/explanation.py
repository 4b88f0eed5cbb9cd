"""What a saved log says of why a job ended: the agent's own words first, then known failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.explain.own_words import OwnEnding, last_attempt, read_own_ending
from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Output
from mpi_agent.job.symptoms import Finding, Kind, root_of

__all__ = ["Explanation", "explain_log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of an ending.

    Attributes:
        ending: as the agent told it; None where the log ends before that.
        findings: the root cause first; none of a run that did not fail.
    """

    ending: OwnEnding | None
    findings: tuple[Finding, ...]

    @property
    def root(self) -> Finding | None:
        """What may be called the cause; None where nothing may."""
        return root_of(self.findings)

    @property
    def others(self) -> tuple[Finding, ...]:
        """All findings but the root."""
        return tuple(finding for finding in self.findings if finding is not self.root)

    @property
    def verdict(self) -> Verdict | None:
        """The agent's own, else that of the cause; None where neither tells."""
        if self.ending is not None and self.ending.verdict is not None:
            return self.ending.verdict
        return self.root.symptom.verdict if self.root is not None else None

    @property
    def says_why(self) -> bool:
        """Whether the log tells how the run ended, or names a cause."""
        return self.ending is not None or self.root is not None


def explain_log(output: Output) -> Explanation:
    """Return what a log says of the last attempt in it."""
    ending = read_own_ending(output)
    if ending is not None and ending.needs_no_cause:
        return Explanation(ending=ending, findings=())
    findings = find_symptoms(last_attempt(output))
    verdict = ending.verdict if ending is not None else None
    return Explanation(ending=ending, findings=_that_count(findings, verdict))


def _that_count(findings: Sequence[Finding], verdict: Verdict | None) -> tuple[Finding, ...]:
    """Return findings without what ranks say only because a worker was lost, or they were ended."""
    if verdict not in (Verdict.WORKERS_LOST, Verdict.STALLED):
        return tuple(findings)
    return tuple(finding for finding in findings if not _is_of_ranks(finding))


def _is_of_ranks(finding: Finding) -> bool:
    """Return whether a rank failed, or something of it did that tells of no verdict."""
    symptom = finding.symptom
    is_open = symptom.verdict is None and symptom.kind is Kind.SIGN
    return is_open or symptom.verdict is Verdict.PROGRAM_FAILED
