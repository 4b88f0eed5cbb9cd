"""A run and its ending as values for machines; the keys are public: added, never changed."""

from __future__ import annotations

from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    ProgramEnded,
    RankFailed,
    RanksStalled,
    RanksStarted,
    RestartDecided,
    WorkerLost,
    WorkerReturned,
    WorkersSwept,
    WorkerSuspected,
)
from mpi_agent.job.symptoms import Finding, root_of
from mpi_agent.observe.json_text import JsonObject

__all__ = ["ending_values", "is_trouble", "loss_values", "past_values", "run_event_values"]


def run_event_values(event: Event) -> JsonObject:
    """Return the own values of an event of a run; empty for any other."""
    match event:
        case AttemptBegan(number=number, max_restarts=most, run_id=run_id):
            return {"attempt": number, "max_restarts": most, "run_id": run_id}
        case RanksStarted(host_count=count, after_s=after_s):
            return {"hosts_total": count, "after_s": after_s}
        case AttemptEnded(ending=ending) | ProgramEnded(ending=ending):
            return ending_values(ending)
        case RestartDecided(restarts=restarts, delay_s=delay_s, reason=reason):
            return {"restarts": restarts, "delay_s": delay_s, "reason": reason}
        case WorkersSwept():
            return _sweep_values(event)
    return _trouble_values(event)


def _trouble_values(event: Event) -> JsonObject:
    match event:
        case RankFailed(host=host, rank=rank, how=how):
            return {"host": host, "rank": rank, "how": how}
        case RanksStalled(why=why, silent_s=silent_s, ends_program=ends_program):
            return {
                "why": why,
                "silent_s": silent_s,
                "ends_program": ends_program,
                "is_stalled": event.is_stalled,
            }
        case WorkerSuspected(host=host, why=why):
            return {"host": host, "why": why}
        case WorkerReturned(host=host, silent_s=silent_s):
            return {"host": host, "silent_s": silent_s}
        case WorkerLost(loss=loss):
            return loss_values(loss)
    return {}


def _sweep_values(event: WorkersSwept) -> JsonObject:
    return {
        "workers": event.hosts,
        "silent": event.silent,
        "ended": event.ended,
        "killed": event.killed,
        "left": event.left,
        "segments": event.segments,
        "took_s": event.took_s,
        "why": event.why,
    }


def ending_values(ending: Ending) -> JsonObject:
    """Return how the program ended: the agent's verdict, and mpirun's own exit as it was."""
    return {
        **_short_values(ending),
        "losses": [loss_values(loss) for loss in ending.losses],
        "findings": [_finding_values(finding) for finding in ending.findings],
    }


def past_values(ending: Ending) -> JsonObject:
    """Return how an attempt ended that was not the last, in short."""
    root = root_of(ending.findings)
    return {
        **_short_values(ending),
        "lost": tuple(loss.host for loss in ending.losses),
        "symptom": root.symptom.id if root else None,
    }


def _short_values(ending: Ending) -> JsonObject:
    return {
        "verdict": ending.verdict.name.lower(),
        "exit_code": ending.exit_code,
        "summary": ending.summary,
        "attempt": ending.attempt,
        "duration_s": ending.process_exit.duration_s,
        "process_code": ending.process_exit.code,
        "process_signal": ending.process_exit.signal,
    }


def loss_values(loss: HostLoss) -> JsonObject:
    """Return which host was lost, why and when."""
    return {
        "host": loss.host,
        "why": loss.why,
        "after_s": loss.after_s,
        "noticed_after_s": loss.noticed_after_s,
    }


def _finding_values(finding: Finding) -> JsonObject:
    """Return a finding; what is not from the output has no line."""
    is_seen = finding.line_number > 0
    return {
        "symptom": finding.symptom.id,
        "kind": finding.symptom.kind.name.lower(),
        "is_past": finding.is_past,
        "cause": finding.cause,
        "remedy": finding.symptom.remedy,
        "line": finding.line if is_seen else None,
        "line_number": finding.line_number if is_seen else None,
        "stream": finding.stream.value if is_seen else None,
        "host": finding.host or None,
    }


def is_trouble(event: Event) -> bool:
    """Return whether somebody should look at what happened, not only read about it."""
    match event:
        case AttemptEnded(ending=ending) | ProgramEnded(ending=ending):
            return ending.verdict is not Verdict.SUCCEEDED
        case WorkersSwept(left=left, silent=silent):
            return left > 0 or bool(silent)
    if isinstance(event, RanksStalled):
        return event.is_stalled
    return isinstance(event, RankFailed | WorkerSuspected | WorkerLost)
