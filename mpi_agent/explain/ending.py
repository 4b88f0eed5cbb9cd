"""From everything that is known to the ending: verdict, code and one line.

mpirun's exit code is one witness among several. Who speaks first decides:

1. we were told to stop, and the program did not end by itself in time: 143, 130 or 129;
2. a worker was lost: the agent's own watch says so, the worker, or the launcher of its daemon: 201,
   whatever mpirun's code, also where it is 0;
3. the agent ended the program for another reason: hosts left out 78, a start that was too late 200
   or 201, ranks that stalled 203, a rank that failed while the others went on its own code;
4. the rank that failed first, where a launcher or a worker names it: its code, or 128 + its signal;
5. a program that never started, and else mpirun's code as it is;
6. success, on every host of the job.

What a text says counts least: a rank may print anything. Words may make a failure more precise.
They may turn a 0 into a failure only where the launcher says in full form, on its own stream, that
a daemon is gone: then it is wrong more often to believe the 0. What the words look like stands in
`explain.launcher_forms`.
"""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.errors import HostsUnusedError
from mpi_agent.explain.alarmed import judge_alarm
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_seconds
from mpi_agent.explain.failures import judge_failure
from mpi_agent.explain.fates import evicted, out_of_memory
from mpi_agent.explain.judgement import Judgement
from mpi_agent.explain.launcher_forms import read_words
from mpi_agent.explain.launcher_words import LauncherWords
from mpi_agent.explain.lost import judge_lost_daemons, with_lost_workers
from mpi_agent.explain.stops import judge_stop
from mpi_agent.job.alarms import AlarmKind
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job.symptoms import Finding, Rank

__all__ = ["Evidence", "blame_hosts", "conclude"]


def conclude(evidence: Evidence) -> Ending:
    """Return what all of the evidence means together.

    It may be asked again with more evidence: nothing depends on what was known first.
    """
    words = read_words(evidence.output)
    judged = judge_stop(evidence, words) or _of_one_left_alone(evidence, words)
    cause = _cause(judged, evidence)
    if evidence.stopped_by is None:
        judged = with_lost_workers(judged, evidence)
    summary = f"{judged.summary}: {cause}" if cause else judged.summary
    remarks = (f"{summary}{judged.said}", *_remarks(judged, evidence, cause))
    return Ending(
        verdict=judged.verdict,
        exit_code=judged.code,
        process_exit=evidence.process_exit,
        summary="; ".join(remark for remark in remarks if remark),
        findings=_findings_that_count(judged, evidence),
        losses=judged.losses,
        attempt=evidence.attempt,
    )


def _findings_that_count(judged: Judgement, evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings without those that tell of what we did ourselves.

    A stop that was asked for needs no cause. Where the agent ended the program because of something
    else than a rank, what launchers say of ranks that end is its own doing.
    """
    if judged.verdict is Verdict.STOPPED:
        return ()
    alarm = evidence.alarm
    if alarm is None or alarm.kind is AlarmKind.RANK_FAILED:
        return evidence.findings
    return tuple(
        finding
        for finding in evidence.findings
        if finding.symptom.verdict is not Verdict.PROGRAM_FAILED
    )


def _of_one_left_alone(evidence: Evidence, words: LauncherWords) -> Judgement:
    """Return how a program ended that nobody stopped, or that ended by itself when it was told."""
    by_others = None
    if evidence.stopped_by is None:
        by_others = judge_alarm(evidence, words) or judge_lost_daemons(evidence, words)
    return (
        by_others
        or judge_failure(evidence, words)
        or _on_fewer_hosts(evidence)
        or _success(evidence)
    )


def _success(evidence: Evidence) -> Judgement:
    lasted = describe_seconds(evidence.process_exit.duration_s)
    return Judgement(
        verdict=Verdict.SUCCEEDED, code=0, summary=f"{evidence.program} succeeded after {lasted}"
    )


def _on_fewer_hosts(evidence: Evidence) -> Judgement | None:
    """Return that the work of some hosts is not the work of the job (promise P1)."""
    if evidence.not_dialled is None:
        return None
    return Judgement(
        verdict=Verdict.LAUNCH_FAILED,
        code=HostsUnusedError.exit_code,
        summary=f"the program ran on fewer hosts than the job has: {evidence.not_dialled}",
    )


def _cause(judged: Judgement, evidence: Evidence) -> str:
    """Return what explains a failure; empty for nothing, and for what has its reason already.

    Memory that ran out is the cause of a failure, whatever way mpirun has of saying so.
    """
    if judged.verdict not in (Verdict.PROGRAM_FAILED, Verdict.LAUNCH_FAILED):
        return ""
    if memory := out_of_memory(evidence.news):
        return memory
    root = evidence.findings[0] if evidence.findings else None
    if root is None or root.cause in judged.summary:
        return ""
    explains = (Rank.CAUSE,) if judged.is_explained else (Rank.CAUSE, Rank.SIGN)
    return root.cause if root.symptom.rank in explains else ""


def _remarks(judged: Judgement, evidence: Evidence, cause: str) -> tuple[str, ...]:
    """Return what is to be said beside the reason, each once."""
    memory = out_of_memory(evidence.news)
    return (
        _left_out(judged, evidence),
        memory if memory != cause else "",
        evicted([host for host in evidence.news if host.host not in judged.named]),
        _told_to_stop(evidence) if judged.verdict is Verdict.PROGRAM_FAILED else "",
    )


def _left_out(judged: Judgement, evidence: Evidence) -> str:
    """Return which hosts mpirun left out, unless that is the reason, or our own doing."""
    why = evidence.not_dialled or ""
    was_ended = judged.verdict is Verdict.STOPPED or evidence.alarm is not None
    return "" if was_ended or why in judged.summary else why


def _told_to_stop(evidence: Evidence) -> str:
    return "it had been told to stop" if evidence.stopped_by is not None else ""


def blame_hosts(ending: Ending, report: ReadinessReport) -> Ending:
    """Return a failed launch with the hosts named that were ready and let nobody in any more.

    Args:
        report: where the hosts stood when they were asked once more.
    """
    gone = {host.host: host.last_failure.detail for host in report.laggards if host.last_failure}
    if not gone:
        return ending
    names, why = fold_names(tuple(gone)), next(iter(gone.values()))
    return replace(ending, summary=f"{ending.summary}; {names} went away after the wait: {why}")
