"""Files in the root of a container next door, which nobody vouches for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpi_agent.cgroup import CGROUP_ROOT, MemoryAccount
from mpi_agent.neighbours import memory_next_door
from tests.workers import LIMIT_S

pytestmark = pytest.mark.integration

_MOVES_IN = "import os, sys; os.chroot(sys.argv[1]); print('in', flush=True); sys.stdin.read()"
_ASKS = (
    "import sys; from mpi_agent.neighbours import memory_next_door;"
    " print(memory_next_door(int(sys.argv[1])))"
)


@contextlib.contextmanager
def somebody_in(root: Path) -> Iterator[int]:
    """Give the pid of a process that has a root directory of its own."""
    if os.getuid() != 0:
        pytest.skip("a root directory of its own needs root")
    with subprocess.Popen(
        (sys.executable, "-c", _MOVES_IN, str(root)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in\n"
        yield child.pid
        child.kill()


def account_of(root: Path) -> str:
    """Return what is told of the memory of somebody in a root, by a process that may not hang."""
    with somebody_in(root) as pid:
        asked = subprocess.run(
            (sys.executable, "-c", _ASKS, str(pid)),
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
    return asked.stdout.strip()


def groups_of(root: Path) -> Path:
    """Make the directory in which a container sees its control group."""
    groups = root / CGROUP_ROOT.relative_to("/")
    groups.mkdir(parents=True)
    return groups


def test_the_account_of_the_container_next_door_is_read(root: Path) -> None:
    """From regular files in directories, as the kernel shows them."""
    groups = groups_of(root)
    (groups / "memory.max").write_text("4096\n")
    (groups / "memory.current").write_text("1024\n")
    (groups / "memory.events").write_text("oom 1\noom_kill 1\n")

    assert account_of(root) == str(MemoryAccount(limit_bytes=4096, used_bytes=1024, kills=1))


def link_to_the_directory(root: Path, outside: Path) -> None:
    """Plant a link in place of the directory that holds the control group."""
    (root / "sys/fs").mkdir(parents=True)
    (root / "sys/fs/cgroup").symlink_to(outside)


def link_to_a_parent(root: Path, outside: Path) -> None:
    """Plant a link further up, to a tree that looks alike."""
    alike = outside.parent / "alike"
    (alike / "fs").mkdir(parents=True)
    (alike / "fs/cgroup").symlink_to(outside)
    (root / "sys").symlink_to(alike)


def link_to_a_file(root: Path, outside: Path) -> None:
    """Plant a link in place of each file."""
    groups = groups_of(root)
    for name in ("memory.max", "memory.current", "memory.events"):
        (groups / name).symlink_to(outside / name)


def link_to_the_first_version(root: Path, outside: Path) -> None:
    """Plant a link in place of the directory of the first version's controller."""
    (groups_of(root) / "memory").symlink_to(outside)


@pytest.mark.parametrize(
    "plant", [link_to_the_directory, link_to_a_parent, link_to_a_file, link_to_the_first_version]
)
def test_a_link_next_door_leads_nowhere(plant: Callable[[Path, Path], None], root: Path) -> None:
    """It would be followed in our own root, and our own figures told as the worker's."""
    inside, outside = root / "inside", root / "outside"
    for path in (inside, outside):
        path.mkdir()
    for name in ("memory.max", "memory.current", "memory.limit_in_bytes", "memory.events"):
        (outside / name).write_text("7\n")
    plant(inside, outside)

    assert account_of(inside) == str(MemoryAccount())


@pytest.mark.parametrize("name", ["memory.max", "memory.current", "memory.events"])
def test_a_fifo_next_door_keeps_nobody_waiting(name: str, root: Path) -> None:
    """Nobody will ever write to it, and all who ask for the status would wait behind that look."""
    groups = groups_of(root)
    (groups / "memory.max").write_text("4096\n")
    (groups / name).unlink(missing_ok=True)
    os.mkfifo(groups / name)

    told = account_of(root)

    limit_bytes = None if name == "memory.max" else 4096
    assert told == str(MemoryAccount(limit_bytes=limit_bytes))


def test_a_file_next_door_without_an_end_is_not_read_to_its_end(root: Path) -> None:
    """Of what is no number, nothing is told."""
    groups = groups_of(root)
    with (groups / "memory.max").open("wb") as stream:
        stream.truncate(1 << 40)

    assert account_of(root) == str(MemoryAccount())


def test_of_a_process_that_is_gone_nothing_is_told(root: Path) -> None:
    """It may go away between two looks."""
    with somebody_in(root) as pid:
        pass

    assert memory_next_door(pid) == MemoryAccount()
