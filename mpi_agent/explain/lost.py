"""Whether workers were lost under the program, whoever says so.

The agent's own watch, a worker that ended what was left there, and what the launcher says of its
daemons: a host whose daemon was killed counts as lost, for nothing the ranks there do reaches the
job any more. mpirun's code is not asked: Open MPI 5 may end with 0.

Source: Open MPI 5.0.11, 2026-11-30: a daemon killed, three times of three: code 0 after `PRTE has
lost communication with a remote daemon`; a host killed: code 0 after `A daemon failed to report
back after being spawned`, on stdout. Open MPI 4.1.4: 205, or the ssh client's code after `ORTE was
unable to reliably start one or more daemons`. MPICH 4.0.2 and 5.0.2: 255 after `assert (!closed)
failed`. Intel MPI 2021.19: 137 or 255 after `Downstream from host ... exited abnormally`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpi_agent.errors import WORKERS_LOST_CODE
from mpi_agent.explain.evidence import Evidence, is_same_host
from mpi_agent.explain.exit_status import describe_seconds
from mpi_agent.explain.fates import EVICTED_WHY, evicted
from mpi_agent.explain.judgement import Judgement, as_mpirun_said
from mpi_agent.explain.launcher_reports import DaemonFate, DaemonWord, LauncherWords
from mpi_agent.explain.rank_failures import failure_seen
from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Verdict
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.worker_news import WorkerNews

__all__ = ["judge_lost_daemons", "with_lost_workers"]


def judge_lost_daemons(evidence: Evidence, words: LauncherWords) -> Judgement | None:
    """Return that daemons were lost; None where the launcher does not say so.

    Only for a program that nobody ended: a launcher that is being ended says so too. A rank that it
    names as the first to fail is the cause, and the daemons went after it. Which hosts
    they are is told best by who did not answer afterwards: Hydra names none, and others may call a
    host by the name of its machine.
    """
    if evidence.code and any(failure.is_first for failure in words.failures):
        return None
    lost = [word for word in words.daemons if _is_lost(word, evidence, words)]
    if not lost and not _says_so_by_its_code(evidence):
        return None
    names = evidence.silent or _without_short_twins([word.host for word in lost if word.host])
    lasted_s = evidence.process_exit.duration_s
    whose = f" on {fold_names(names)}" if names else ""
    summary = f"the MPI daemon{whose} was lost after {describe_seconds(lasted_s)}"
    if evidence.code == 0:
        summary = f"{summary}: {evidence.program} cannot have finished"
    why = "its MPI daemon was lost"
    return Judgement(
        verdict=Verdict.WORKERS_LOST,
        code=WORKERS_LOST_CODE,
        summary=summary,
        said=as_mpirun_said(evidence),
        losses=tuple(
            HostLoss(host=name, why=why, after_s=lasted_s, noticed_after_s=0.0) for name in names
        ),
    )


def _is_lost(word: DaemonWord, evidence: Evidence, words: LauncherWords) -> bool:
    if evidence.code == 0:
        return word.denies_success and not evidence.is_hydra
    ends_so = evidence.codes.of_daemon | evidence.codes.of_its_client
    if evidence.process_exit.signal is None and evidence.code not in ends_so:
        return False  # the program went on after it, and may have said it itself
    if word.fate is DaemonFate.GONE:
        return evidence.has_run and not _is_about_ranks(words)
    if word.fate is DaemonFate.CLOSED:
        return not _is_about_ranks(words) and _has_closed_under_mpirun(evidence)
    return word.fate is DaemonFate.LOST


def _has_closed_under_mpirun(evidence: Evidence) -> bool:
    """Return whether neither mpirun nor a rank ended before, after which connections close."""
    return evidence.process_exit.signal is None and failure_seen(evidence) is None


def _is_about_ranks(words: LauncherWords) -> bool:
    """Return whether ranks are listed as ended, after which connections close as well."""
    return bool(words.failures)


def _says_so_by_its_code(evidence: Evidence) -> bool:
    """Return whether Open MPI's code tells of a daemon; it would name a rank that ended so.

    Only among several ranks: the code of a single one is handed on without a word.
    """
    is_open_mpi = evidence.implementation is not None and not evidence.is_hydra
    if not is_open_mpi or evidence.process_exit.code not in evidence.codes.of_daemon:
        return False
    if evidence.starts_ranks_itself or evidence.np == 1:
        return False
    if evidence.process_exit.code in evidence.codes.of_start:
        return evidence.had_ranks and not any(host.rank_exits for host in evidence.news)
    return True


def _without_short_twins(names: Sequence[str]) -> tuple[str, ...]:
    """Return names once each, without those that another one begins with: `w-1` and `w-1.job`."""
    once = tuple(dict.fromkeys(names))
    return tuple(name for name in once if not any(other.startswith(f"{name}.") for other in once))


def with_lost_workers(judged: Judgement, evidence: Evidence) -> Judgement:
    """Return a judgement with the workers that told that they are lost.

    A worker that ended what was left of the program there is lost, whatever mpirun says. One whose
    ranks were told that it is evicted is lost if mpirun failed; if not, they ended in time, and
    that is a success. To one where no program ran the eviction made no difference. Nothing else
    counts, least of all which of it was known first: the news is weighed as a whole.
    """
    lost = [host for host in evidence.news if _counts_as_lost(host, evidence)]
    if not lost:
        return judged
    names = tuple(host.host for host in lost)
    if not judged.named and all(_is_among(names, loss.host) for loss in judged.losses):
        judged = Judgement(
            verdict=Verdict.WORKERS_LOST,
            code=WORKERS_LOST_CODE,
            summary=_loss_in_words(lost, evidence),
            said=as_mpirun_said(evidence),
            named=names,
        )
    known = tuple(loss.host for loss in judged.losses)
    losses = [_loss(host, evidence) for host in lost if not _is_among(known, host.host)]
    return replace(
        judged,
        verdict=Verdict.WORKERS_LOST,
        code=WORKERS_LOST_CODE,
        losses=(*judged.losses, *losses),
    )


def _is_among(names: Sequence[str], host: str) -> bool:
    return any(is_same_host(name, host) for name in names)


def _loss_in_words(lost: Sequence[WorkerNews], evidence: Evidence) -> str:
    """Return who was lost: the beginning of the line, for it is the reason of all else."""
    if evidence.code == 0:
        return f"the program cannot have finished: {evicted(lost)} while it ran"
    return f"{evicted(lost)} after {describe_seconds(evidence.process_exit.duration_s)}"


def _counts_as_lost(host: WorkerNews, evidence: Evidence) -> bool:
    return host.is_lost or (evidence.code != 0 and host.is_evicted and host.ranks > 0)


def _loss(host: WorkerNews, evidence: Evidence) -> HostLoss:
    why = EVICTED_WHY if host.is_evicted else "it ended what was left of the program there"
    return HostLoss(
        host=host.host, why=why, after_s=evidence.process_exit.duration_s, noticed_after_s=0.0
    )
