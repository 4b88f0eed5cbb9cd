"""A discover script: a program that prints one host a line.

The script is the user's or the operator's, so it may fail, hang, or print something else. It
prints into files in memory: a pipe could be held open by what it leaves behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import BinaryIO

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


async def run_discover_script(path: Path, *, limit_s: float = SCRIPT_LIMIT_S) -> DiscoveredHosts:
    """Run the script and return the hosts it printed; nothing of it is left when this returns.

    Raises:
        HostSourceInvalidError: it cannot be run, fails, takes longer than the limit, or prints
            something else than hosts.
    """
    with _memory_file("output") as output, _memory_file("errors") as errors:
        code = await _run_to_its_end(path, output, errors, limit_s)
        if code != 0:
            raise _failed(path, f"it ended with code {code}", _content(errors))
        return parse_script_output(_content(output).decode(errors="replace"), place=str(path))


async def _run_to_its_end(path: Path, output: BinaryIO, errors: BinaryIO, limit_s: float) -> int:
    argv = [str(path)] if os.access(path, os.X_OK) else ["/bin/sh", str(path)]
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed(path, f"it cannot be run: {error.strerror}", b"") from error
    try:
        async with asyncio.timeout(limit_s):
            return await child.wait()
    except TimeoutError as error:
        raise _failed(path, f"it did not end within {limit_s:g} s", _content(errors)) from error
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


def _memory_file(name: str) -> BinaryIO:
    return os.fdopen(os.memfd_create(f"discover-{name}"), "w+b")


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _failed(path: Path, why: str, errors: bytes) -> HostSourceInvalidError:
    said = tuple(errors.decode(errors="replace").strip().splitlines()[-_EVIDENCE_LINES:])
    return HostSourceInvalidError(
        f'cannot learn the hosts from "{path}": {why}',
        hint="run the script by hand in the launcher; it must print one host name a line",
        evidence=said,
    )
