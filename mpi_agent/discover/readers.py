"""Reading the sources that may change while the job is waited for: a hostfile, a discover script.

Each can be read again by the rules of its first reading. Names that cannot belong to this job are
an error in a file, which an operator wrote as a whole, and are left out of what a script prints.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mpi_agent.discover.changes import with_all_of
from mpi_agent.discover.hostfile import merge_repeated, parse_hostfile
from mpi_agent.discover.mpi_operator import JobIdentity, separate_strangers
from mpi_agent.discover.script import run_discover_script
from mpi_agent.errors import HostSourceInvalidError, HostSourceMissingError
from mpi_agent.job.hosts import DiscoveredHosts, fold_names

__all__ = ["HostfileReader", "Reader", "ScriptReader"]

FILE_PAUSE_S = 1.0
SCRIPT_PAUSE_S = 5.0


class Reader(Protocol):
    """A source that can be read again and again."""

    @property
    def pause_s(self) -> float:
        """Seconds after which a look at the source is worth its cost."""

    async def read(self) -> DiscoveredHosts:
        """Return what the source tells now.

        Raises:
            DiscoveryError: it is missing or cannot be understood.
        """

    async def read_if_new(self) -> DiscoveredHosts | None:
        """Return what the source tells now if that may be something new; raises like `read`."""


class HostfileReader:
    """Reads a hostfile, again once it has changed and then stayed the same for one pause.

    An operator's file is replaced at once, but an editor writes in pieces, and half a file is a
    smaller job.

    Args:
        identity: the job to which every name must be able to belong; None takes any name.

    Source: Kubernetes documentation, "Mounted ConfigMaps are updated automatically": the mount is a
    link to a directory that is replaced as a whole; 78 s after a scale of mpi-operator v0.8.2
    (measured 2026-11).
    """

    def __init__(
        self, path: Path, identity: JobIdentity | None, *, pause_s: float = FILE_PAUSE_S
    ) -> None:
        self.pause_s = pause_s
        self._path = path
        self._identity = identity
        self._version_read: object = None
        self._version_seen: object = None

    async def read(self) -> DiscoveredHosts:
        """Return what the file tells now."""
        self._version_read = self._version_seen = self._version()
        entries, notes = merge_repeated(parse_hostfile(self._text(), place=str(self._path)))
        found = DiscoveredHosts(entries=entries, source=str(self._path), notes=notes)
        return found if self._identity is None else _refuse_strangers(found, self._identity)

    async def read_if_new(self) -> DiscoveredHosts | None:
        """Return what the file tells, None for one that is as it was or is being written."""
        seen_before, self._version_seen = self._version_seen, self._version()
        if self._version_seen == self._version_read or self._version_seen != seen_before:
            return None
        return await self.read()

    def _version(self) -> object:
        """Return a value that is another one when the file is; a link to it counts as the file."""
        try:
            found = self._path.stat()
        except OSError as error:
            return error.errno
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _text(self) -> str:
        if self._path.is_fifo():
            raise HostSourceInvalidError(
                f'cannot read the hostfile "{self._path}": it is a pipe, which nobody may write to',
                hint="write the hosts into a file, or name them with --hosts",
            )
        try:
            return self._path.read_text()
        except FileNotFoundError as error:
            raise HostSourceMissingError(
                f'cannot find the hostfile "{self._path}": there is no such file',
                hint="check the path; it is read inside this container",
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise HostSourceInvalidError(
                f'cannot read the hostfile "{self._path}": {why}',
                hint="check the file and its mode",
            ) from error


class ScriptReader:
    """Asks a discover script; a host that it listed once is not dropped by a later reading."""

    def __init__(
        self, path: Path, identity: JobIdentity, *, pause_s: float = SCRIPT_PAUSE_S
    ) -> None:
        self.pause_s = pause_s
        self._path = path
        self._identity = identity
        self._told = DiscoveredHosts(entries=(), source=str(path))

    async def read(self) -> DiscoveredHosts:
        """Return what the script lists now."""
        self._told = await self._ask()
        return self._told

    async def read_if_new(self) -> DiscoveredHosts | None:
        """Return what the script lists now, and what it listed before."""
        self._told = with_all_of(self._told, await self._ask())
        return self._told

    async def _ask(self) -> DiscoveredHosts:
        return _leave_out_strangers(await run_discover_script(self._path), self._identity)


def _refuse_strangers(found: DiscoveredHosts, identity: JobIdentity) -> DiscoveredHosts:
    own, strangers = separate_strangers(found.entries, identity)
    if strangers:
        names = fold_names(tuple(entry.name for entry in strangers))
        raise HostSourceInvalidError(
            f'cannot use "{found.source}": {names} cannot belong to job "{identity.job}"'
            f" in namespace {identity.namespace or 'unknown'}",
            hint="give the hosts with --hosts if they are meant; nobody was dialled",
        )
    return replace(found, entries=own)


def _leave_out_strangers(found: DiscoveredHosts, identity: JobIdentity) -> DiscoveredHosts:
    own, strangers = separate_strangers(found.entries, identity)
    if not strangers:
        return found
    names = fold_names(tuple(entry.name for entry in strangers))
    note = f"{names} cannot belong to this job; left out and not dialled"
    return replace(found, entries=own, notes=(*found.notes, note))
