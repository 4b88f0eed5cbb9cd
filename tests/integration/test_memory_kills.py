"""A process that the kernel really kills for its memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.worker.memory import MemoryWatch
from tests.workers import LIMIT_S

pytestmark = pytest.mark.integration

LIMIT_BYTES = 64 << 20
FIRST = Path("/sys/fs/cgroup/memory")
SECOND = Path("/sys/fs/cgroup")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Return a control group with a limit, and the root under which a container would see it."""
    is_first = (FIRST / "memory.limit_in_bytes").exists()
    name = f"mpi-agent-test-{os.getpid()}"
    group = (FIRST if is_first else SECOND) / name
    limit = group / ("memory.limit_in_bytes" if is_first else "memory.max")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not limit.exists():
            pytest.skip("control groups do not account for memory here")
        limit.write_text(str(LIMIT_BYTES))
        if (swap := group / "memory.swap.max").exists():
            swap.write_text("0")
        if is_first:
            (tmp_path / "memory").symlink_to(group)
        yield group, tmp_path if is_first else group
    finally:
        group.rmdir()


def test_a_rank_that_takes_too_much_is_told_with_the_limit(group: tuple[Path, Path]) -> None:
    """Where its launcher learns of signal 9 alone."""
    directory, root = group
    watch = MemoryWatch(root)
    takes = (
        f"import os; open('{directory}/cgroup.procs', 'w').write(str(os.getpid()));"
        " kept = [bytes(b'x' * (1 << 20)) for _ in range(4096)]"
    )

    child = subprocess.run([sys.executable, "-c", takes], timeout=LIMIT_S, check=False)

    exceeded = watch.look()
    assert child.returncode == -9
    assert exceeded is not None
    assert (exceeded.kills, exceeded.limit_bytes) == (1, LIMIT_BYTES)
    assert exceeded.used_bytes is not None
    assert 0.9 * LIMIT_BYTES < exceeded.used_bytes <= LIMIT_BYTES
    assert watch.look() is None
