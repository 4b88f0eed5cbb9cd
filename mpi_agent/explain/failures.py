"""Whether a program failed, or never started, when nobody ended it and nobody was lost."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.errors import MpirunNotFoundError
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_code, describe_seconds
from mpi_agent.explain.judgement import UNKNOWN_FAILURE_CODE, Judgement, as_mpirun_said
from mpi_agent.explain.launcher_reports import DaemonFate, LauncherWords, RankFailure
from mpi_agent.explain.rank_failures import first_failure
from mpi_agent.job.endings import Verdict, signal_name
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.symptoms import Kind, root_of

__all__ = ["judge_failure"]


def judge_failure(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    """Return how the program failed, or that it never started; None for one that succeeded.

    A success is denied by a worker that saw a rank end badly.
    """
    if evidence.process_exit.signal is not None:
        return _mpirun_was_killed(evidence)
    failure = first_failure(evidence, words)
    if failure is None and evidence.code == 0:
        return None
    if failure is None and (launch := _failed_launch(evidence, words)):
        return launch
    code = (failure.shell_code if failure else None) or evidence.code or UNKNOWN_FAILURE_CODE
    verdict = _verdict(evidence, failure)
    how = describe_code(code, is_launchers=verdict is Verdict.LAUNCH_FAILED)
    return Judgement(
        verdict=verdict,
        code=code,
        summary=f"{evidence.program} failed with {how}{_whose(failure)} after {_lasted(evidence)}",
        said=as_mpirun_said(evidence, unless=code),
        is_explained=failure is not None,
        has_known_code=failure is not None or evidence.is_own_code,
    )


def _lasted(evidence: Evidence) -> str:
    return describe_seconds(evidence.process_exit.duration_s)


def _mpirun_was_killed(evidence: Evidence) -> Judgement:
    """Return that the launcher is what was killed; what became of the ranks is no cause of it."""
    starts_mpirun = evidence.implementation is not None and not evidence.starts_ranks_itself
    what = "mpirun" if starts_mpirun else evidence.program
    how = signal_name(evidence.process_exit.signal or 0)
    return Judgement(
        verdict=_verdict(evidence, None),
        code=evidence.code,
        summary=f"{what} itself was killed by {how} after {_lasted(evidence)}",
        is_explained=True,
    )


def _whose(failure: RankFailure | None) -> str:
    if failure is None or (failure.rank is None and not failure.host):
        return ""
    who = "a rank" if failure.rank is None else f"rank {failure.rank}"
    where = f" on {failure.host}" if failure.host else ""
    return f" of {who}{where}" + (", which called MPI_Abort," if failure.called_abort else "")


def _verdict(evidence: Evidence, failure: RankFailure | None) -> Verdict:
    """Return the root symptom's verdict on a start, unless ranks are known to have run.

    A program may print what launchers say of a start: it may start others, by ssh as well.
    """
    root = root_of(evidence.findings)
    is_of_start = (
        root is not None
        and root.symptom.kind is Kind.CAUSE
        and root.symptom.verdict is Verdict.LAUNCH_FAILED
    )
    may_be_start = failure is None and evidence.may_be_unstarted
    return Verdict.LAUNCH_FAILED if is_of_start and may_be_start else Verdict.PROGRAM_FAILED


def _has_cause(evidence: Evidence) -> bool:
    """Return whether a root cause was found, and not only a sign of one."""
    root = root_of(evidence.findings)
    return root is not None and root.symptom.kind is Kind.CAUSE


def _failed_launch(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    codes, is_short = evidence.codes, not evidence.is_long
    if words.unstarted and is_short and evidence.code in codes.of_start | codes.of_start_if_said:
        return _never_started(evidence, words)
    lacking = [
        word.host for word in words.daemons if word.fate in (DaemonFate.GONE, DaemonFate.UNSTARTED)
    ]
    has_run = evidence.has_run or words.failures
    is_of_start = evidence.code in codes.of_start and is_short
    is_told_by_code = is_of_start and _is_told_by_the_code_alone(evidence)
    if has_run or not (lacking or is_told_by_code):
        return None
    names = tuple(dict.fromkeys(name for name in lacking if name))
    where = f", without its daemon on {fold_names(names)}" if names else ""
    what = f"mpirun ended with exit code {evidence.code} after {_lasted(evidence)}{where}"
    return _launch_failed(evidence, f"probably never started: {what}")


def _never_started(evidence: Evidence, words: LauncherWords) -> Judgement:
    """Return that the launcher itself says so, by its code unless that has another meaning here.

    For a name that no PATH has, Open MPI 4 ends with 134, which is a rank's SIGABRT, and 5 with 66,
    which is our own for a job without hosts.
    """
    why = "" if _has_cause(evidence) else f": {_not_executed(words)}"
    said = f" (mpirun: exit code {evidence.code})"
    judged = _launch_failed(evidence, f"never started{why}", said=said)
    has_other_meaning = evidence.code in evidence.codes.of_start_if_said
    return replace(judged, code=MpirunNotFoundError.exit_code) if has_other_meaning else judged


def _is_told_by_the_code_alone(evidence: Evidence) -> bool:
    """Return whether a code of failed starts tells of one though nothing else does.

    Not where the code is a script's, nor where one rank is all there is: Open MPI 5 names the rank
    that ended badly only among several.

    Source: Open MPI 5.0.11, `mpirun -np 1 sh -c 'exit 255'`: 255 and no word, 2026-11-30.
    """
    return not (evidence.started_everywhere or evidence.starts_ranks_itself or evidence.np == 1)


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
