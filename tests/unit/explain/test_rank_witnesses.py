"""Which rank is believed to have failed first, where many end within seconds."""

from __future__ import annotations

from dataclasses import replace

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.job.endings import Verdict
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.worker_news import RankExit, WorkerNews
from tests.builders import a_process_exit

ENDED_AT_S = a_process_exit(code=0).ended_at_s


def an_exit(
    rank: int, *, at_s: float, code: int | None = None, by_signal: int | None = None
) -> RankExit:
    """Return how a rank ended, so many seconds before mpirun."""
    return RankExit(rank=rank, code=code, signal=by_signal, at_s=ENDED_AT_S - at_s)


def evidence(code: int, implementation: Implementation, *news: WorkerNews) -> Evidence:
    """Return what is known when an mpirun of six ranks ended with a code."""
    return Evidence(
        process_exit=a_process_exit(code=code),
        program='"pi"',
        implementation=implementation,
        np=6,
        news=news,
        hosts=("w-0", "w-1", "w-2"),
        ranks_were_seen=True,
    )


def test_a_rank_that_takes_seconds_to_crash_was_the_first_all_the_same() -> None:
    """Hydra kills the others while it still writes its backtrace."""
    news = WorkerNews(
        host="w-2",
        saw_ranks=True,
        rank_exits=(an_exit(5, at_s=4.0, by_signal=9), an_exit(4, at_s=1.0, by_signal=11)),
    )

    ending = conclude(evidence(255, Implementation.MPICH, news))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 139)
    assert "of rank 4 on w-2" in ending.summary


def test_an_error_of_mpi_itself_gives_way_to_memory_that_ran_out_elsewhere() -> None:
    """A peer of the rank that was killed aborts, and Open MPI names that one."""
    words = "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD"
    killed = WorkerNews(host="w-2", saw_ranks=True, kills=1, used_bytes=400, limit_bytes=400)
    output = Output(lines=(OutputLine(text=words, stream=Stream.STDERR, number=1),))

    ending = conclude(replace(evidence(14, Implementation.OPEN_MPI, killed), output=output))

    assert ending.exit_code == 137
    assert "out of memory on w-2" in ending.summary


def test_a_lost_daemon_is_named_by_the_host_that_was_silent_afterwards() -> None:
    """Hydra names none."""
    lines = (
        "[proxy:0@w-0] HYD_pmcd_pmip_control_cmd_cb (proxy/pmip_cb.c:480): assert (!closed) failed",
        "[mpiexec@launcher] control_cb (mpiexec/pmiserv_cb.c:280): assert (!closed) failed",
    )
    output = Output(
        lines=tuple(
            OutputLine(text=text, stream=Stream.STDERR, number=number)
            for number, text in enumerate(lines, 1)
        )
    )
    known = replace(evidence(255, Implementation.MPICH), output=output, silent=("w-2",))

    ending = conclude(known)

    assert ending.verdict is Verdict.WORKERS_LOST
    assert "the MPI daemon on w-2 was lost" in ending.summary
    assert [loss.host for loss in ending.losses] == ["w-2"]


def test_a_rank_that_hydra_killed_on_its_way_out_does_not_deny_a_success() -> None:
    """Its work was done; one that was killed for its memory, or ended by a code, does."""
    on_its_way = WorkerNews(
        host="w-0", saw_ranks=True, rank_exits=(an_exit(1, at_s=0.1, by_signal=9),)
    )
    for_memory = replace(on_its_way, kills=1)
    by_code = replace(on_its_way, rank_exits=(an_exit(1, at_s=0.1, code=7),))

    endings = [
        conclude(evidence(0, Implementation.MPICH, news))
        for news in (on_its_way, for_memory, by_code)
    ]

    assert [ending.exit_code for ending in endings] == [0, 137, 7]
    assert endings[0].verdict is Verdict.SUCCEEDED
