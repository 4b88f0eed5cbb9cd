"""A launcher whose stderr nobody reads, or reads late: what it does all the same."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tests.workers import LIMIT_S

pytestmark = pytest.mark.integration

_NOTES_SIGNALS = """\
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path("told").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
pathlib.Path("began").touch()
time.sleep(60)
"""
_WRITES_MUCH = "import sys\nfor n in range(3000): print('line', n, file=sys.stderr)"


def local_words(program: str) -> list[str]:
    """Return a local job of one rank."""
    options = ("--workers", "1", "--ssh", "builtin", "--sshd", "builtin")
    return [
        *(sys.executable, "-m", "mpi_agent", "local", *options),
        *("--", sys.executable, "-c", program),
    ]


def full_pipe() -> tuple[int, int]:
    """Return both ends of a pipe that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)))
    os.set_blocking(writing, True)
    return reading, writing


def test_a_stop_reaches_the_program_though_nobody_reads_the_log(tmp_path: Path) -> None:
    """And the agent ends soon afterwards, by its own code."""
    reading, writing = full_pipe()
    words = local_words(_NOTES_SIGNALS)
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing, cwd=tmp_path
    ) as agent:
        try:
            wait_until("the program runs", (tmp_path / "began").exists)
            agent.send_signal(signal.SIGTERM)
            wait_until("it was told", (tmp_path / "told").exists)
            code = agent.wait(LIMIT_S)
        finally:
            os.close(reading)  # whoever still waits for a reader ends
            os.close(writing)
            agent.kill()

    assert code in (0, 143), "128 + TERM, or what the program made of it"


def test_an_error_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    """A program that is missing, with a log that takes nothing."""
    reading, writing = full_pipe()
    words = [*local_words("")[:-3], "--", str(tmp_path / "missing")]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing, cwd=tmp_path
    ) as agent:
        try:
            code = agent.wait(LIMIT_S)
        finally:
            os.close(reading)
            os.close(writing)
            agent.kill()

    assert code == 127


def test_the_ending_is_the_last_line_below_all_that_the_program_wrote(tmp_path: Path) -> None:
    """In one file with it, and however late that is read."""
    words = local_words(_WRITES_MUCH)
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        text=True,
    ) as agent:
        output, _ = agent.communicate(timeout=LIMIT_S)

    lines = output.splitlines()
    assert lines[-1].startswith("mpi-agent: "), lines[-3:]
    assert "verdict=SUCCEEDED" in lines[-1]
    assert sum(line.startswith("line ") for line in lines) == 3000
