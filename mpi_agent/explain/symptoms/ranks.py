"""Ranks that ended badly, as launchers tell it: signals, codes, MPI_Abort."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import Row, row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED
_KILL = 9
_STACKS = "Open MPI 4, Open MPI 5, MPICH, Intel MPI"
_SOURCE = "Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19, measured 2026-11"


def _signal(
    symptom_id: str, number: int, *others: str, cause: str, remedy: str, stacks: str = _STACKS
) -> Row:
    """Return the row of a signal that a rank died of.

    MPICH shows a signal as an exit code. Both it and Intel MPI kill the other ranks by signal 9 and
    tell of these too, even before the one that mattered, so that their 9 has a row of its own.

    Source: MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19, measured 2026-11.
    """
    hydra = (
        f"PID {{}} RUNNING AT {{host}}\nEXIT CODE: {number}$",
        f"RANK {{rank}} PID {{}} RUNNING AT {{host}}\nKILLED BY SIGNAL: {number} (",
    )
    return row(
        symptom_id,
        f"process rank {{rank}} with PID {{}} on node {{host}} exited on signal {number} (",
        f"process rank {{rank}} with PID {{}} on node {{host}} exited on\nsignal {number} (",
        *(hydra if number != _KILL else ()),
        *others,
        stacks=stacks,
        is_last_word=True,
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause=cause,
        remedy=remedy,
        source=_SOURCE,
    )


ROWS = (
    _signal(
        "rank-segfault",
        11,
        "[{host}:{} {...}Caught signal 11 (Segmentation fault",
        "[{host}:{}] Signal: Segmentation fault (11)",
        cause='[rank {rank}|a rank][ on "{host}"] crashed with a segmentation fault',
        remedy="see the backtrace beside it; a library built for another MPI does this too",
    ),
    _signal(
        "rank-aborted",
        6,
        "[{host}:{}] Signal: Aborted (6)",
        cause='[rank {rank}|a rank][ on "{host}"] aborted itself (SIGABRT)',
        remedy="see what it said before: a failed assertion, or an exception that nobody caught",
    ),
    _signal(
        "rank-illegal-instruction",
        4,
        "[{host}:{}] Signal: Illegal instruction (4)",
        cause='[rank {rank}|a rank][ on "{host}"] used an instruction that its CPU does not have',
        remedy="build for the oldest CPU among the nodes, not with -march=native",
    ),
    _signal(
        "rank-arithmetic",
        8,
        "[{host}:{}] Signal: Floating point exception (8)",
        cause='[rank {rank}|a rank][ on "{host}"] divided by zero or trapped such (SIGFPE)',
        remedy="see the backtrace beside it",
    ),
    _signal(
        "rank-broken-pipe",
        13,
        cause='[rank {rank}|a rank][ on "{host}"] wrote to what nobody reads any more (SIGPIPE)',
        remedy="see what read its output; Open MPI 5.0.7 also says so of a program that cannot be"
        " executed: check its first line (#!) and that it is built for the node's architecture",
    ),
    _signal(
        "rank-terminated",
        15,
        cause='[rank {rank}|a rank][ on "{host}"] was told to end (SIGTERM) by something outside',
        remedy="see who stops pods or processes there: an eviction, a time limit, a script",
    ),
    _signal(
        "rank-killed",
        _KILL,
        cause='[rank {rank}|a rank][ on "{host}"] was killed (SIGKILL), most often for its memory',
        remedy="see whether the pod was OOMKilled; raise its memory limit, or use fewer ranks on"
        " each worker",
    ),
    row(
        "mpi-abort",
        "MPI_ABORT was invoked on rank {rank} in communicator",
        "application called MPI_Abort({...}) - process {rank}",
        stacks=_STACKS,
        is_last_word=True,
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="rank {rank} ended the job by MPI_Abort",
        remedy="see what that rank said before",
        source=_SOURCE,
    ),
    row(
        "rank-exit-code",
        "Process name: [[{},{}],{rank}]\nExit code: {...}{code}$",
        "Process name: [{},{rank}]\nExit code: {...}{code}$",
        stacks="Open MPI 4, Open MPI 5",
        is_last_word=True,
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="rank {rank} was the first to end with an exit code, {code}",
        remedy="see what that rank said before",
        source=_SOURCE,
    ),
    row(
        "hydra-rank-killed",
        "PID {} RUNNING AT {host}\nEXIT CODE: 9$",
        "RANK {rank} PID {} RUNNING AT {host}\nKILLED BY SIGNAL: 9 (",
        stacks="MPICH, Intel MPI",
        is_last_word=True,
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause='[rank {rank}|a rank] on "{host}" was killed (SIGKILL), by mpirun after another rank'
        " ended or for its memory",
        remedy="look for the rank that ended first, and see whether the pod was OOMKilled",
        source="MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19, measured 2026-11: bystanders are listed"
        " as well",
    ),
    row(
        "mpich-fatal-error",
        "Abort({}) on node {} (rank {rank} in comm {}): Fatal error in {call}: {why...}$",
        stacks="MPICH, Intel MPI",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="rank {rank} ended because {call} failed, as it does when another rank is gone",
        remedy="see the error stack below it, and look for a rank that ended before",
        source="MPICH 4.0.2, measured 2026-11",
    ),
)
