"""What launchers say, read from recorded outputs, and what only looks like it."""

from __future__ import annotations

import pytest

from mpi_agent.explain.launcher_forms import read_words
from mpi_agent.explain.launcher_reports import DaemonFate, DaemonWord, RankFailure, Unstarted
from mpi_agent.job.output import Output, OutputLine, Stream
from tests.recorded import CORPUS, recorded

W1, W2 = "pi-worker-1.pi.default.svc", "pi-worker-2.pi.default.svc"


def first(
    rank: int, *, host: str = "", code: int | None = None, signal: int | None = None
) -> RankFailure:
    """Return a failure that the launcher knows to be the first."""
    return RankFailure(rank=rank, host=host, code=code, signal=signal, is_first=True)


def abort(rank: int, code: int, *, host: str = "") -> RankFailure:
    """Return a rank that called MPI_Abort."""
    return RankFailure(rank=rank, host=host, code=code, called_abort=True, is_first=True)


def killed(rank: int | None, host: str, signal: int) -> RankFailure:
    """Return a rank in a list of killed ones."""
    return RankFailure(rank=rank, host=host, signal=signal)


RANKS: dict[str, tuple[RankFailure, ...]] = {
    "ompi4-rank-exit7": (first(3, code=7),),
    "ompi4-rank-exit7-after-finalize": (first(3, code=7),),
    "ompi4-nonmpi-exit7": (first(4, code=7),),
    "ompi4-rank-sigkill": (first(3, host=W1, signal=9),),
    "ompi4-rank-sigsegv": (first(3, host=W1, signal=11),),
    "ompi4-rank-sigterm": (first(3, host=W1, signal=15),),
    "ompi4-kill9-rank": (first(5, host=W2, signal=9),),
    "ompi4-mpi-abort3": (abort(3, 3),),
    "ompi4-mpi-abort3-tagged": (abort(1, 3),),
    "ompi5-rank-exit7": (first(3, code=7),),
    "ompi5-rank-exit15": (first(0, code=15),),
    "ompi5-rank-exit255": (first(0, code=255),),
    "ompi5-rank-sigkill": (first(3, host="pi-worker-1", signal=9),),
    "ompi5-rank-sigsegv": (first(3, host="pi-worker-1", signal=11),),
    "ompi5-rank-sigabrt": (first(3, host="pi-worker-1", signal=6),),
    "ompi5-rank-sigterm": (first(3, host="pi-worker-1", signal=15),),
    "ompi5-kill9-rank": (first(5, host="pi-worker-2", signal=9),),
    "ompi5-mpi-abort3": (abort(3, 3, host="pi-worker-1"),),
    "ompi5-mpi-abort3-tagged": (abort(1, 3, host="vm"),),
    "mpich4-rank-sigkill": (killed(None, W1, 9),),
    "mpich4-rank-sigsegv": (killed(None, W1, 11),),
    "mpich4-rank-sigabrt": (killed(None, W1, 6),),
    "mpich4-rank-sigterm": (killed(None, W1, 15),),
    "mpich4-mpi-abort3": (abort(3, 3),),
    "mpich5-rank-sigkill-one-host": (killed(None, "vm", 9),),
    "mpich5-rank-sigsegv-tagged": (killed(None, "vm", 11),),
    "mpich5-ranks-sigint": (killed(None, "vm", 2),),
    "mpich5-mpi-abort3-tagged": (abort(1, 3),),
    "mpich5-mpi-abort255": (abort(1, 255),),
    "impi-rank-exit7": (killed(2, W1, 9),),
    "impi-rank-exit7-one-host": (killed(0, "vm", 9), killed(2, "vm", 9)),
    "impi-rank-sigabrt": (killed(2, W1, 9), killed(3, W1, 6)),
    "impi-rank-sigterm": (killed(2, W1, 9), killed(3, W1, 15)),
    "impi-shm-64k": (killed(4, W2, 7), killed(5, W2, 9)),
    "impi-mpi-abort3": (abort(3, 3),),
    "impi-mpi-abort255": (abort(1, 255),),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_that_ended_badly_are_read_from_recorded_outputs(name: str) -> None:
    """With whatever the launcher tells of them."""
    words = read_words(recorded(name).output)

    assert words.failures == RANKS[name]
    assert not words.unstarted


DAEMONS: dict[str, tuple[tuple[DaemonFate, str], ...]] = {
    "ompi4-kill9-daemon": ((DaemonFate.LOST, W2),),
    "ompi4-kill-worker": ((DaemonFate.CLOSED, W2), (DaemonFate.LOST, W2)),
    "ompi4-kill-host": ((DaemonFate.GONE, ""),),
    "ompi4-net-cut-oobkeepalive25": ((DaemonFate.LOST, W2),),
    "ompi4-net-cut-serveralive15": ((DaemonFate.GONE, ""),),
    "ompi4-ssh-refused": ((DaemonFate.GONE, ""),),
    "ompi5-kill9-daemon": ((DaemonFate.LOST, "w1"),),
    "ompi5-kill-worker": ((DaemonFate.CLOSED, W2),),
    "ompi5-kill-host": ((DaemonFate.GONE, "w1"),),
    "ompi5-net-cut-oobkeepalive25": ((DaemonFate.LOST, "pi-worker-2"),),
    "ompi5-ssh-refused": ((DaemonFate.GONE, "pi-worker-2"),),
    "mpich4-kill-worker": ((DaemonFate.CLOSED, W2),),
    "mpich5-kill-host": ((DaemonFate.GONE, ""),),
    "mpich4-wdir-missing": ((DaemonFate.GONE, ""),),
    "mpich4-version-mismatch": ((DaemonFate.UNSTARTED, ""),),
    "impi-kill-worker": ((DaemonFate.CLOSED, W2), (DaemonFate.LOST, W2)),
    "impi-kill-host": ((DaemonFate.LOST, "w1"),),
    "impi-ssh-refused": ((DaemonFate.UNSTARTED, W2),),
    "impi-daemon-missing": ((DaemonFate.UNSTARTED, W2),),
}


@pytest.mark.parametrize("name", DAEMONS)
def test_daemons_that_are_missing_are_read_from_recorded_outputs(name: str) -> None:
    """Lost, closed, never there, or one of these."""
    words = read_words(recorded(name).output)

    assert tuple((word.fate, word.host) for word in words.daemons) == DAEMONS[name]
    assert not words.failures


@pytest.mark.parametrize(
    ("name", "hosts", "why"),
    [
        ("ompi4-exe-missing-on-one-worker", [W2], ""),
        ("ompi5-exe-missing-on-one-worker", ["pi-worker-2"], ""),
        ("mpich4-exe-missing-on-one-worker", ["pi-worker-2"], "No such file or directory"),
        ("mpich4-exe-not-executable", ["pi-worker-2"], "Permission denied"),
        ("impi-exe-not-executable", ["pi-worker-2"], "Permission denied"),
    ],
)
def test_a_program_that_cannot_be_executed_is_read_with_its_host(
    name: str, hosts: list[str], why: str
) -> None:
    """Each host once."""
    told = read_words(recorded(name).output).unstarted

    assert told == tuple(Unstarted(program="/app/mpiapp", host=h, why=why) for h in hosts)


HEALTHY = [
    path.stem
    for path in sorted(CORPUS.glob("*.txt"))
    if path.name.split("-")[0] in ("ompi4", "ompi5", "mpich4", "impi")
    and path.stem.partition("-")[2]
    in (
        "app-of-other-mpi",
        "app-of-mpich5",
        "np-gt-slots-oversubscribe",
        "shm-64k",
        "wdir-missing",
        "sigterm",
        "sigint",
        "sigstop-worker",
        "net-cut",
        "root-no-allow",
    )
    and path.stem not in ("impi-shm-64k", "mpich4-wdir-missing")
]


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_read_where_no_launcher_says_it(name: str) -> None:
    """Warnings, other banners and a stop are none."""
    words = read_words(recorded(name).output)

    assert (words.failures, words.daemons, words.unstarted) == ((), (), ())


def said(*texts: str, stream: Stream = Stream.MERGED) -> Output:
    """Return an output of these lines."""
    lines = (OutputLine(text=t, stream=stream, number=n) for n, t in enumerate(texts, 1))
    return Output(lines=tuple(lines))


LOST = [
    line.text
    for line in recorded("ompi5-kill9-daemon").output.lines
    if line.stream is Stream.STDERR and line.text.strip(" \0")
]


def test_a_banner_counts_only_between_its_rules() -> None:
    """A program may print the sentence."""
    assert read_words(said(*LOST)).daemons == (
        DaemonWord(fate=DaemonFate.LOST, host="w1", denies_success=True),
    )
    assert not read_words(said(*LOST[1:])).daemons
    assert not read_words(said(*LOST[:-1])).daemons
    assert not read_words(said(LOST[0], "we saw:", *LOST[1:])).daemons
    assert not read_words(said(LOST[0], *LOST[1:3], LOST[-1])).daemons


@pytest.mark.parametrize("tag", ["[1,0]<stderr>:", "[1,0]<stderr>: ", "[0] "])
def test_what_carries_a_ranks_tag_is_not_the_launchers(tag: str) -> None:
    """With --tag nothing can be faked."""
    assert not read_words(said(*(f"{tag}{line}" for line in LOST))).daemons


def test_what_comes_on_the_other_stream_is_not_the_launchers() -> None:
    """Where streams can be told apart."""
    assert read_words(said(*LOST, stream=Stream.STDERR)).daemons
    assert not read_words(said(*LOST, stream=Stream.STDOUT)).daemons


def test_lines_of_a_terminal_are_read_as_well() -> None:
    """They end with a carriage return."""
    assert read_words(said(*(f"{line}\r" for line in LOST))).daemons


@pytest.mark.parametrize(
    "line",
    [
        "see: Connection to w-1 closed by remote host.",
        "Connection to w-1 closed.",
        "application called MPI_Abort(MPI_COMM_WORLD, 3) - process 3",
        "execvp error on file /app (No such file or directory)",
    ],
)
def test_a_part_of_a_line_is_not_enough(line: str) -> None:
    """From its first character to its last."""
    words = read_words(said(line))

    assert (words.failures, words.daemons, words.unstarted) == ((), (), ())
