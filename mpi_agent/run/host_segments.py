"""Shared memory that a run has left on a host without our agent, and nobody uses.

Only what a process of the run was seen to use is removed: /dev/shm may be that of other containers
too, whose processes are not seen here, so neither a name nor an owner is enough.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mpi_agent.run.host_scripts import SHARED_MEMORY, remove_line, segments_line
from mpi_agent.shm_names import is_of_mpi
from mpi_agent.ssh.errands import HostShell

__all__ = ["Segments", "read_segments", "remove_segments", "stale_segments"]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MAPPED = re.compile(r"/proc/(\d+)/maps:(.*)")
_FILES_OF = re.compile(r"/proc/(\d+)/fd:")
_MOST_REMOVED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The segments on a host, by their names in /dev/shm.

    Attributes:
        own: those of our account.
        used_by: the segments that each process uses, by its pid; those of our account are seen.
    """

    own: frozenset[str]
    used_by: Mapping[int, frozenset[str]]

    def used(self, pids: Collection[int] | None = None) -> frozenset[str]:
        """Return what some processes use, or all."""
        users = (names for pid, names in self.used_by.items() if pids is None or pid in pids)
        return frozenset[str]().union(*users)


async def remove_segments(shell: HostShell, candidates: Collection[str]) -> int:
    """Remove those of the run's segments that nobody uses any more; return how many are gone.

    Args:
        candidates: what processes of the run used.
    """
    if not candidates:
        return 0
    stale = stale_segments(candidates, read_segments(await shell.run(segments_line())))
    if not stale:
        return 0
    return (await shell.run(remove_line(stale))).count("removed=1")


def read_segments(answer: str) -> Segments:
    """Return what a host printed for `host_scripts.segments_line`."""
    own: set[str] = set()
    used_by: dict[int, set[str]] = {}
    pid = 0
    for line in answer.splitlines():
        if line.startswith("own="):
            own.add(_name(line.removeprefix("own=")))
        elif match := _MAPPED.fullmatch(line):
            used_by.setdefault(int(match[1]), set()).add(_name(match[2]))
        elif match := _FILES_OF.fullmatch(line):
            pid = int(match[1])
        elif line.startswith(f"{SHARED_MEMORY}/"):
            used_by.setdefault(pid, set()).add(_name(line))
    found = {pid: frozenset(names) for pid, names in used_by.items()}
    return Segments(own=frozenset(own), used_by=found)


def stale_segments(candidates: Collection[str], now: Segments) -> tuple[str, ...]:
    """Return the files to remove.

    A name that a shell would not take as it is, no MPI gives.
    """
    free = (now.own & frozenset(candidates)) - now.used()
    stale = sorted(name for name in free if _PLAIN_NAME.fullmatch(name) and is_of_mpi(name))
    return tuple(f"{SHARED_MEMORY}/{name}" for name in stale[:_MOST_REMOVED])


def _name(path: str) -> str:
    return path.removeprefix(f"{SHARED_MEMORY}/").removesuffix(" (deleted)")
