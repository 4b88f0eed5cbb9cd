"""Which source tells the hosts of this job, in the order in which they are believed.

`--hosts` or the mpirun line's own `-H` > the line's `--hostfile` > `--hostfile` > the operator's
hostfile > a discover script. What the user wrote keeps its order; what an operator wrote is put in
numeric order, and names in it that cannot belong to this job are refused and never dialled.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.discover.mpi_operator import JobIdentity, no_source_error
from mpi_agent.discover.readers import HostfileReader, Reader, ScriptReader
from mpi_agent.discover.static import parse_host_list
from mpi_agent.errors import HostsNotReadyError
from mpi_agent.job.hosts import DiscoveredHosts
from mpi_agent.job.readiness import HostReadiness, ReadinessReport

__all__ = ["Discovery", "SourceRequest", "discover_hosts"]

_PAUSE_WHILE_TOO_FEW_S = 1.0


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
    """The hosts that were found, and whether their order is for us to choose.

    Attributes:
        reader: tells of other hosts later on; None where the list is fixed.
    """

    hosts: DiscoveredHosts
    numeric_order: bool
    reader: Reader | None = None


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
        users = HostfileReader(Path(request.hostfile), None)
        return Discovery(hosts=await users.read(), numeric_order=False, reader=users)
    if os.path.exists(operator_hostfile):
        operators = HostfileReader(operator_hostfile, identity)
        return Discovery(hosts=await operators.read(), numeric_order=True, reader=operators)
    script = request.operator_directory / "discover_hosts.sh"
    if os.path.exists(script):
        return await _ask_script(ScriptReader(script, identity), script, request)
    raise no_source_error(
        has_directory=os.path.isdir(request.operator_directory),
        has_kubexec=os.path.exists(request.operator_directory / "kubexec.sh"),
        role=request.role,
    )


async def _ask_script(reader: ScriptReader, script: Path, request: SourceRequest) -> Discovery:
    """Return what the script lists; where a number is expected, once it lists as many."""
    if request.expected is None:
        return Discovery(hosts=await reader.read(), numeric_order=True, reader=reader)
    found = await _ask_until_enough(reader, request.expected, request.timeout_s)
    if len(found.entries) < request.expected:
        raise _too_few(script, found, request)
    return Discovery(hosts=found, numeric_order=True)


async def _ask_until_enough(
    reader: ScriptReader, expected: int, timeout_s: float | None
) -> DiscoveredHosts:
    import tenacity

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda found: len(found.entries) < expected),
        stop=tenacity.stop_never if timeout_s is None else tenacity.stop_after_delay(timeout_s),
        wait=tenacity.wait_fixed(_PAUSE_WHILE_TOO_FEW_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    found: DiscoveredHosts = await retrying(reader.read)
    return found


def _too_few(script: Path, found: DiscoveredHosts, request: SourceRequest) -> HostsNotReadyError:
    listed = tuple(HostReadiness(host=entry.name) for entry in found.entries)
    limit_s = request.timeout_s or 0.0
    return HostsNotReadyError(
        f'cannot find {request.expected} hosts within {limit_s:g} s: "{script}" lists'
        f" {len(listed)}",
        hint="the operator lists a worker once its pod runs: see `kubectl get pods`",
        report=ReadinessReport(hosts=listed, elapsed_s=limit_s, timeout_s=limit_s),
    )
