"""Which hosts mpirun really dialled: promise P1, after the start.

Exit codes and options do not tell where the daemons are: Open MPI 5 that finds no hostfile runs the
whole job on the launcher and ends with 0. Our ssh_config makes every ssh that logs in leave a mark
named after its host, so where the daemons are is known from what happened, and at no cost.

Source: ssh_config(5) of OpenSSH 9.2, LocalCommand: run by the client once the login succeeded,
`%n` is the host as it stood on the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from mpi_agent.errors import StateDirectoryError
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.hosts import fold_names

__all__ = ["DialledHosts"]

_POLL_S = 0.25
_NO_NEWS_S = 30.0


class DialledHosts:
    """The marks of one launch.

    Args:
        directory: where the marks are; made anew.
        expected: hosts of the job that are reached by ssh.
        enough: how many of them the launcher itself dials; the rest are dialled by hosts.
        no_news_s: how long after the last mark the rest is given up.

    Raises:
        StateDirectoryError: marks of an earlier launch cannot be removed; they would look like
            hosts that this one dialled.
    """

    def __init__(
        self,
        directory: Path,
        expected: Sequence[str],
        *,
        enough: int | None = None,
        no_news_s: float = _NO_NEWS_S,
    ) -> None:
        self._directory = directory
        self._expected = tuple(expected)
        self._enough = len(self._expected) if enough is None else enough
        self._seen: set[str] = set()
        self._no_news_s = no_news_s
        _make_anew(directory)

    @property
    def missing(self) -> tuple[str, ...]:
        """Hosts that were not dialled yet, in the order of the job; none once enough were."""
        marks = self._marks()
        missing = tuple(name for name in self._expected if _without_end_dot(name) not in marks)
        return missing if len(self._expected) - len(missing) < self._enough else ()

    @property
    def is_any(self) -> bool:
        """True once any host was dialled, expected or not."""
        return bool(self._marks())

    def _marks(self) -> set[str]:
        """Return every mark seen so far: another launch of this container may remove them.

        What cannot be read now (no directory, no file descriptor left) is read the next time.
        """
        with contextlib.suppress(OSError):
            self._seen |= {_without_end_dot(path.name) for path in self._directory.iterdir()}
        return self._seen

    async def not_dialled(self) -> Alarm:
        """Return that mpirun left hosts out, once that is so; else never."""
        return Alarm(kind=AlarmKind.HOSTS_NOT_DIALLED, why=await self.given_up())

    async def given_up(self) -> str:
        """Return why the program cannot be where it should, once that is so; else never.

        A start that makes no progress for 30 s has left the rest out; a slow one goes on.
        """
        loop = asyncio.get_running_loop()
        missing, news_at_s = self.missing, loop.time()
        while missing:
            await asyncio.sleep(_POLL_S)
            now_missing = self.missing
            if len(now_missing) != len(missing):
                missing, news_at_s = now_missing, loop.time()
            elif loop.time() - news_at_s > self._no_news_s:
                return self.describe(missing)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")

    def describe(self, missing: Sequence[str]) -> str:
        """Return a sentence about hosts that were not dialled."""
        names = fold_names(tuple(missing))
        reached = len(self._expected) - len(missing)
        return f"mpirun dialled {reached} of {len(self._expected)} hosts and never {names}"

    def forget(self) -> None:
        """Remove the marks."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self._directory)


def _make_anew(directory: Path) -> None:
    try:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)
        directory.mkdir(mode=0o700)
    except OSError as error:
        raise StateDirectoryError(
            f'cannot note which hosts are dialled in "{directory}": {error.strerror}',
            hint="remove it, or name another directory with --state-dir",
        ) from error


def _without_end_dot(name: str) -> str:
    """Return a host's name as the job has it: a user may have called it by its absolute form."""
    return name.removesuffix(".")
