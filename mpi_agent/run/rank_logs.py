"""A file of each rank's output, taken from the program's streams as they pass through the agent.

`rank-0007.out` has what rank 7 wrote to both streams; `no-rank.out` has what nobody tagged, such as
mpirun's own words. With a limit, the first file takes half of it; what comes later goes on in
`rank-0007.2.out` and so on, a quarter each, of which the latest two are kept. So beginning and end
are there, and the numbers show whether something is missing between.

One thread writes all files, from a queue of 16 MiB: a volume may hang for good, and neither the
program's output nor the agent may hang with it. Output waits for room in the queue while the thread
gets on, and two seconds at most where it does not; what comes then, until there is room again, is
missing from the files. That is said once, and so is it when a file cannot be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from pathlib import Path

from mpi_agent.command.dialects import TagForm
from mpi_agent.errors import SettingsError
from mpi_agent.job.output import Stream
from mpi_agent.run.rank_tags import TagReader

__all__ = ["RankLogs", "attempt_directory", "open_log_directory"]

_MOST_OPEN = 128
_MOST_WAITING_BYTES = 16 << 20
_PATIENCE_S = 2.0
_END_LIMIT_S = 5.0
_GAP = b""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def attempt_directory(log_dir: str, attempt: int) -> Path:
    """Return where an attempt's files are: each but the first has a directory of its own."""
    directory = Path(os.path.abspath(log_dir))
    return directory if attempt == 1 else directory / f"attempt-{attempt}"


def open_log_directory(directory: Path) -> None:
    """Make the directory, and see that files can be made in it.

    Raises:
        SettingsError: they cannot.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        trial = directory / f".trial-{os.urandom(8).hex()}"
        os.close(os.open(trial, _APPEND | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise SettingsError(
            f'cannot write files of ranks to "{directory}": {error.strerror}',
            hint="name a directory with --log-dir that this user may write to, such as a volume's",
        ) from error


class RankLogs:
    """Takes output and writes it to files; `take` is the tap of `ProgramStreams`.

    Several threads may call it. It never raises.

    Args:
        form: of the tags in the output; None where output cannot be told apart.
        np: how many ranks there are.
        limit_bytes: of what is kept of one rank; None for no limit.
        note: is called in the event loop with what the user has to know.
        patience_s: how long output waits for files that do not get on.
    """

    def __init__(
        self,
        directory: Path,
        *,
        form: TagForm | None,
        np: int,
        limit_bytes: int | None,
        note: Callable[[str], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._directory = directory
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._files = _RankFiles(directory, form, np, limit_bytes, failed=self._say_failed)
        self._waiting: deque[tuple[bytes, Stream]] = deque()
        self._waiting_bytes = 0
        self._cut: set[Stream] = set()
        self._changed = threading.Condition()
        self._patience_s = patience_s
        self._got_on_at_s = time.monotonic()
        self._said: set[str] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="rank logs", daemon=True)

    def take(self, chunk: bytes, stream: Stream) -> None:
        """Take the next piece of a stream, which may end anywhere; nothing after the end."""
        with self._changed:
            if not self._waiting_bytes:
                self._got_on_at_s = time.monotonic()
            while not (self._is_closed or self._has_room) and (left_s := self._patience_left_s) > 0:
                self._changed.wait(left_s)
            if self._is_closed:
                return
            if self._has_room:
                self._put(chunk, stream)
            else:
                self._cut.add(stream)
                self._say_once(self._too_slow)

    async def finish(self, *, limit_s: float = _END_LIMIT_S) -> None:
        """Take nothing more, write what is left and close all files, as far as the time allows."""
        self._end()
        await asyncio.to_thread(self._join, limit_s)

    @property
    def _has_room(self) -> bool:
        return self._waiting_bytes < _MOST_WAITING_BYTES

    @property
    def _patience_left_s(self) -> float:
        return self._got_on_at_s + self._patience_s - time.monotonic()

    @property
    def _too_slow(self) -> str:
        return f'"{self._directory}" does not take what is written; output is missing there'

    def _put(self, chunk: bytes, stream: Stream) -> None:
        if stream in self._cut:
            self._cut.remove(stream)
            self._waiting.append((_GAP, stream))
        self._waiting.append((chunk, stream))
        self._waiting_bytes += len(chunk)
        self._changed.notify_all()
        if self._thread.ident is None:
            self._thread.start()

    def _end(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _join(self, limit_s: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(limit_s)
        if self._thread.is_alive():
            self._say_once(self._too_slow)

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            self._files.take(*piece)
            with self._changed:
                self._waiting_bytes -= len(piece[0])
                self._got_on_at_s = time.monotonic()
                self._changed.notify_all()
        self._files.close()

    def _next(self) -> tuple[bytes, Stream] | None:
        """Return the next piece, None at the end."""
        with self._changed:
            while not (self._waiting or self._is_closed):
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def _say_failed(self, error: OSError) -> None:
        self._say_once(
            f'cannot write to "{self._directory}": {error.strerror}; output is missing there'
        )

    def _say_once(self, text: str) -> None:
        if text in self._said:
            return
        self._said.add(text)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for us
            self._loop.call_soon_threadsafe(self._note, text)


class _RankFiles:
    """The files of all ranks, and who wrote what; one thread's alone."""

    def __init__(
        self,
        directory: Path,
        form: TagForm | None,
        np: int,
        limit_bytes: int | None,
        *,
        failed: Callable[[OSError], None],
    ) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._failed = failed
        self._readers = {stream: TagReader(form, np) for stream in Stream}
        self._files: dict[int | None, _RankFile] = {}
        self._open: OrderedDict[int | None, _RankFile] = OrderedDict()

    def take(self, chunk: bytes, stream: Stream) -> None:
        """Write a piece of a stream; behind a gap nobody knows of which rank it goes on."""
        reader = self._readers[stream]
        self._write(reader.rest() if chunk == _GAP else reader.read(chunk))

    def close(self) -> None:
        """Write what is left and close all files."""
        for reader in self._readers.values():
            self._write(reader.rest())
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _write(self, pieces: Iterable[tuple[int | None, bytes]]) -> None:
        """Write pieces, those of one rank at once."""
        told: dict[int | None, list[bytes]] = {}
        for rank, piece in pieces:
            told.setdefault(rank, []).append(piece)
        for rank, texts in told.items():
            try:
                self._file_of(rank).write(b"".join(texts))
            except OSError as error:
                self._failed(error)

    def _file_of(self, rank: int | None) -> _RankFile:
        """Return a rank's file; the one that was not written for longest is closed for it."""
        file = self._files.get(rank)
        if file is None:
            name = "no-rank" if rank is None else f"rank-{rank:04d}"
            file = self._files[rank] = _RankFile(self._directory, name, self._limit_bytes)
        self._open[rank] = file
        self._open.move_to_end(rank)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1].close()
        return file


class _RankFile:
    """The parts of one rank's output: the first half of what may be kept, and the latest quarters.

    Parts of an earlier job under the same name are removed.
    """

    def __init__(self, directory: Path, name: str, limit_bytes: int | None) -> None:
        self._directory = directory
        self._name = name
        self._limit_bytes = limit_bytes
        self._part = 1
        self._written_bytes = 0
        self._descriptor: int | None = None
        for path in (self._path_of(1), *directory.glob(f"{name}.*.out")):
            path.unlink(missing_ok=True)

    def write(self, content: bytes) -> None:
        """Write content; raises OSError with what could not be written left out."""
        while content:
            room = self._room
            if room == 0:
                self._turn_over()
                continue
            count = os.write(self._opened(), content[:room])
            self._written_bytes += count
            content = content[count:]

    def close(self) -> None:
        """Close what is open; it opens again at the next write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def _room(self) -> int | None:
        """How many bytes still go into the file that is written; None for any number."""
        if self._limit_bytes is None:
            return None
        share = self._limit_bytes // (2 if self._part == 1 else 4)
        return max(0, max(1, share) - self._written_bytes)

    def _turn_over(self) -> None:
        """Go on in the next part; beside the first one, the part before it stays."""
        self.close()
        if self._part > 2:
            self._path_of(self._part - 1).unlink(missing_ok=True)
        self._part += 1
        self._written_bytes = 0

    def _path_of(self, part: int) -> Path:
        middle = "" if part == 1 else f".{part}"
        return self._directory / f"{self._name}{middle}.out"

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path_of(self._part), _APPEND, 0o644)
        return self._descriptor
