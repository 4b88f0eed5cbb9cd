"""A discover script: a program that prints one host a line.

The script is the user's or the operator's, so it may fail, hang, or print something else.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from mpi_agent.discover.hostfile import merge_repeated, parse_hostfile
from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import DiscoveredHosts

__all__ = ["SCRIPT_LIMIT_S", "parse_script_output", "run_discover_script"]

SCRIPT_LIMIT_S = 10.0
_EVIDENCE_LINES = 5


def parse_script_output(text: str, *, place: str) -> DiscoveredHosts:
    """Return the hosts that a discover script printed, in its order; none is a valid answer.

    Raises:
        HostSourceInvalidError: a line is not a host; names its number and text.
    Source: mpi-operator v0.8.2 writes `echo NAME` lines without slots; Horovod's scripts may
    print `NAME:SLOTS`.
    """
    if not text.strip():
        return DiscoveredHosts(entries=(), source=place)
    entries, notes = merge_repeated(parse_hostfile(text, place=f"output of {place}"))
    return DiscoveredHosts(entries=entries, source=place, notes=notes)


def run_discover_script(path: Path, *, limit_s: float = SCRIPT_LIMIT_S) -> DiscoveredHosts:
    """Run the script and return the hosts it printed.

    Raises:
        HostSourceInvalidError: it cannot be run, fails, takes longer than the limit, or prints
            something else than hosts.
    """
    argv = [str(path)] if os.access(path, os.X_OK) else ["/bin/sh", str(path)]
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed(path, f"it cannot be run: {error.strerror}", b"") from error
    with child:
        try:
            output, errors = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            os.killpg(child.pid, signal.SIGKILL)
            raise _failed(path, f"it did not end within {limit_s:g} s", b"") from error
    if child.returncode != 0:
        raise _failed(path, f"it ended with code {child.returncode}", errors)
    return parse_script_output(output.decode(errors="replace"), place=str(path))


def _failed(path: Path, why: str, errors: bytes) -> HostSourceInvalidError:
    said = tuple(errors.decode(errors="replace").strip().splitlines()[-_EVIDENCE_LINES:])
    return HostSourceInvalidError(
        f'cannot learn the hosts from "{path}": {why}',
        hint="run the script by hand in the launcher; it must print one host name a line",
        evidence=said,
    )
