"""A rank that failed while the others went on: MPICH waits for ever, and so do they.

Source: rank exit 7 without MPI_Finalize hangs MPICH 4.0.2 and 5.0.2; Open MPI 4.1.4, 5.0.11 and
Intel MPI 2021.19 end the job within two seconds, 2026-11.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.endings import signal_name
from mpi_agent.job.worker_news import RankExit, WorkerNews

__all__ = ["first_bad_exit", "goes_on_after_failures", "rank_failed"]

_LOOK_S = 0.5
_SOON_S = 1.0
"""What ends within this time may be heard of in another order."""
_FROM_OUTSIDE = frozenset({9, 15})
"""KILL and TERM: nobody sends himself these when he crashes"""
_OPTIONS = frozenset({"disable-auto-cleanup", "enable-recovery", "continuous"})
_RUNTIME_OPTIONS = frozenset({"rtos", "runtime-options"})
_WORDS = frozenset({"recoverable", "continuous", "error-nonzero-status=0"})
_PARAMETER = re.compile(r"(?:OMPI_MCA_|PRTE_MCA_)?(?:orte|prte)_abort_on_non_zero_status")
_OFF = frozenset({"0", "false", "no", "off"})


async def rank_failed(news: Callable[[], Iterable[WorkerNews]], *, grace_s: float | None) -> Alarm:
    """Return that a rank failed, once the others went on for the grace after it; else never.

    A program that starts its processes itself, as a script does, must not be watched so: it may
    have seen the failure of one mpirun, and go on with the next.

    Args:
        news: what workers told; it is asked while the program runs.
        grace_s: None for a program that may go on for ever.
    """
    while grace_s is not None:
        found = first_bad_exit(news())
        if found is not None:
            host, rank_exit = found
            since_s = asyncio.get_running_loop().time() - rank_exit.at_s
            if since_s >= grace_s:
                return Alarm(
                    kind=AlarmKind.RANK_FAILED,
                    why=_sentence(host, rank_exit, since_s),
                    exit_code=rank_exit.shell_code,
                )
        await asyncio.sleep(_LOOK_S)
    await asyncio.Event().wait()
    raise AssertionError("nobody sets that event")


def first_bad_exit(news: Iterable[WorkerNews]) -> tuple[str, RankExit] | None:
    """Return the rank that failed first, with its host; None where none is known to have failed.

    One that ended by itself counts before those that were ended by a signal from outside: a
    launcher kills the others at once, and while the first one still writes its backtrace.
    """
    bad = [(worker.host, gone) for worker in news for gone in worker.rank_exits if gone.is_bad]
    bad.sort(key=lambda pair: pair[1].at_s)
    if bad and bad[0][1].signal in _FROM_OUTSIDE:
        soon_s = bad[0][1].at_s + _SOON_S
        by_itself = (pair for pair in bad if _has_crashed(pair[1]) or _ended_soon(pair[1], soon_s))
        return next(by_itself, bad[0])
    return bad[0] if bad else None


def _ended_soon(gone: RankExit, soon_s: float) -> bool:
    return gone.signal is None and gone.at_s <= soon_s


def _has_crashed(gone: RankExit) -> bool:
    return gone.signal is not None and gone.signal not in _FROM_OUTSIDE


def goes_on_after_failures(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether the user asked the launcher to let the others go on when a rank fails.

    Source: mpirun(1) of Open MPI 4.1.4, --enable-recovery and orte_abort_on_non_zero_status;
    prterun of PRRTE 3.0, `--rtos recoverable,continuous`; mpiexec of MPICH 4.0.2 and Intel MPI
    2021.18, -disable-auto-cleanup.
    """
    pairs = [*itertools.pairwise((*argv, "")), *environ.items()]
    return any(_lets_others_go_on(name, value.lower()) for name, value in pairs)


def _lets_others_go_on(word: str, value: str) -> bool:
    option = word.lstrip("-") if word.startswith("-") else ""
    if option in _RUNTIME_OPTIONS:
        return bool(_WORDS & set(value.split(",")))
    return option in _OPTIONS or (_PARAMETER.fullmatch(word) is not None and value in _OFF)


def _sentence(host: str, gone: RankExit, since_s: float) -> str:
    how = f"exit code {gone.code}" if gone.signal is None else signal_name(gone.signal)
    return f"rank {gone.rank} on {host} ended with {how} {since_s:.0f} s ago and the others went on"
