"""How a Python of ours is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("options", "expected"), [(("-I",), "-I"), (("-P",), "-P"), ((), "-P"), (("-E",), "-P")]
)
def test_what_is_started_is_as_isolated_as_who_starts_it(
    options: tuple[str, ...], expected: str
) -> None:
    """In a checkout, where PYTHONPATH leads to us, it does so for our children too."""
    program = (
        f"import sys; sys.path[:0] = [{str(REPOSITORY)!r}]\n"
        "from mpi_agent.container import own_python\nprint(*own_python(), sep='\\n')"
    )

    said = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=True
    )

    assert said.stdout.splitlines() == [sys.executable, expected]
