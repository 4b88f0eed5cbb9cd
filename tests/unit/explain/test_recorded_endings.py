"""The same event ends the same way under every launcher: recorded runs, judged as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.job.endings import ProcessExit, Verdict
from mpi_agent.job.output import OutputLine, Stream
from mpi_agent.job.stacks import Implementation
from mpi_agent.job.worker_news import RankExit, WorkerNews
from tests.builders import a_process_exit
from tests.recorded import CORPUS, recorded


def evidence_of(name: str, *news: WorkerNews, np: int | None = None) -> Evidence:
    """Return what a recorded run shows, with what workers told."""
    run = recorded(name)
    assert run.code is not None, "it was still running"
    return Evidence(
        process_exit=a_process_exit(code=run.code),
        program='"app"',
        implementation=run.implementation,
        np=np,
        output=run.output,
        news=news,
    )


FAILED, LOST, UNSTARTED = Verdict.PROGRAM_FAILED, Verdict.WORKERS_LOST, Verdict.LAUNCH_FAILED

SAME_EVENT: dict[str, tuple[Verdict, int | None]] = {
    "rank-exit7": (FAILED, 7),
    "rank-exit7-after-finalize": (FAILED, 7),
    "nonmpi-exit7": (FAILED, 7),
    "mpi-abort3": (FAILED, 3),
    "mpi-abort3-tagged": (FAILED, 3),
    "mpi-abort255": (FAILED, 255),
    "rank-exit7-one-host": (FAILED, None),
    "rank-exit15": (FAILED, 15),
    "rank-exit255": (FAILED, 255),
    "rank-sigkill": (FAILED, 137),
    "rank-sigkill-one-host": (FAILED, 137),
    "rank-sigsegv": (FAILED, 139),
    "rank-sigsegv-tagged": (FAILED, 139),
    "rank-sigabrt": (FAILED, 134),
    "rank-sigterm": (FAILED, 143),
    "rank-sigterm-one-host": (FAILED, 143),
    "ranks-sigint": (FAILED, 130),
    "kill-worker": (LOST, 201),
    "kill9-daemon": (LOST, 201),
    "net-cut-oobkeepalive25": (LOST, 201),
    "daemon-missing": (UNSTARTED, None),
    "ssh-refused": (UNSTARTED, None),
    "ssh-filtered-ct5": (UNSTARTED, None),
    "dns-missing": (UNSTARTED, None),
    "permission-denied": (UNSTARTED, None),
    "hostkey-unknown": (UNSTARTED, None),
    "hostkey-changed": (UNSTARTED, None),
    "version-mismatch": (UNSTARTED, None),
    "exe-missing": (UNSTARTED, None),
    "exe-missing-everywhere": (UNSTARTED, None),
    "exe-missing-on-one-worker": (UNSTARTED, None),
    "exe-not-executable": (UNSTARTED, None),
    "exe-not-on-path": (UNSTARTED, 127),
    "np-gt-slots-oversubscribe": (Verdict.SUCCEEDED, 0),
    "app-of-other-mpi": (Verdict.SUCCEEDED, 0),
}
"""None: mpirun's own code, which nothing corrects."""

RUNS = [
    f"{launcher}-{case}"
    for case in SAME_EVENT
    for launcher in ("ompi4", "ompi5", "ompi507", "mpich4", "mpich5", "impi")
    if (CORPUS / f"{launcher}-{case}.txt").exists()
    and recorded(f"{launcher}-{case}").code is not None
]


@pytest.mark.parametrize("name", RUNS)
def test_the_same_event_has_the_same_class_under_every_launcher(name: str) -> None:
    """From code and output alone, without an agent on the workers."""
    verdict, code = SAME_EVENT[name.partition("-")[2]]

    ending = conclude(evidence_of(name, np=3 if name.endswith("one-host") else None))

    assert ending.verdict is verdict, ending.summary
    assert ending.exit_code == (recorded(name).code if code is None else code), ending.summary
    assert ending.process_exit.code == recorded(name).code


@pytest.mark.parametrize("launcher", ["ompi4", "ompi5", "mpich5", "impi"])
def test_a_host_that_was_killed_is_lost_under_every_launcher(launcher: str) -> None:
    """Its ssh client went with it, so that nothing but the launcher tells; ranks had been seen."""
    ending = conclude(replace(evidence_of(f"{launcher}-kill-host"), ranks_were_seen=True))

    assert (ending.verdict, ending.exit_code) == (Verdict.WORKERS_LOST, 201), ending.summary


@pytest.mark.parametrize("name", ["ompi4-net-cut-serveralive15", "ompi5-net-cut-serveralive15"])
def test_ssh_sessions_that_go_silent_under_a_program_are_lost_workers(name: str) -> None:
    """Mpirun says that daemons could not be started, or nothing, though ranks ran."""
    seen = conclude(evidence_of(name, WorkerNews(host="w-1", saw_ranks=True)))
    unseen = conclude(evidence_of(name))
    an_hour = ProcessExit(pid=1, code=255, signal=None, started_at_s=0, ended_at_s=3600)
    long = conclude(replace(evidence_of(name), process_exit=an_hour))

    assert "never started" not in long.summary
    assert (seen.verdict, seen.exit_code) == (Verdict.WORKERS_LOST, 201)
    assert "probably never started" in unseen.summary


@pytest.mark.parametrize("name", ["ompi5-kill9-daemon", "ompi5-kill-host"])
def test_a_lost_worker_is_no_success_though_mpirun_ends_with_0(name: str) -> None:
    """As Open MPI 5.0.11 does."""
    ending = conclude(evidence_of(name))

    assert (ending.verdict, ending.exit_code) == (Verdict.WORKERS_LOST, 201)
    assert ending.summary == (
        'the MPI daemon on w1 was lost after 1.5 s: "app" cannot have finished'
        " (mpirun: exit code 0)"
    )
    assert [loss.host for loss in ending.losses] == ["w1"]


@pytest.mark.parametrize("stream", [Stream.STDOUT, Stream.STDERR, Stream.MERGED])
@pytest.mark.parametrize(
    "name",
    [
        "ompi4-rank-sigkill",
        "ompi5-rank-exit7",
        "ompi5-mpi-abort3",
        "mpich4-rank-sigkill",
        "impi-kill-worker",
        "ompi4-ssh-refused",
        "ompi5-exe-missing-everywhere",
        "mpich4-exe-missing-everywhere",
    ],
)
def test_what_a_program_prints_of_failures_makes_no_success_a_failure(
    name: str, stream: Stream
) -> None:
    """The whole output of a failed run, printed by a program that then ends with 0."""
    run = evidence_of(name)
    lines = tuple(replace(line, stream=stream) for line in run.output.lines)
    printed = replace(run, process_exit=a_process_exit(), output=replace(run.output, lines=lines))

    assert conclude(printed).verdict is Verdict.SUCCEEDED


@pytest.mark.parametrize("name", ["ompi4-rank-sigkill", "ompi5-mpi-abort3", "mpich4-rank-sigkill"])
def test_what_a_program_prints_of_failures_does_not_change_its_code(name: str) -> None:
    """It ended with 42, which no launcher uses."""
    printed = replace(evidence_of(name), process_exit=a_process_exit(code=42))

    ending = conclude(printed)

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 42)


def test_a_lost_daemon_in_the_words_of_a_rank_is_none() -> None:
    """Its lines carry the rank's tag."""
    run = evidence_of("ompi5-kill9-daemon")
    lines = tuple(
        OutputLine(text=f"[1,0]<stderr>: {line.text}", stream=line.stream, number=line.number)
        for line in run.output.lines
    )

    assert conclude(replace(run, output=replace(run.output, lines=lines))).exit_code == 0


def gone(host: str, *exits: tuple[int, int | None, int | None, float]) -> WorkerNews:
    """Return what a worker saw: rank, code, signal and time of each that went."""
    seen = tuple(
        RankExit(rank=rank, code=code, signal=number, at_s=at_s)
        for rank, code, number, at_s in exits
    )
    return WorkerNews(host=host, saw_ranks=True, rank_exits=seen)


def test_a_code_that_intel_hides_comes_back_from_a_worker() -> None:
    """Its 255 for 7, with the other ranks killed by KILL and heard of before."""
    first = gone("w-0", (0, None, 9, 10.0))
    second = gone("w-1", (1, 7, None, 10.2), (2, None, 9, 10.2))

    ending = conclude(evidence_of("impi-rank-exit7-one-host", first, second))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 7)
    assert ending.summary == (
        '"app" failed with exit code 7 of rank 1 on w-1 after 1.5 s (mpirun: exit code 255)'
    )


def test_a_signal_that_intel_hides_is_known_when_all_ranks_were_killed_by_it() -> None:
    """One that ended by a code would not be listed."""
    name = "impi-rank-sigkill-one-host"

    assert conclude(evidence_of(name, np=3)).exit_code == 137
    assert conclude(evidence_of(name, np=4)).exit_code == 255


def test_a_signal_that_mpich_hides_comes_back_from_a_worker() -> None:
    """15 is the code with which the ranks that lost their peer ended."""
    killed = gone("w-2", (5, None, 9, 10.0))
    peers = gone("w-1", (2, 15, None, 10.1), (3, None, 9, 10.5))

    ending = conclude(evidence_of("mpich4-kill9-rank", peers, killed))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 137)


@pytest.mark.parametrize("code", [1, 255, 0])
def test_the_first_rank_that_ended_badly_gives_the_code(code: int) -> None:
    """What came a second later was its consequence; also where mpirun says 0."""
    known = replace(
        evidence_of("ompi4-app-of-other-mpi", gone("w-1", (1, 3, None, 10.0), (0, None, 11, 12.0))),
        process_exit=a_process_exit(code=code),
        implementation=Implementation.OPEN_MPI,
    )

    ending = conclude(known)

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 3)
    assert f"(mpirun: exit code {code})" in ending.summary


def test_a_rank_that_was_killed_for_memory_is_the_first_of_all() -> None:
    """Its peers saw it go and failed at once, and were heard of before."""
    killed = replace(gone("w-2", (5, None, 9, 10.4)), kills=1)
    peers = gone("w-1", (2, 1, None, 10.0))

    ending = conclude(evidence_of("mpich4-kill9-rank", peers, killed))

    assert ending.exit_code == 137
    assert "of rank 5 on w-2" in ending.summary
    assert ": out of memory on w-2" in ending.summary


@pytest.mark.parametrize("number", [9, 15])
def test_what_the_agent_sweeps_after_a_success_makes_it_no_failure(number: int) -> None:
    """A rank's own leftovers are ended when mpirun is gone, which was at 11.5 s."""
    run = evidence_of("ompi5-app-of-other-mpi", gone("w-1", (1, None, number, 11.6)))
    before = evidence_of("ompi5-app-of-other-mpi", gone("w-1", (1, None, number, 11.4)))

    assert conclude(run).verdict is Verdict.SUCCEEDED
    assert conclude(before).exit_code == 128 + number


@pytest.mark.parametrize(("number", "code"), [(11, 139), (9, 137)])
def test_a_rank_that_lost_its_peer_is_not_the_first_whatever_open_mpi_says(
    number: int, code: int
) -> None:
    """Open MPI 5 names the one that its own error ended; a worker saw who died before."""
    died = gone("w-0", (0, 14, None, 10.0), (1, None, number, 10.0))
    others = gone("w-1", (2, None, 15, 10.1), (3, 14, None, 10.1))
    name = "ompi5-btl-unreachable"

    ending = conclude(evidence_of(name, died, others))

    assert recorded(name).code == 14
    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert conclude(evidence_of(name)).exit_code == 14
    assert conclude(evidence_of(name, others)).exit_code == 14
