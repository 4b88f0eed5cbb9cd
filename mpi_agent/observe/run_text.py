"""What happens while a program runs, and how it ended, in words for people."""

from __future__ import annotations

from mpi_agent.job.endings import Ending
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
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.output import Stream
from mpi_agent.job.symptoms import Finding, root_of

__all__ = ["render_details", "render_run_event"]

_MOST_FOLLOWERS = 3


def render_run_event(event: Event) -> str | None:
    """Return the line for an event of a run, None for any other."""
    match event:
        case AttemptBegan(number=number, max_restarts=most, run_id=run_id):
            return f"began attempt={number} max_restarts={most} run_id={run_id}"
        case RanksStarted(host_count=count, after_s=after_s):
            return f"ranks started hosts={count} after_s={after_s:.2f}"
        case AttemptEnded(ending=ending):
            return f"attempt {ending.attempt}: {_render_ending(ending)}"
        case ProgramEnded(ending=ending):
            return _render_ending(ending)
        case RestartDecided(restarts=True, delay_s=delay_s, reason=reason):
            return f"restarting in {delay_s:.3g} s: {reason}"
        case RestartDecided(reason=reason):
            return f"not restarting: {reason}"
        case WorkersSwept():
            return _render_sweep(event)
    return _render_trouble(event)


def _render_trouble(event: Event) -> str | None:
    """Return the line for what goes wrong under a running program."""
    match event:
        case RankFailed(host=host, rank=rank, how=how):
            return f"rank {rank} on {host} ended with {how}"
        case RanksStalled(why=why, silent_s=silent_s, is_stalled=False):
            return f"silent for {silent_s:.0f} s, but {why}"
        case RanksStalled(why=why, silent_s=silent_s, ends_program=ends_program):
            then = "; the program is ended" if ends_program else ""
            return f"ranks stalled silent_s={silent_s:.0f}: {why}{then}"
        case WorkerSuspected(host=host, why=why):
            return f"{host} may be lost: {why}"
        case WorkerReturned(host=host, silent_s=silent_s):
            return f"{host} gave a sign of life again after {silent_s:.1f} s"
        case WorkerLost(loss=loss):
            return (
                f"{loss.host} was lost: {loss.why}"
                f" after_s={loss.after_s:.1f} noticed_after_s={loss.noticed_after_s:.1f}"
            )
    return None


def _render_ending(ending: Ending) -> str:
    return f"{ending.summary} (verdict={ending.verdict.name} code={ending.exit_code})"


def _render_sweep(event: WorkersSwept) -> str:
    silent = f" silent={fold_names(event.silent)}" if event.silent else ""
    found = f" ended={event.ended} killed={event.killed} left={event.left}"
    if event.segments:
        found += f" segments={event.segments}"
    if not (event.ended or event.left or event.segments):
        found = " nothing was left" if event.hosts else ""
    return f"swept workers={event.hosts}{silent} took_s={event.took_s:.2f}{found}: {event.why}"


def render_details(event: Event) -> tuple[str, ...]:
    """Return what is told above an event's line, a line each; empty for most events.

    Of an ending: the cause, what to do about it, the line of the output that shows it, and what
    followed from it, which launchers write most about. What is no cause is not called one.
    """
    if not isinstance(event, ProgramEnded | AttemptEnded):
        return ()
    findings = event.ending.findings
    root = root_of(findings)
    lines = _render_root(root, event.ending.summary) if root is not None else []
    others = [finding for finding in findings if finding is not root]
    lines += (f"{_relation(other, root)}: {_told(other)}" for other in others[:_MOST_FOLLOWERS])
    if (left_out := len(others) - _MOST_FOLLOWERS) > 0:
        lines.append(f"then: {left_out} more")
    return tuple(lines)


def _render_root(root: Finding, summary: str) -> list[str]:
    cause = f"cause: {root.cause}{_seen_on(root)} [{root.symptom.id}]"
    lines = [f"symptom: {root.symptom.id}" if root.cause in summary else cause]
    lines.append(f"remedy: {root.symptom.remedy}")
    if root.line_number:
        lines.append(f"{_place_of(root)}: {root.line}")
    return lines


def _relation(finding: Finding, root: Finding | None) -> str:
    """Return how something else that was found stands to the root."""
    if finding.is_past:
        return "before"
    return "then" if root is not None else "seen"


def _told(finding: Finding) -> str:
    return f"{finding.cause} ({_place_of(finding)})" if finding.line_number else finding.cause


def _seen_on(finding: Finding) -> str:
    return f" on {finding.host}" if finding.host and finding.host not in finding.cause else ""


def _place_of(finding: Finding) -> str:
    """Return `line 40 of stderr`."""
    stream = "the output" if finding.stream is Stream.MERGED else finding.stream.value
    return f"line {finding.line_number} of {stream}"
