"""Whether a program that was to be stopped was stopped, or ended by itself in time.

Where the ranks alone were told, mpirun's code is still the program's: it finished with 0, it ended
with a code of its own, or the stop's signal killed it. Where mpirun was told too, any code but 0 is
its way of saying that it was stopped.
"""

from __future__ import annotations

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_seconds
from mpi_agent.explain.judgement import Judgement, as_mpirun_said
from mpi_agent.explain.launcher_words import LauncherWords
from mpi_agent.explain.rank_failures import first_failure, is_own_code, may_be_clean_up
from mpi_agent.job.endings import Verdict

__all__ = ["judge_stop"]


def judge_stop(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    """Return that the program was stopped on request; None where nobody asked, or it ended."""
    if evidence.stopped_by is None or not _was_stopped(evidence, words):
        return None
    lasted = describe_seconds(evidence.process_exit.duration_s)
    return Judgement(
        verdict=Verdict.STOPPED,
        code=128 + evidence.stopped_by,
        summary=f"{evidence.program} was stopped on request after {lasted}",
        said=as_mpirun_said(evidence),
    )


def _was_stopped(evidence: Evidence, words: LauncherWords) -> bool:
    if evidence.alarm is not None or any(host.is_lost for host in evidence.news):
        return True
    if evidence.code == 0:
        hides_it = evidence.mpirun_was_told and evidence.hides_stops
        return hides_it or _killed_by_the_stop(evidence, words)
    if evidence.mpirun_was_told or evidence.process_exit.signal is not None:
        return True
    return _ended_by_the_stop(evidence, words)


def _ended_by_the_stop(evidence: Evidence, words: LauncherWords) -> bool:
    """Return whether ranks that were told to stop ended for it, going by a code that is not 0."""
    if evidence.code in {128 + number for number in _signals(evidence)}:
        return True
    if _killed_by_the_stop(evidence, words):
        return True
    if is_own_code(evidence) or evidence.code == 1:
        return False  # Open MPI's 1 is its own only when it was told itself
    failure = first_failure(evidence, words)
    return failure is None or may_be_clean_up(failure, evidence)


def _killed_by_the_stop(evidence: Evidence, words: LauncherWords) -> bool:
    numbers = _signals(evidence)
    told = {failure.signal for failure in words.failures if evidence.code}
    seen = {rank_exit.signal for host in evidence.news for rank_exit in host.rank_exits}
    return not numbers.isdisjoint(told | seen)


def _signals(evidence: Evidence) -> set[int]:
    return {evidence.stop_signal, evidence.stopped_by or evidence.stop_signal}
