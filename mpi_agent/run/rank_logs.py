"""A file of each rank's output, taken from the program's streams as they pass through the agent.

`rank-0007.out` has what rank 7 wrote to both streams; `no-rank.out` has what nobody tagged, such as
mpirun's own words. With a limit, the first file takes half of it; what comes later goes on in
`rank-0007.2.out` and so on, a quarter each, of which the latest two are kept. So beginning and end
are there, and the numbers show whether something is missing between.

The program's output never waits for a file that cannot be written: that is said once, and what
could not be written is missing from the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from mpi_agent.command.dialects import TagForm
from mpi_agent.errors import SettingsError
from mpi_agent.job.output import Stream
from mpi_agent.run.rank_tags import TagReader

__all__ = ["RankLogs", "attempt_directory", "open_log_directory"]

_MOST_OPEN = 128
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
    """

    def __init__(
        self,
        directory: Path,
        *,
        form: TagForm | None,
        np: int,
        limit_bytes: int | None,
        note: Callable[[str], None],
    ) -> None:
        self._readers = {stream: TagReader(form, np) for stream in Stream}
        self._limit_bytes = limit_bytes
        self._directory = directory
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._files: dict[int | None, _RankFile] = {}
        self._open: OrderedDict[int | None, _RankFile] = OrderedDict()
        self._taking = threading.Lock()
        self._has_complained = False
        self._is_closed = False

    def take(self, chunk: bytes, stream: Stream) -> None:
        """Take the next piece of a stream, which may end anywhere; nothing after `close`."""
        with self._taking:
            if self._is_closed:
                return
            self._write(self._readers[stream].read(chunk))

    def close(self) -> None:
        """Write what is left and close all files."""
        with self._taking:
            self._is_closed = True
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
                self._complain(error)

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

    def _complain(self, error: OSError) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        text = f'cannot write to "{self._directory}": {error.strerror}; output is missing there'
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for us
            self._loop.call_soon_threadsafe(self._note, text)


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
