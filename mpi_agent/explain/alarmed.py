"""What it means that the agent itself ended the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mpi_agent.errors import (
    RANKS_STALLED_CODE,
    START_TOO_LATE_CODE,
    WORKERS_LOST_CODE,
    HostsUnusedError,
)
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_code, describe_seconds
from mpi_agent.explain.fates import losses_in_words
from mpi_agent.explain.judgement import UNKNOWN_FAILURE_CODE, Judgement
from mpi_agent.explain.launcher_reports import LauncherWords
from mpi_agent.explain.rank_failures import failure_seen
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import Verdict

__all__ = ["judge_alarm"]


def judge_alarm(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    """Return why the agent ended the program; None where it did not.

    mpirun's code is then that of being ended, and says nothing.
    """
    alarm = evidence.alarm
    return _JUDGES[alarm.kind](alarm, evidence, words) if alarm is not None else None


def _hosts_not_dialled(alarm: Alarm, _evidence: Evidence, _words: LauncherWords) -> Judgement:
    return Judgement(
        verdict=Verdict.LAUNCH_FAILED,
        code=HostsUnusedError.exit_code,
        summary=f"the program ran on fewer hosts than the job has: {alarm.why}",
    )


def _start_too_late(alarm: Alarm, evidence: Evidence, _words: LauncherWords) -> Judgement:
    if alarm.ranks_were_seen:
        return Judgement(
            verdict=Verdict.WORKERS_LOST,
            code=WORKERS_LOST_CODE,
            summary=f"{evidence.program} did not start on every host in time: {alarm.why}",
        )
    return Judgement(
        verdict=Verdict.LAUNCH_FAILED,
        code=START_TOO_LATE_CODE,
        summary=f"{evidence.program} did not start in time: {alarm.why}",
    )


def _workers_lost(alarm: Alarm, evidence: Evidence, _words: LauncherWords) -> Judgement:
    lasted_s = alarm.losses[0].after_s if alarm.losses else evidence.process_exit.duration_s
    alone = losses_in_words(alarm.losses)
    return Judgement(
        verdict=Verdict.WORKERS_LOST,
        code=WORKERS_LOST_CODE,
        summary=alone or f"workers lost after {describe_seconds(lasted_s)}: {alarm.why}",
        losses=alarm.losses,
        named=tuple(loss.host for loss in alarm.losses),
    )


def _rank_failed(alarm: Alarm, evidence: Evidence, words: LauncherWords) -> Judgement:
    code = alarm.exit_code
    if code is None:
        failures = (failure_seen(evidence), *words.failures)
        code = next((f.shell_code for f in failures if f is not None and f.shell_code), None)
    lasted = describe_seconds(evidence.process_exit.duration_s)
    how = f" with {describe_code(code)}" if code else ""
    return Judgement(
        verdict=Verdict.PROGRAM_FAILED,
        code=code or UNKNOWN_FAILURE_CODE,
        summary=f"{evidence.program} failed{how} after {lasted}: {alarm.why}",
    )


def _ranks_stalled(alarm: Alarm, evidence: Evidence, _words: LauncherWords) -> Judgement:
    lasted = describe_seconds(evidence.process_exit.duration_s)
    return Judgement(
        verdict=Verdict.STALLED,
        code=RANKS_STALLED_CODE,
        summary=f"{evidence.program} stalled, and was ended after {lasted}: {alarm.why}",
    )


_JUDGES: Mapping[AlarmKind, Callable[[Alarm, Evidence, LauncherWords], Judgement]] = {
    AlarmKind.HOSTS_NOT_DIALLED: _hosts_not_dialled,
    AlarmKind.START_TOO_LATE: _start_too_late,
    AlarmKind.WORKERS_LOST: _workers_lost,
    AlarmKind.RANK_FAILED: _rank_failed,
    AlarmKind.RANKS_STALLED: _ranks_stalled,
}
