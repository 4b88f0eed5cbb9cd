"""What the agent knows by itself of an ending, put together with what the output shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.matcher import (
    finding_of_alarm,
    finding_of_exit,
    findings_of_news,
    put_together,
)
from mpi_agent.job.symptoms import Finding
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["with_news"]


def with_news(evidence: Evidence, news: tuple[WorkerNews, ...]) -> Evidence:
    """Return the evidence with what workers told until now, and all that was found.

    It may be asked again with more news.
    """
    said = [finding for finding in evidence.findings if finding.line]
    known = (*findings_of_news(news), *_own(evidence))
    return replace(evidence, news=news, findings=put_together(said, known))


def _own(evidence: Evidence) -> Iterator[Finding]:
    """Yield why the agent ended the program, or what somebody else did to its mpirun."""
    found = None
    if evidence.alarm is not None:
        found = finding_of_alarm(evidence.alarm)
    elif evidence.stopped_by is None and not evidence.starts_ranks_itself:
        found = finding_of_exit(evidence.process_exit)
    if found is not None:
        yield found
