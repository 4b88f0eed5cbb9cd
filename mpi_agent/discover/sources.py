"""Which source tells the hosts of this job, in the order in which they are believed.

`--hosts` or the mpirun line's own `-H` > the line's `--hostfile` > `--hostfile` > the operator's
hostfile > a discover script. What the user wrote keeps its order; what an operator wrote is put in
numeric order, and names in it that cannot belong to this job are refused and never dialled.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import tenacity

from mpi_agent.discover.hostfile import merge_repeated, parse_hostfile
from mpi_agent.discover.mpi_operator import JobIdentity, no_source_error, separate_strangers
from mpi_agent.discover.script import run_discover_script
from mpi_agent.discover.static import parse_host_list
from mpi_agent.errors import (
    HostsNotReadyError,
    HostSourceInvalidError,
    HostSourceMissingError,
)
from mpi_agent.job.hosts import DiscoveredHosts, fold_names
from mpi_agent.job.readiness import HostReadiness, ReadinessReport

__all__ = ["Discovery", "SourceRequest", "discover_hosts"]

_SCRIPT_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """Where to look.

    Attributes:
        hosts: a list the user wrote, and the option it stood behind.
        hostfile: a file the user named.
        expected: how many hosts a discover script must list; None takes what it lists.
        timeout_s: limit for that, None for none.
        operator_directory: where mpi-operator mounts its files.
    """

    hosts: str | None = None
    hosts_option: str = "--hosts"
    hostfile: str | None = None
    expected: int | None = None
    timeout_s: float | None = None
    role: str | None = None
    operator_directory: Path = Path("/etc/mpi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The hosts that were found, and whether their order is for us to choose."""

    hosts: DiscoveredHosts
    numeric_order: bool


async def discover_hosts(request: SourceRequest, identity: JobIdentity) -> Discovery:
    """Return the hosts of the job from the first source that is there.

    Raises:
        HostSourceMissingError: no source is there.
        HostSourceInvalidError: the source that is there cannot be understood.
        HostsNotReadyError: a script lists too few hosts until the time limit.
    """
    if request.hosts is not None:
        found = parse_host_list(request.hosts, place=request.hosts_option)
        return Discovery(hosts=found, numeric_order=False)
    operator_hostfile = request.operator_directory / "hostfile"
    if request.hostfile is not None and Path(request.hostfile) != operator_hostfile:
        return Discovery(hosts=_read_hostfile(Path(request.hostfile)), numeric_order=False)
    if operator_hostfile.exists():
        found = _refuse_strangers(_read_hostfile(operator_hostfile), identity)
        return Discovery(hosts=found, numeric_order=True)
    script = request.operator_directory / "discover_hosts.sh"
    if script.exists():
        return Discovery(hosts=await _ask_script(script, request, identity), numeric_order=True)
    raise no_source_error(
        has_directory=request.operator_directory.is_dir(),
        has_kubexec=(request.operator_directory / "kubexec.sh").exists(),
        role=request.role,
    )


def _read_hostfile(path: Path) -> DiscoveredHosts:
    try:
        text = path.read_text()
    except FileNotFoundError as error:
        raise HostSourceMissingError(
            f'cannot find the hostfile "{path}": there is no such file',
            hint="check the path; it is read inside this container",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HostSourceInvalidError(
            f'cannot read the hostfile "{path}": {why}', hint="check the file and its mode"
        ) from error
    entries, notes = merge_repeated(parse_hostfile(text, place=str(path)))
    return DiscoveredHosts(entries=entries, source=str(path), notes=notes)


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


async def _ask_script(
    script: Path, request: SourceRequest, identity: JobIdentity
) -> DiscoveredHosts:
    """Return what the script lists, asked again until it lists as many as are expected."""
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda found: _is_short(found, request.expected)),
        stop=tenacity.stop_after_delay(request.timeout_s)
        if request.timeout_s is not None
        else tenacity.stop_never,
        wait=tenacity.wait_fixed(_SCRIPT_PAUSE_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )

    async def ask() -> DiscoveredHosts:
        return _leave_out_strangers(await asyncio.to_thread(run_discover_script, script), identity)

    found: DiscoveredHosts = await retrying(ask)
    if _is_short(found, request.expected):
        listed = tuple(HostReadiness(host=entry.name) for entry in found.entries)
        limit_s = request.timeout_s or 0.0
        raise HostsNotReadyError(
            f'cannot find {request.expected} hosts within {limit_s:g} s: "{script}" lists'
            f" {len(listed)}",
            hint="the operator lists a worker once its pod runs: see `kubectl get pods`",
            report=ReadinessReport(hosts=listed, elapsed_s=limit_s, timeout_s=limit_s),
        )
    return found


def _is_short(found: DiscoveredHosts, expected: int | None) -> bool:
    return expected is not None and len(found.entries) < expected


def _leave_out_strangers(found: DiscoveredHosts, identity: JobIdentity) -> DiscoveredHosts:
    own, strangers = separate_strangers(found.entries, identity)
    if not strangers:
        return found
    names = fold_names(tuple(entry.name for entry in strangers))
    note = f"{names} cannot belong to this job; left out and not dialled"
    return replace(found, entries=own, notes=(*found.notes, note))
