"""Removes the shared memory that ranks which were killed left behind.

What is removed is sure to be of the run that has ended: a regular file directly in /dev/shm, of our
own account, under a name that libraries of MPI give (`shm_names`), made since the run began, which
a process of this run was seen to use, and which nobody uses now. /dev/shm may be that of other
containers too, whose processes we cannot see, so a name and an owner are not enough; what no look
of ours caught a rank using stays where it is. Where a process of our account that began since the
run did does not let us look, all stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mpi_agent.job_processes import JobProcess
from mpi_agent.process_table import ProcessKey, stat_of
from mpi_agent.shm_names import is_of_mpi

__all__ = ["Segments"]

_DIRECTORY = Path("/dev/shm")
_LATER = 1.5
"""The age of a process at its next look, as a multiple of that at the last one: it makes its
memory when it starts, and reading all that a process maps is no small thing."""
_CLOCK_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class _File:
    """A file in memory, whatever its name."""

    device: int
    inode: int


@dataclass(slots=True)
class _RunsFiles:
    """What one run was seen to use.

    Attributes:
        began_at_s: since the machine's start.
        looked: ages at which processes were last looked at.
    """

    began_at_s: float
    used: set[_File] = field(default_factory=set)
    looked: dict[ProcessKey, float] = field(default_factory=dict)


class Segments:
    """The shared memory of the runs in this container.

    Args:
        directory: where it is kept.
    """

    def __init__(self, directory: Path = _DIRECTORY) -> None:
        self._directory = directory
        self._runs: dict[str, _RunsFiles] = {}

    def looked(self, run_id: str, processes: tuple[JobProcess, ...], /, *, is_last: bool) -> None:
        """Remember which files live ranks of a run use."""
        now_s = _now_s()
        run = self._runs.setdefault(run_id, _RunsFiles(now_s))
        for process in processes:
            run.began_at_s = min(run.began_at_s, process.started_at_s)
            key, age_s = process.key, now_s - process.started_at_s
            is_due = is_last or age_s >= _LATER * run.looked.get(key, 0.0)
            if process.rank is not None and is_due:
                run.looked[key] = age_s
                with contextlib.suppress(OSError):
                    run.used.update(self._mapped_by(process.pid))

    def remove(self, run_id: str) -> int:
        """Remove what a run that has ended left behind; return how many files there were."""
        run = self._runs.pop(run_id, None)
        if run is None or not run.used:
            return 0
        left = {path: file for path, file in self._candidates(run) if file in run.used}
        if not left:
            return 0
        in_use = self._in_use(run.began_at_s)
        if in_use is None:
            return 0
        removed = 0
        for path, file in left.items():
            if file not in in_use:
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
        return removed

    def _candidates(self, run: _RunsFiles) -> Iterator[tuple[Path, _File]]:
        since_s = time.time() - (_now_s() - run.began_at_s) - _CLOCK_SLACK_S
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self._directory) if is_of_mpi(name)]
        for name in names:
            path = self._directory / name
            with contextlib.suppress(OSError):
                found = path.lstat()
                is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
                if is_ours and found.st_ctime >= since_s:
                    yield path, _File(found.st_dev, found.st_ino)

    def _in_use(self, began_at_s: float) -> set[_File] | None:
        """Return what any process uses, as far as we are told; None where one of ours hides it."""
        used: set[_File] = set()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                used.update(self._mapped_by(int(name)))
                used.update(self._opened_by(int(name)))
            except PermissionError:
                if _may_be_a_rank(int(name), began_at_s):
                    return None
            except OSError:
                continue  # it has gone meanwhile
        return used

    def _mapped_by(self, pid: int) -> Iterator[_File]:
        """Yield the files that a process maps.

        Source: proc(5), "/proc/[pid]/maps": device as hexadecimal major:minor, inode, path.
        """
        below = f"{self._directory}/".encode()
        with open(f"/proc/{pid}/maps", "rb") as lines:
            for line in lines:
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and fields[5].startswith(below):
                    major, _, minor = fields[3].partition(b":")
                    yield _File(os.makedev(int(major, 16), int(minor, 16)), int(fields[4]))

    def _opened_by(self, pid: int) -> Iterator[_File]:
        """Yield the files that a process has open."""
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(path).startswith(f"{self._directory}/"):
                    found = os.stat(path)
                    yield _File(found.st_dev, found.st_ino)


def _may_be_a_rank(pid: int, began_at_s: float) -> bool:
    """Return whether a process that we may not look into is young, ours, and no ssh session's.

    Source: sshd (OpenSSH 9.2) forbids others to look into it whoever it runs as; of a process whose
    executable cannot be read the same holds, and it may be a rank (prctl(2), PR_SET_DUMPABLE).
    """
    stat_now = stat_of(pid)
    if stat_now is None or stat_now.started_at_s < began_at_s:
        return False
    try:
        words = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    name = re.search(r"^Name:\t(.*)$", words, re.MULTILINE)
    uid = re.search(r"^Uid:\t\d+\t(\d+)\t", words, re.MULTILINE)
    is_ours = uid is not None and int(uid[1]) == os.geteuid()
    return is_ours and not (name is not None and name[1].startswith("sshd"))


def _now_s() -> float:
    """Return the seconds since the machine's start, as the kernel counts those of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
