"""From the bare exit to the ending: verdict, code and one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpi_agent.errors import WORKERS_LOST_CODE, HostsUnusedError
from mpi_agent.explain.exit_status import describe_exit, describe_seconds
from mpi_agent.job.amounts import render_memory
from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["blame_hosts", "conclude", "on_fewer_hosts", "with_news"]

_LAUNCH_CODES = frozenset({132, 183, 213, 250, 255})
"""Codes with which mpirun itself ends when the program never started; a program may use them too.

Source: Open MPI 4.1.4: 132 program missing, 255 a daemon failed; Open MPI 5.0.11: 183 program
missing, 213 and 250 bad usage, 255 a daemon failed; measured 2026-11.
"""

_EVICTED = ("was evicted", "were evicted")
_EVICTED_IDLE = ("was evicted when no program ran there", "were evicted when no program ran there")
_WENT_AWAY = ("went away", "went away")
"""What becomes of a worker, and of several; the last one without that it was told to end."""


def conclude(
    process_exit: ProcessExit,
    *,
    program: str,
    stopped_by: int | None,
    started_everywhere: bool = False,
    hides_stops: bool = False,
) -> Ending:
    """Return what an exit means.

    Args:
        program: what was run, for the sentence.
        stopped_by: signal that told us to stop, None when nobody did.
        started_everywhere: every host was dialled, so a code that mpirun uses for a failed start
            is not one.
        hides_stops: this mpirun may end with 0 when it was stopped, as MPICH 4.0.2's does.

    A program that ends with 0 after a stop was asked for has finished by itself and keeps its
    code; any other code is then mpirun's way of saying that it was stopped.
    """
    lasted = describe_seconds(process_exit.duration_s)
    how = describe_exit(process_exit)
    code = process_exit.shell_code
    if code == 0 and not (hides_stops and stopped_by is not None):
        verdict, summary = Verdict.SUCCEEDED, f"{program} succeeded after {lasted}"
    elif stopped_by is not None:
        verdict, code = Verdict.STOPPED, 128 + stopped_by
        summary = f"{program} was stopped on request after {lasted} (mpirun: {how})"
    elif code in _LAUNCH_CODES and not started_everywhere:
        verdict = Verdict.LAUNCH_FAILED
        summary = (
            f"{program} probably never started: mpirun ended with exit code {code} after {lasted}"
        )
    else:
        verdict, summary = Verdict.PROGRAM_FAILED, f"{program} failed with {how} after {lasted}"
    return Ending(verdict=verdict, exit_code=code, process_exit=process_exit, summary=summary)


def on_fewer_hosts(ending: Ending, why: str, *, ended_for_it: bool) -> Ending:
    """Return an ending of a program that was not on all hosts of its job, which nobody asked for.

    A success is none then: the work of one host is not the work of the job (promise P1). A code
    that tells of another failure is kept.

    Args:
        why: which hosts were left out.
        ended_for_it: the agent ended the program for that reason.
    """
    if ending.verdict is Verdict.STOPPED:
        return ending
    if ending.exit_code != 0 and not ended_for_it:
        return replace(ending, summary=f"{ending.summary}; {why}")
    code = HostsUnusedError.exit_code
    summary = f"the program ran on fewer hosts than the job has: {why}"
    return replace(ending, verdict=Verdict.LAUNCH_FAILED, exit_code=code, summary=summary)


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


def with_news(ending: Ending, news: Sequence[WorkerNews]) -> Ending:
    """Return an ending with what workers told: who ran out of memory, who is being evicted.

    Memory that ran out is the cause of a failure, whatever way mpirun has of saying so; to a
    success, or to a stop that was asked for, it is a remark.

    A worker that ended what was left of the program there is lost, whatever mpirun says. One whose
    ranks were told that it is evicted is lost if mpirun failed; if not, they ended in time, and
    that is a success. To one where no program ran the eviction made no difference. Nothing else
    counts, least of all which of it was known first: the news is weighed as a whole.

    Source: Open MPI 5.0.7, 2026-11-30: mpirun ends with 0 after "lost communication with a remote
    daemon", with 255 or 1 in other runs.

    Args:
        ending: without any news; what is known later is added to the same one.
    """
    is_failure = ending.verdict not in (Verdict.SUCCEEDED, Verdict.STOPPED)
    killed = _out_of_memory([host for host in news if host.kills])
    lost = [host for host in news if host.is_lost]
    if ending.verdict is Verdict.SUCCEEDED and lost:
        how = describe_exit(ending.process_exit)
        first = f"the program cannot have finished: {_evicted(lost)} while it ran (mpirun: {how})"
    else:
        first, lost = ending.summary, []
    if killed and is_failure:
        first, killed = f"{first}: {killed}", ""
    others = _evicted([host for host in news if host not in lost])
    told = replace(ending, summary="; ".join(part for part in (first, killed, others) if part))
    if not _has_lost_workers(ending, news):
        return told
    return replace(told, verdict=Verdict.WORKERS_LOST, exit_code=WORKERS_LOST_CODE)


def _has_lost_workers(ending: Ending, news: Sequence[WorkerNews]) -> bool:
    if ending.verdict is Verdict.STOPPED:
        return False
    has_failed = ending.process_exit.shell_code != 0
    return any(host.is_lost or (has_failed and host.ranks) for host in news)


def _out_of_memory(hosts: Sequence[WorkerNews]) -> str:
    """Return who ran out of memory; numbers are those of the first one."""
    if not hosts:
        return ""
    first, names = hosts[0], fold_names(tuple(host.host for host in hosts))
    how_much = render_memory(first.used_bytes, first.limit_bytes)
    if how_much and len(hosts) > 1:
        how_much = f"{how_much} on {first.host}"
    return f"out of memory on {names}" + (f", {how_much}" if how_much else "")


def _evicted(hosts: Sequence[WorkerNews]) -> str:
    """Return what became of those hosts that are not there any more."""
    fates: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        if fate := _fate_of(host):
            fates.setdefault(fate, []).append(host.host)
    return ", ".join(
        f"{fold_names(tuple(names))} {one if len(names) == 1 else several}"
        for (one, several), names in fates.items()
    )


def _fate_of(host: WorkerNews) -> tuple[str, str] | None:
    if not host.is_evicted:
        return _WENT_AWAY if host.is_lost else None
    return _EVICTED if host.is_lost or host.ranks else _EVICTED_IDLE
