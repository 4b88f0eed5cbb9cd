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
a daemon is gone: then it is wrong more often to believe the 0. Of other hosts than the job's they
are the program's own, and once it has run none of them tells of its start. What the words look like
stands in `explain.launcher_forms`, which codes are a launcher's in `explain.launcher_codes`.
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
from mpi_agent.explain.launcher_reports import LauncherWords
from mpi_agent.explain.lost import judge_lost_daemons, with_lost_workers
from mpi_agent.explain.stops import judge_stop
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job.symptoms import Finding, Kind, root_of

__all__ = ["Evidence", "blame_hosts", "conclude"]

_CODE_OF_KILLED = 137
_CODES_OF_SHELLS = frozenset({126, 127})
_SSH, _OUT_OF_MEMORY = "ssh", "out-of-memory"
"""Who says something, and a symptom, as the catalogue has them."""


def conclude(evidence: Evidence) -> Ending:
    """Return what all of the evidence means together.

    It may be asked again with more evidence: nothing depends on what was known first.
    """
    words = _of_this_job(read_words(evidence.output), evidence)
    evidence = replace(evidence, findings=_of_this_run(evidence))
    judged = judge_stop(evidence, words) or _of_one_left_alone(evidence, words)
    if evidence.stopped_by is None:
        judged = with_lost_workers(judged, evidence)
    cause = _cause(judged, evidence)
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


def _of_this_job(words: LauncherWords, evidence: Evidence) -> LauncherWords:
    """Return the words without daemons on hosts that are none of the job's.

    A program may use ssh itself, and print the log of another job.
    """
    daemons = tuple(word for word in words.daemons if evidence.is_of_job(word.host))
    return replace(words, daemons=daemons)


def _of_this_run(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings without those that a program causes that uses ssh, or starts others."""
    found = tuple(finding for finding in evidence.findings if _is_of_job(finding, evidence))
    return found if evidence.may_be_unstarted else _of_no_start(found, evidence)


def _of_no_start(findings: tuple[Finding, ...], evidence: Evidence) -> tuple[Finding, ...]:
    """Return what may be found of a program that ran: its start did not fail.

    A shell that could not execute something tells so by its code, and has run itself.
    """
    is_shells = evidence.code in _CODES_OF_SHELLS
    return tuple(
        finding
        for finding in findings
        if finding.symptom.verdict is not Verdict.LAUNCH_FAILED
        or (is_shells and finding.symptom.kind is Kind.SIGN)
    )


def _is_of_job(finding: Finding, evidence: Evidence) -> bool:
    return _SSH not in finding.symptom.stacks or evidence.is_of_job(finding.host)


def _findings_that_count(judged: Judgement, evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings that agree with what happened first, and not what we did ourselves.

    A success needs no cause, and neither does a stop that was asked for. Where the agent ended the
    program, the rest of what is said of the end is its own doing.
    """
    if judged.verdict in (Verdict.STOPPED, Verdict.SUCCEEDED):
        return ()
    findings, alarm = evidence.findings, evidence.alarm
    if judged.verdict is Verdict.PROGRAM_FAILED and judged.is_explained:
        findings = _of_no_start(findings, evidence)
    found = [f for f in findings if alarm is None or _agrees(f, judged, alarm)]
    if judged.verdict in (Verdict.PROGRAM_FAILED, Verdict.LAUNCH_FAILED):
        return tuple(found)
    return tuple(sorted(found, key=lambda f: f.symptom.verdict is not judged.verdict))


def _agrees(finding: Finding, judged: Judgement, alarm: Alarm) -> bool:
    """Return whether a finding may be why the agent had to end the program.

    Of a start, what keeps hosts from it; of ranks that failed by themselves, also what is said
    whatever the verdict; and what the agent knows by itself.
    """
    verdict, is_known = finding.symptom.verdict, not finding.line
    if verdict is None:
        return is_known or alarm.kind is AlarmKind.RANK_FAILED
    is_of_start = verdict is Verdict.LAUNCH_FAILED and alarm.kind is AlarmKind.START_TOO_LATE
    is_memory = is_known and finding.symptom.id == _OUT_OF_MEMORY
    return verdict is judged.verdict or is_of_start or is_memory


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

    Memory that ran out is the cause where a rank was killed, or where nothing tells how it ended. A
    program that lost a process of its own and ended with a code does not say that it was for that.
    """
    if judged.verdict not in (Verdict.PROGRAM_FAILED, Verdict.LAUNCH_FAILED):
        return ""
    memory = out_of_memory(evidence.news)
    if memory and (judged.code == _CODE_OF_KILLED or not judged.has_known_code):
        return memory
    root = root_of(_findings_that_count(judged, evidence))
    if root is None or root.cause in judged.summary:
        return ""
    explains = (Kind.CAUSE,) if judged.is_explained else (Kind.CAUSE, Kind.SIGN)
    return root.cause if root.symptom.kind in explains else ""


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
