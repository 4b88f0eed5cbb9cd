"""Whether a program failed, or never started, when nobody ended it and nobody was lost."""

from __future__ import annotations

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_code, describe_exit, describe_seconds
from mpi_agent.explain.judgement import Judgement, as_mpirun_said
from mpi_agent.explain.launcher_words import DaemonFate, LauncherWords, RankFailure
from mpi_agent.explain.rank_failures import first_failure, is_own_code
from mpi_agent.job.endings import Verdict
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.symptoms import Rank

__all__ = ["judge_failure"]

_LAUNCH_CODES = frozenset({132, 183, 213, 250, 255})
"""Codes with which mpirun itself ends when the program never started; a program may use them too.

Source: Open MPI 4.1.4: 132 program missing, 255 a daemon failed; Open MPI 5.0.11: 183 program
missing, 213 and 250 bad usage, 255 a daemon failed; measured 2026-11.
"""
_UNKNOWN_FAILURE_CODE = 1


def judge_failure(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    """Return how the program failed, or that it never started; None for one that succeeded.

    A success is denied by a worker that saw a rank end badly.
    """
    failure = first_failure(evidence, words)
    if failure is None and evidence.code == 0:
        return None
    if failure is None and (launch := _failed_launch(evidence, words)):
        return launch
    code = (failure.shell_code if failure else None) or evidence.code or _UNKNOWN_FAILURE_CODE
    lasted = describe_seconds(evidence.process_exit.duration_s)
    how = describe_exit(evidence.process_exit) if code == evidence.code else describe_code(code)
    return Judgement(
        verdict=_verdict(evidence, failure),
        code=code,
        summary=f"{evidence.program} failed with {how}{_whose(failure)} after {lasted}",
        said=as_mpirun_said(evidence, unless=code),
        is_explained=failure is not None,
    )


def _whose(failure: RankFailure | None) -> str:
    if failure is None or (failure.rank is None and not failure.host):
        return ""
    who = "a rank" if failure.rank is None else f"rank {failure.rank}"
    where = f" on {failure.host}" if failure.host else ""
    return f" of {who}{where}" + (", which called MPI_Abort," if failure.called_abort else "")


def _verdict(evidence: Evidence, failure: RankFailure | None) -> Verdict:
    """Return the root symptom's verdict on a start, unless a rank is known to have failed."""
    is_of_start = (
        _has_cause(evidence) and evidence.findings[0].symptom.verdict is Verdict.LAUNCH_FAILED
    )
    return Verdict.LAUNCH_FAILED if is_of_start and failure is None else Verdict.PROGRAM_FAILED


def _has_cause(evidence: Evidence) -> bool:
    """Return whether a root cause was found, and not only a sign of one."""
    return bool(evidence.findings) and evidence.findings[0].symptom.rank is Rank.CAUSE


def _failed_launch(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    if evidence.process_exit.signal is not None:
        return None
    if words.unstarted and not is_own_code(evidence):
        why = "" if _has_cause(evidence) else f": {_not_executed(words)}"
        said = f" (mpirun: exit code {evidence.code})"
        return _launch_failed(evidence, f"never started{why}", said=said)
    lacking = [
        word.host for word in words.daemons if word.fate in (DaemonFate.GONE, DaemonFate.UNSTARTED)
    ]
    has_its_code = evidence.code in _LAUNCH_CODES and not evidence.started_everywhere
    had_ranks = evidence.had_ranks or words.failures
    if had_ranks or not (lacking or has_its_code):
        return None
    names = tuple(dict.fromkeys(name for name in lacking if name))
    where = f", without its daemon on {fold_names(names)}" if names else ""
    lasted = describe_seconds(evidence.process_exit.duration_s)
    what = f"mpirun ended with exit code {evidence.code} after {lasted}{where}"
    return _launch_failed(evidence, f"probably never started: {what}")


def _launch_failed(evidence: Evidence, what: str, *, said: str = "") -> Judgement:
    return Judgement(
        verdict=Verdict.LAUNCH_FAILED,
        code=evidence.code,
        summary=f"{evidence.program} {what}",
        said=said,
    )


def _not_executed(words: LauncherWords) -> str:
    first = words.unstarted[0]
    hosts = tuple(dict.fromkeys(u.host for u in words.unstarted if u.program == first.program))
    why = f" ({first.why})" if first.why else ""
    return f'"{first.program}" cannot be executed on {fold_names(hosts)}{why}'
