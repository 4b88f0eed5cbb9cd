"""Whether a program that was to be stopped was stopped, or ended by itself in time.

Where the ranks alone were told, mpirun's code is still the program's: it finished with 0, it ended
with a code of its own, or the stop's signal killed it; the first rank that ended decides, for what
the launcher ends afterwards is not the stop's. Where mpirun was told too, any code but 0 is
its way of saying that it was stopped.
"""

from __future__ import annotations

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.exit_status import describe_seconds
from mpi_agent.explain.judgement import Judgement, as_mpirun_said
from mpi_agent.explain.launcher_reports import LauncherWords, RankFailure
from mpi_agent.explain.rank_failures import SOON_S, first_failure, may_be_clean_up
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
    failure = first_failure(evidence, words)
    if failure is not None and _is_of_its_own(failure, evidence):
        return _was_preceded(failure, evidence)
    if evidence.code in {128 + number for number in _signals(evidence)}:
        return True
    if _killed_by_the_stop(evidence, words):
        return True
    if evidence.is_own_code or evidence.code == 1:
        return False  # Open MPI's 1 is its own only when it was told itself
    return failure is None or may_be_clean_up(failure, evidence)


def _is_of_its_own(failure: RankFailure, evidence: Evidence) -> bool:
    """Return whether a rank ended in a way that is neither the stop's nor another rank's doing."""
    return failure.signal not in _signals(evidence) and not may_be_clean_up(failure, evidence)


def _was_preceded(failure: RankFailure, evidence: Evidence) -> bool:
    """Return whether another rank had died of the stop before one ended by itself.

    Launchers end the others by TERM as well, so whoever died of it afterwards is a bystander. What
    nobody saw of the rank that ended by itself is taken for later.
    """
    exits = [rank_exit for host in evidence.news for rank_exit in host.rank_exits]
    stopped_at_s = [e.at_s for e in exits if e.signal in _signals(evidence)]
    ended_at_s = [e.at_s for e in exits if e.is_bad and e.shell_code == failure.shell_code]
    if not (stopped_at_s and ended_at_s):
        return bool(stopped_at_s)
    return min(stopped_at_s) + SOON_S < min(ended_at_s)


def _killed_by_the_stop(evidence: Evidence, words: LauncherWords) -> bool:
    numbers = _signals(evidence)
    told = {failure.signal for failure in words.failures if evidence.code}
    seen = {rank_exit.signal for host in evidence.news for rank_exit in host.rank_exits}
    return not numbers.isdisjoint(told | seen)


def _signals(evidence: Evidence) -> set[int]:
    return {evidence.stop_signal, evidence.stopped_by or evidence.stop_signal}
