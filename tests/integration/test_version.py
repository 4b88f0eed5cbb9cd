"""`mpi-agent --version`: the same words on every way in, and next to nothing loaded for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mpi_agent import __version__

pytestmark = pytest.mark.integration


def test_the_short_way_says_what_the_long_one_says() -> None:
    """Anything but the one word goes to the command group."""
    ways = (("--version",), ("--version", "launch"))
    said = [
        subprocess.run((sys.executable, "-m", "mpi_agent", *words), capture_output=True, check=True)
        for words in ways
    ]

    assert said[0].stdout == said[1].stdout == f"mpi-agent, version {__version__}\n".encode()


def test_the_version_is_told_before_anything_is_loaded() -> None:
    """Scripts ask for it again and again."""
    code = (
        "import sys; from mpi_agent.__main__ import main; sys.argv[1:] = ['--version']; main();"
        "print([name for name in ('click', 'asyncio', 'asyncssh') if name in sys.modules])"
    )

    ended = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == [f"mpi-agent, version {__version__}", "[]"]
