"""How many channels fit into the limit of open files, tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_TRY = """
import resource, subprocess, sys
from mpi_agent.run.open_files import room_for_channels
soft, hard, count = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
program = subprocess.Popen(["sleep", "60"])
try:
    room = room_for_channels(count)
    of_program = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)[0]
finally:
    program.kill()
    program.wait()
print(room, resource.getrlimit(resource.RLIMIT_NOFILE)[0], of_program)
"""


def tried(*, soft: int, hard: int, count: int) -> tuple[int, int, int]:
    """Return the room for channels, and the soft limit of us and of a program that runs already."""
    argv = [sys.executable, "-c", _TRY, str(soft), str(hard), str(count)]
    out = subprocess.run(argv, capture_output=True, check=True, text=True, timeout=30).stdout
    room, own, of_program = map(int, out.split())
    return room, own, of_program


def test_a_limit_that_is_high_enough_stays() -> None:
    """Most jobs have few workers."""
    assert tried(soft=1024, hard=4096, count=100) == (100, 1024, 1024)


def test_a_thousand_channels_raise_our_own_soft_limit_and_not_the_programs() -> None:
    """Its ranks on this host are to see what the container was given."""
    room, own, of_program = tried(soft=1024, hard=4096, count=1000)

    assert (room, of_program) == (1000, 1024)
    assert 1000 < own < 1500


@pytest.mark.parametrize("soft", [512, 1024])
def test_with_a_low_hard_limit_there_is_room_for_fewer(soft: int) -> None:
    """And for other files than channels."""
    room, own, _ = tried(soft=soft, hard=1024, count=1000)

    assert own == 1024
    assert 700 < room < 800


def test_there_is_room_for_one_channel_at_least() -> None:
    """Whether it can be opened shows then."""
    assert tried(soft=64, hard=64, count=5)[0] == 1
