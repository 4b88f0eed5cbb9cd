"""Runs a command within a limit; at the limit it is ended with all that it started."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress

import psutil

__all__ = ["run_within"]

_GRACE_S = 10.0
_LAST_LINES = 30


def run_within(
    limit_s: float, *argv: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return how a command ended, whatever that was; nothing that it started outlives the limit.

    Raises:
        TimeoutError: it did not end within the limit by itself.
    """
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    ) as popen:
        try:
            out, err = popen.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end_with_children(popen.pid)
            words = "\n".join(_rest_of(popen).splitlines()[-_LAST_LINES:])
            raise TimeoutError(
                f"{' '.join(argv)}: not over within {limit_s:g} s\n{words}"
            ) from None
        except BaseException:
            _end_with_children(popen.pid)
            raise
    return subprocess.CompletedProcess(argv, popen.returncode, out, err)


def _end_with_children(pid: int) -> None:
    """Ask a process and all that it started to end, and kill what has not by then.

    A build on its way in a session of its own would go on otherwise, and hold the pipes open.
    """
    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=_GRACE_S)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _rest_of(popen: subprocess.Popen[str]) -> str:
    """Return what was printed, unless somebody still holds the pipe."""
    try:
        return "".join(popen.communicate(timeout=_GRACE_S))
    except subprocess.TimeoutExpired:
        return ""
