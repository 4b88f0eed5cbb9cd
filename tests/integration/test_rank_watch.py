"""How ranks that end are noticed: real processes, real mpiruns, what the kernel tells of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mpi_agent.job.events import Noted
from mpi_agent.job_processes import JobProcess, find_job_processes
from mpi_agent.process_table import ProcessKey, stat_of
from mpi_agent.segments import Segments
from mpi_agent.ssh.worker_words import Line, Presence, RankGone
from mpi_agent.variable_names import RUN_ID_VARIABLE
from mpi_agent.worker.process_ends import ProcessEnd, ProcessEnds, end_of
from mpi_agent.worker.rank_watch import RankWatch
from tests.fakes import EventRecorder
from tests.served_control import run, until
from tests.stacks import STACK_NAMES, require_stack
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

LAUNCH_LIMIT_S = 60.0
ENDS_IN_THE_MIDDLE = """
import os, signal, sys
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 1:
    sys.stdin = open(sys.argv[1])
    sys.stdin.readline()
    eval(sys.argv[2])
signal.pause()
"""
LAST_THREAD_STAYS = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def key_of(pid: int) -> ProcessKey:
    """Return what a process is known by."""
    stat = stat_of(pid)
    assert stat is not None
    return ProcessKey(pid, stat.started_at_s)


@contextlib.contextmanager
def child_of(*words: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ends with the block."""
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/tmp"), **variables}
    with subprocess.Popen(words, env=environ, start_new_session=True) as child:
        try:
            yield child
        finally:
            for pid in (*(one.pid for one in watched_processes()), child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "end"),
    [("exit 7", ProcessEnd(code=7)), ("kill -9 $$", ProcessEnd(signal=9))],
)
def test_how_a_process_ended_is_known_while_nobody_has_asked(script: str, end: ProcessEnd) -> None:
    """Afterwards its table entry is gone, and the table alone says nothing."""
    with child_of("sh", "-c", script) as child:
        key = key_of(child.pid)
        wait_until("it has ended", lambda: end_of(key) is not None)

        assert end_of(key) == end
        child.wait()
        assert end_of(key) == ProcessEnd()


def test_a_process_that_lives_has_not_ended_and_one_with_its_pid_is_not_it() -> None:
    """Pids come again."""
    with child_of("sleep", "600") as child:
        key = key_of(child.pid)

        assert end_of(key) is None
        assert end_of(ProcessKey(key.pid, key.started_at_s - 1)) == ProcessEnd()


def test_a_process_whose_main_thread_has_ended_lives_on() -> None:
    """The kernel shows it as a zombie."""
    with child_of(sys.executable, "-c", LAST_THREAD_STAYS) as child:
        stat_file = Path(f"/proc/{child.pid}/stat")
        wait_until("it looks like a zombie", lambda: ") Z " in stat_file.read_text())

        assert end_of(key_of(child.pid)) is None


@pytest.mark.parametrize("is_reaped", [False, True])
def test_an_end_is_heard_at_once(is_reaped: bool) -> None:
    """With its code while nobody has asked; and afterwards, where the kernel tells it."""

    async def hear() -> None:
        heard: list[tuple[ProcessKey, ProcessEnd]] = []
        ends = ProcessEnds(lambda key, end: heard.append((key, end)))
        with child_of("sh", "-c", "sleep 0.2; exit 7") as child:
            key = key_of(child.pid)
            ends.add(key)
            ends.add(key)
            if is_reaped:
                child.wait()
            await until("it is heard", lambda: bool(heard))
            ends.close()

        known = ProcessEnd(code=7)
        assert heard in ([(key, known)], [(key, ProcessEnd())] if is_reaped else [])

    run(hear())


def test_what_is_not_wanted_any_more_is_not_heard() -> None:
    """And leaves no descriptor behind."""

    async def hear() -> None:
        heard: list[ProcessKey] = []
        ends = ProcessEnds(lambda key, _: heard.append(key))
        before = len(os.listdir("/proc/self/fd"))
        with child_of("sleep", "600") as first, child_of("sleep", "600") as second:
            for child in (first, second):
                ends.add(key_of(child.pid))
            ends.add(ProcessKey(first.pid, 0.0))
            ends.forget(key_of(first.pid))
            first.kill()
            second.kill()
            await until("the other is heard", lambda: bool(heard))

            assert [key.pid for key in heard] == [second.pid]
            assert len(os.listdir("/proc/self/fd")) == before

    run(hear())


class Watched:
    """A watch that goes on, and what it told."""

    def __init__(self) -> None:
        self.looks = 0
        self.trouble: Exception | None = None
        self.lines: list[tuple[str, Line]] = []
        self.told = EventRecorder()
        self.segments = Segments()
        self.watch = RankWatch(
            find=self._find,
            tell=lambda run_id, line: self.lines.append((run_id, line)),
            looked=self.segments.looked,
            emit=self.told,
        )

    def _find(self) -> tuple[JobProcess, ...]:
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return find_job_processes(below=os.getpid()).processes

    def gone(self) -> dict[int, RankGone]:
        """Return the ranks that ended, each as it was told."""
        return {line.rank: line for _, line in self.lines if isinstance(line, RankGone)}

    def ranks(self) -> int | None:
        """Return how many ranks there are, as was told last."""
        told = [line.ranks for _, line in self.lines if isinstance(line, Presence)]
        return told[-1] if told else None


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[Watched]:
    """Provide a watch that goes on while the block runs."""
    watched = Watched()
    task = asyncio.create_task(watched.watch.serve())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def a_daemon(*ranks: str) -> str:
    """Return a script that starts ranks and asks none of them how it ended."""
    lines = (
        f"PMI_RANK={number} setsid sh -c {shlex.quote(script)} &"
        for number, script in enumerate(ranks)
    )
    return f"{' '.join(lines)} exec sleep 600"


def test_nothing_is_looked_at_without_a_run() -> None:
    """Before the first, and after the last."""

    async def watch() -> None:
        async with watching() as watched:
            watched.watch.begin("a")
            await until("it looks", lambda: watched.looks > 0)
            watched.watch.last_look("a")
            looks = watched.looks
            for _ in range(50):
                await asyncio.sleep(0.005)

            assert watched.looks == looks

    run(watch())


def test_a_rank_that_ends_is_told_at_once_with_its_code_and_the_others_are_counted() -> None:
    """Its daemon has not asked; only the run's own launcher is told."""

    async def watch() -> None:
        async with watching() as watched:
            script = a_daemon("sleep 1.5; exit 7", "sleep 600")
            with child_of("sh", "-c", script, **{RUN_ID_VARIABLE: "a"}):
                watched.watch.begin("a")
                watched.watch.begin("b")
                await until("both ranks are seen", lambda: watched.ranks() == 2)
                await until("one is left", lambda: watched.ranks() == 1)

                assert watched.gone() == {0: RankGone(rank=0, code=7, signal=None)}
                assert {run_id for run_id, _ in watched.lines} == {"a"}

    run(watch())


def test_a_rank_that_fails_at_once_is_seen_and_told() -> None:
    """MPICH waits for ever after it, so nobody else would ever tell."""

    async def watch() -> None:
        async with watching() as watched:
            watched.watch.begin("a")
            await until("it looks", lambda: watched.looks > 1)
            script = a_daemon("sleep 0.6; exit 7", "sleep 600")
            with child_of("sh", "-c", script, **{RUN_ID_VARIABLE: "a"}):
                await until("one is gone", lambda: bool(watched.gone()))

                assert watched.gone() == {0: RankGone(rank=0, code=7, signal=None)}

    run(watch())


def test_the_last_look_tells_what_ended_just_now_and_nothing_follows_it() -> None:
    """Whatever is ended afterwards was ended by us."""

    async def watch() -> None:
        async with watching() as watched:
            with child_of("sh", "-c", a_daemon("sleep 600"), **{RUN_ID_VARIABLE: "a"}) as daemon:
                watched.watch.begin("a")
                await until("the rank is seen", lambda: watched.ranks() == 1)
                (rank,) = (one for one in watched_processes() if one.leads_rank)
                os.killpg(rank.pid, signal.SIGSEGV)
                wait_until("it has ended", lambda: stat_of(rank.pid) is None or is_zombie(rank.pid))
                watched.watch.last_look("a")
                told = list(watched.lines)
                daemon.kill()
                await asyncio.sleep(0.05)

                assert watched.gone() == {0: RankGone(rank=0, code=None, signal=11)}
                assert watched.lines == told

    run(watch())


def watched_processes() -> tuple[JobProcess, ...]:
    """Return the processes of runs below the tests'."""
    return find_job_processes(below=os.getpid()).processes


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended and nobody asked how."""
    stat = stat_of(pid)
    return stat is not None and stat.is_zombie


def test_a_look_that_fails_is_told_once_and_the_next_one_is_made() -> None:
    """There may be no file descriptor left for a moment."""

    async def watch() -> None:
        async with watching() as watched:
            watched.trouble = OSError(24, "Too many open files")
            watched.watch.begin("a")
            await until("it has looked twice", lambda: watched.looks > 1)

            (note,) = watched.told.events
            assert isinstance(note, Noted)
            assert note.text.startswith("cannot look at the ranks: OSError")

    run(watch())


@pytest.mark.parametrize("name", STACK_NAMES)
@pytest.mark.parametrize(
    ("how", "code", "signal_number"),
    [("os._exit(7)", 7, None), ("os.kill(os.getpid(), 9)", None, 9)],
    ids=["code 7", "signal 9"],
)
def test_how_a_rank_of_each_mpi_ended_is_told_as_far_as_it_can_be_known(
    name: str, how: str, code: int | None, signal_number: int | None, tmp_path: Path
) -> None:
    """Exactly where the kernel tells it afterwards; else in time, or as an end nobody knows."""
    stack = require_stack(name)
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    options = () if stack.is_hydra else ("--oversubscribe", "--allow-run-as-root")
    words = (*options, "-np", "2", str(stack.python), "-c", ENDS_IN_THE_MIDDLE, str(fifo), how)
    known = RankGone(rank=1, code=code, signal=signal_number)
    unknown = RankGone(rank=1, code=None, signal=None)

    async def watch() -> None:
        async with watching() as watched:
            watched.watch.begin("a")
            with child_of(str(stack.mpirun), *words, **{RUN_ID_VARIABLE: "a"}):
                await until("both run", lambda: watched.ranks() == 2, limit_s=LAUNCH_LIMIT_S)
                await asyncio.to_thread(fifo.write_text, "go\n")
                await until("one is gone", lambda: 1 in watched.gone())

                assert watched.gone()[1] in (known, unknown)
                assert watched.gone()[1] == known or not tells_ends_afterwards()
                watched.watch.last_look("a")
            await until("nothing is left", lambda: not watched_processes())
            watched.segments.remove("a")

    run(watch())


def tells_ends_afterwards() -> bool:
    """Return whether this kernel tells how a process ended that was asked for already."""
    number = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return number >= (6, 15)
