"""Files of ranks, written to a real directory."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi_agent.command.dialects import TagForm
from mpi_agent.errors import SettingsError
from mpi_agent.job.output import Stream
from mpi_agent.run.rank_logs import RankLogs, attempt_directory, open_log_directory
from tests.waiting import wait_until


def files_in(directory: Path) -> dict[str, str]:
    """Return what stands in each file."""
    return {path.name: path.read_text() for path in sorted(directory.iterdir())}


def after(
    directory: Path,
    work: Callable[[RankLogs], None],
    *,
    limit_bytes: int | None = None,
    np: int = 300,
) -> list[str]:
    """Do something with the logs of a job; return what the user was told."""
    notes: list[str] = []

    async def run() -> None:
        logs = RankLogs(
            directory, form=TagForm.HYDRA, np=np, limit_bytes=limit_bytes, note=notes.append
        )
        await asyncio.to_thread(work, logs)
        await logs.finish()
        await asyncio.sleep(0)

    asyncio.run(run())
    return notes


def taken(*chunks: bytes) -> Callable[[RankLogs], None]:
    """Return the work of taking pieces of stdout."""

    def work(logs: RankLogs) -> None:
        for chunk in chunks:
            logs.take(chunk, Stream.STDOUT)

    return work


def test_each_rank_has_a_file_and_the_launcher_has_one(tmp_path: Path) -> None:
    """Without the tags."""
    after(tmp_path, taken(b"rank 0| a\nrank 7| b\nrank 0| c\n", b"mpirun: bye\n"))

    assert files_in(tmp_path) == {
        "no-rank.out": "mpirun: bye\n",
        "rank-0000.out": "a\nc\n",
        "rank-0007.out": "b\n",
    }


def test_both_streams_of_a_rank_are_in_its_file(tmp_path: Path) -> None:
    """A tag that is cut in one of them does not confuse the other."""

    def work(logs: RankLogs) -> None:
        logs.take(b"rank 0| out\nran", Stream.STDOUT)
        logs.take(b"rank 0| err\n", Stream.STDERR)
        logs.take(b"k 1| later\n", Stream.STDOUT)

    after(tmp_path, work)

    assert files_in(tmp_path) == {"rank-0000.out": "out\nerr\n", "rank-0001.out": "later\n"}


def test_more_ranks_than_files_may_be_open_lose_nothing(tmp_path: Path) -> None:
    """A file that was closed is gone on with."""
    chunk = b"".join(b"rank %d| line of %d\n" % (rank, rank) for rank in range(300))
    open_before = len(os.listdir("/proc/self/fd"))
    most = 0

    def work(logs: RankLogs) -> None:
        nonlocal most
        for _ in range(3):
            logs.take(chunk, Stream.STDOUT)
            most = max(most, len(os.listdir("/proc/self/fd")))

    after(tmp_path, work)

    assert files_in(tmp_path) == {f"rank-{r:04d}.out": f"line of {r}\n" * 3 for r in range(300)}
    assert most < open_before + 150


def test_of_a_file_with_a_limit_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    """The numbers tell that parts are missing between."""
    after(tmp_path, taken(*(b"rank 0| line %03d\n" % n for n in range(100))), limit_bytes=180)

    files = files_in(tmp_path)

    assert files["rank-0000.out"] == "".join(f"line {n:03d}\n" for n in range(10))
    assert list(files) == ["rank-0000.18.out", "rank-0000.19.out", "rank-0000.out"]
    assert files["rank-0000.19.out"].endswith("line 099\n")
    assert sum(map(len, files.values())) <= 180


def test_what_fits_is_whole_under_a_limit(tmp_path: Path) -> None:
    """In as many parts as it takes, up to three."""
    after(tmp_path, taken(b"rank 0| " + b"x" * 99 + b"\n"), limit_bytes=100)

    files = files_in(tmp_path)

    assert list(files) == ["rank-0000.2.out", "rank-0000.3.out", "rank-0000.out"]
    assert "".join(files[name] for name in ("rank-0000.out", "rank-0000.2.out")) == "x" * 75
    assert sum(map(len, files.values())) == 100


def test_files_of_an_earlier_job_are_written_over(tmp_path: Path) -> None:
    """Those of ranks that this one has."""
    for name in ("rank-0000.out", "rank-0000.17.out", "rank-0009.out"):
        (tmp_path / name).write_text("old\n")

    after(tmp_path, taken(b"rank 0| new\n"))

    assert files_in(tmp_path) == {"rank-0000.out": "new\n", "rank-0009.out": "old\n"}


def test_a_file_that_cannot_be_written_is_said_once_and_the_others_go_on(tmp_path: Path) -> None:
    """Nothing is raised into the stream."""
    (tmp_path / "rank-0000.out").mkdir()

    notes = after(tmp_path, taken(*[b"rank 0| lost\nrank 1| kept\n"] * 3))

    assert len(notes) == 1
    assert str(tmp_path) in notes[0]
    assert "output is missing there" in notes[0]
    assert (tmp_path / "rank-0001.out").read_text() == "kept\n" * 3


def test_what_comes_after_the_end_is_left_out(tmp_path: Path) -> None:
    """A reader that hangs may hold a stream's thread beyond the end of the attempt."""

    async def run() -> None:
        logs = RankLogs(tmp_path, form=TagForm.HYDRA, np=1, limit_bytes=None, note=print)
        logs.take(b"rank 0| in time\n", Stream.STDOUT)
        await logs.finish()
        logs.take(b"rank 0| late\n", Stream.STDOUT)
        await logs.finish()

    asyncio.run(run())

    assert files_in(tmp_path) == {"rank-0000.out": "in time\n"}


class HangingFile:
    """Rank 0's second file, as a pipe that nobody reads: opening it hangs until `release`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path = directory / "rank-0000.2.out"

    def hang(self, logs: RankLogs) -> None:
        """Fill the first file, and have the thread that writes hang at the second."""
        logs.take(b"rank 0| first\n", Stream.STDOUT)
        first = self._directory / "rank-0000.out"
        wait_until("the first file is full", lambda: first.exists() and first.stat().st_size == 6)
        os.mkfifo(self.path)
        logs.take(b"rank 0| second\n", Stream.STDOUT)

    def release(self) -> int:
        """Begin to read; return what reads."""
        return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)


def test_a_volume_that_hangs_holds_up_the_output_once_and_never_the_end(tmp_path: Path) -> None:
    """It is said; nobody waits for what may never come back."""
    file = HangingFile(tmp_path)
    notes: list[str] = []

    async def run() -> tuple[float, float]:
        logs = RankLogs(
            tmp_path, form=TagForm.HYDRA, np=2, limit_bytes=12, note=notes.append, patience_s=0.3
        )
        await asyncio.to_thread(file.hang, logs)
        began_s = time.monotonic()
        for _ in range(100):
            await asyncio.to_thread(logs.take, b"x" * (1 << 20), Stream.STDOUT)
        took_s, began_s = time.monotonic() - began_s, time.monotonic()
        await logs.finish(limit_s=0.2)
        await asyncio.sleep(0)
        os.close(file.release())
        return took_s, time.monotonic() - began_s

    took_s, end_took_s = asyncio.run(run())

    assert took_s < 5.0
    assert end_took_s < 5.0
    assert notes[0] == f'"{tmp_path}" does not take what is written; output is missing there'


def test_threads_that_take_at_once_lose_nothing(tmp_path: Path) -> None:
    """Two streams are two threads."""

    def work(logs: RankLogs) -> None:
        def write(stream: Stream) -> None:
            for _ in range(500):
                logs.take(b"rank 0| %s\n" % stream.value.encode(), stream)

        threads = [
            threading.Thread(target=write, args=(stream,))
            for stream in (Stream.STDOUT, Stream.STDERR)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    after(tmp_path, work)

    lines = (tmp_path / "rank-0000.out").read_text().splitlines()
    assert sorted(lines) == ["stderr"] * 500 + ["stdout"] * 500


def test_each_attempt_but_the_first_has_a_directory_of_its_own() -> None:
    """What the one before wrote may tell why it ended."""
    assert attempt_directory("/logs/", 1) == Path("/logs")
    assert attempt_directory("/logs", 3) == Path("/logs/attempt-3")


def test_a_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    """With those above it."""
    directory = tmp_path / "a" / "b"

    open_log_directory(directory)
    open_log_directory(directory)

    assert files_in(directory) == {}


def test_a_directory_that_cannot_be_used_is_told_before_the_start(tmp_path: Path) -> None:
    """With what to do about it."""
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError) as caught:
        open_log_directory(tmp_path / "file" / "logs")

    assert os.strerror(errno.ENOTDIR) in caught.value.summary
    assert "--log-dir" in caught.value.hint
