"""Which rank failed first, and how: from what launchers say, what workers saw, and mpirun's code.

mpirun ends the other ranks when one has failed, and a rank whose peer is gone often fails by
itself. So many end badly within a moment, and who is asked decides who was first:

1. Open MPI names the first one, and MPI_Abort the rank that called it;
2. a code that mpirun does not use itself is the program's own;
3. workers see every rank go, in an order that is as good as a network allows: what looks like the
   clean-up of others (TERM, KILL, MPI's own error code) comes last;
4. Hydra lists ranks that were killed: those by KILL may be the clean-up.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19, 2026-11 and
2026-11-30: Intel's ends with 255 for a rank's code 7 and for its SIGKILL on one host, with 137 for
SIGTERM; MPICH's with 255, 15 or the bare number of the signal; both kill the other ranks by KILL.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.launcher_reports import LauncherWords, RankFailure
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.worker_news import RankExit

__all__ = ["SOON_S", "failure_seen", "first_failure", "may_be_clean_up"]

_SIGKILL, _SIGTERM = 9, 15
SOON_S = 1.0
"""What ends within this time of the first one may have been reported in another order."""
_SLOW_S = 10.0
"""How long a rank may take to die of a signal of its own while others are ended already.

Source: MPICH 4.2.1 with UCX, 2026-11-30: a backtrace is written first, for seconds.
"""
_LIKE_CLEAN_UP = 2
_LAST_S = 30.0
"""Where ranks may fail and the program goes on, only what failed so close to the end counts."""


def first_failure(evidence: Evidence, words: LauncherWords) -> RankFailure | None:
    """Return the rank that failed first, as far as it is known; None for a program that has none.

    A code of the program that nobody says more of is no failure of a known rank. A success is
    denied by a worker that saw a rank end badly, unless the program may go on without it.
    """
    if evidence.process_exit.signal is not None:
        return None  # mpirun itself was killed; what became of its ranks is no cause
    seen = failure_seen(evidence)
    if evidence.code == 0:
        return seen if seen is not None and _denies_success(seen, evidence) else None
    told = _told(evidence, words)
    if told is not None:
        return _before(seen, told, evidence)
    listed = _listed(evidence, words)
    if evidence.is_own_code and listed is None:
        return seen if seen is not None and evidence.code in (seen.code, seen.shell_code) else None
    if seen is not None and not may_be_clean_up(seen, evidence):
        return seen
    if listed is not None and not may_be_clean_up(listed, evidence):
        return listed
    return seen or listed or _killed_for_memory(evidence)


def _denies_success(seen: RankFailure, evidence: Evidence) -> bool:
    """Return whether a rank that ended badly makes mpirun's 0 a failure.

    Hydra's KILL does not, unless memory ran out there.

    Source: MPICH 4.0.2 with Python ranks, 2026-11-30: mpiexec ended with 0, all ranks were done,
    and one of them, on its way out of the interpreter, was killed by its proxy.
    """
    if evidence.may_lose_ranks:
        return False
    ran_out = any(host.host == seen.host and host.kills for host in evidence.news)
    return ran_out or seen.signal != _SIGKILL or not evidence.is_hydra


def _told(evidence: Evidence, words: LauncherWords) -> RankFailure | None:
    """Return whom the launcher names as the first, if mpirun's code fits what it says."""
    told = [failure for failure in words.failures if failure.is_first]
    fits = [failure for failure in told if failure.shell_code in (evidence.code, None)]
    if fits:
        return fits[-1]
    return told[-1] if told and not evidence.is_own_code else None


def failure_seen(evidence: Evidence) -> RankFailure | None:
    """Return who failed first as workers saw it."""
    exits = sorted(_bad_exits(evidence), key=lambda seen: seen[1].at_s)
    if not exits:
        return None
    killed_hosts = {host.host for host in evidence.news if host.kills}
    for host, rank_exit in exits:
        if host in killed_hosts and rank_exit.signal == _SIGKILL:
            return _failure(host, rank_exit)
    latest_s = exits[0][1].at_s + SOON_S
    soon = [seen for seen in exits if seen[1].at_s <= latest_s]
    if all(_doubt(seen[1], evidence) >= _LIKE_CLEAN_UP for seen in soon):
        slow_s = exits[0][1].at_s + _SLOW_S
        soon += [seen for seen in exits[len(soon) :] if seen[1].at_s <= slow_s]
    own = [seen for seen in soon if seen[1].code == evidence.code and evidence.is_own_code]
    first = own[0] if own else min(soon, key=lambda seen: (_doubt(seen[1], evidence), seen[1].at_s))
    return _failure(*first)


def _bad_exits(evidence: Evidence) -> Iterator[tuple[str, RankExit]]:
    for host in evidence.news:
        for rank_exit in host.rank_exits:
            if rank_exit.is_bad and not _is_no_cause(rank_exit, evidence):
                yield host.host, rank_exit


def _is_no_cause(seen: RankExit, evidence: Evidence) -> bool:
    """Return whether the program is known to have gone on after it, or to have ended before it."""
    is_early = seen.at_s < evidence.process_exit.ended_at_s - _LAST_S
    return (evidence.may_lose_ranks and is_early) or _is_our_sweep(seen, evidence)


def _is_our_sweep(seen: RankExit, evidence: Evidence) -> bool:
    """Return whether it may be what the agent ended on the host after an mpirun that succeeded."""
    is_late = seen.at_s > evidence.process_exit.ended_at_s
    return evidence.code == 0 and is_late and seen.signal in (_SIGTERM, _SIGKILL)


def _failure(host: str, seen: RankExit) -> RankFailure:
    return RankFailure(rank=seen.rank, host=host, code=seen.code, signal=seen.signal)


def _doubt(seen: RankExit, evidence: Evidence) -> int:
    """Return how much an exit looks like a consequence of another one."""
    if may_be_clean_up(_failure("", seen), evidence):
        return _LIKE_CLEAN_UP if seen.signal == _SIGTERM else _LIKE_CLEAN_UP + 1
    return 0 if seen.signal not in (None, _SIGKILL) else 1


def may_be_clean_up(failure: RankFailure, evidence: Evidence) -> bool:
    """Return whether a rank may have ended so because another one had failed before.

    Hydra ends the others by KILL, Open MPI by TERM first.
    """
    if failure.signal is None:
        return failure.code is not None and failure.code == evidence.codes.mpi_error
    return failure.signal == _SIGTERM or (failure.signal == _SIGKILL and evidence.is_hydra)


def _before(seen: RankFailure | None, told: RankFailure, evidence: Evidence) -> RankFailure:
    """Return whom workers saw, where the one that is named ended by an error of MPI itself."""
    code = evidence.code if told.shell_code is None else told.shell_code
    is_doubtful = code == evidence.codes.mpi_error
    if seen is None and is_doubtful:
        return _killed_for_memory(evidence) or told
    if seen is None or not is_doubtful or may_be_clean_up(seen, evidence):
        return told
    return seen


def _listed(evidence: Evidence, words: LauncherWords) -> RankFailure | None:
    """Return whom Hydra's list of killed ranks tells as the first, if mpirun's code fits it.

    Where all of them were killed by KILL, and one that ended by a code would not be listed, nothing
    tells: Intel's 255 stands then.
    """
    killed = [failure for failure in words.failures if not failure.is_first and failure.signal]
    if not killed:
        return None
    code = evidence.code
    for failure in killed:
        number = failure.signal or 0
        if number != _SIGKILL and (not evidence.is_own_code or _says(code, number)):
            return failure
    is_intel = evidence.implementation is Implementation.INTEL_MPI
    is_complete = evidence.np is not None and len({f.rank for f in killed}) == evidence.np
    if evidence.is_own_code and not _says(code, _SIGKILL):
        return None
    if is_intel and code == 255 and not is_complete:
        return None
    hosts = {failure.host for failure in killed}
    host = killed[0].host if len(hosts) == 1 else ""
    rank = killed[0].rank if len(killed) == 1 else None
    return RankFailure(rank=rank, host=host, signal=_SIGKILL)


def _says(code: int, number: int) -> bool:
    """Return whether a code tells of a signal: 128 + n, or MPICH's bits of all ranks' signals."""
    return code == 128 + number or (code < 32 and code & number == number)


def _killed_for_memory(evidence: Evidence) -> RankFailure | None:
    """Return that a rank was killed where memory ran out, when mpirun's code says nothing else."""
    hosts = [host.host for host in evidence.news if host.kills]
    if not hosts or not (evidence.is_hydra or evidence.code == evidence.codes.mpi_error):
        return None
    return RankFailure(host=hosts[0] if len(hosts) == 1 else "", signal=_SIGKILL)
