"""How many processes, and on how many hosts: the sum people get wrong.

np is the sum of slots unless the user gave a number. Fewer than the slots is said aloud, more is
an error unless oversubscription was asked for too, and a host of the job without a process is an
error unless that was asked for: mpirun would do each of these in silence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mpi_agent.command.arguments import MpirunLine
from mpi_agent.command.topics import Topic
from mpi_agent.errors import HostsUnusedError, SettingsError, SlotsExceededError
from mpi_agent.job.hosts import HostList

__all__ = [
    "Placement",
    "PlacementRequest",
    "asks_to_oversubscribe",
    "place",
    "placement_request",
]

_FILLS_ONE_HOST_FIRST = frozenset({"slot", "core", "hwthread"})
_PER_HOST = re.compile(r"ppr:(\d+):(?:node|host)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What the user asked about numbers and places.

    Attributes:
        np: processes asked for, None for the sum of slots.
        per_host: processes per host asked for, of all applications together; None when the
            mapping decides.
        mapping: the user's own mapping, such as `slot`, None when it is for us to choose.
    """

    np: int | None
    per_host: int | None
    mapping: str | None
    oversubscribes: bool
    allows_idle_hosts: bool
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What will be done.

    Attributes:
        map_by: mapping to add, None when the user's own stays.
        per_host: processes on each host in turn, None for as many as it has slots.
    """

    np: int
    map_by: str | None
    notes: tuple[str, ...]
    per_host: int | None = None


def asks_to_oversubscribe(line: MpirunLine | None, environ: Mapping[str, str]) -> bool:
    """Return whether the user asked for more processes than slots."""
    policies = [environ.get("PRTE_MCA_rmaps_default_mapping_policy", "")]
    if line is not None and (policy := line.parameter("rmaps_default_mapping_policy")):
        policies += policy.values[1:]
    switches = [environ.get("OMPI_MCA_rmaps_base_oversubscribe", "")]
    if line is not None:
        if line.has(Topic.OVERSUBSCRIBE):
            return True
        policies += line.values_of(Topic.MAP_BY)
        parameter = line.parameter("rmaps_base_oversubscribe")
        switches += parameter.values[1:] if parameter else ()
    asked = {word for policy in policies for word in re.split(r"[:,]", policy.lower())}
    return "oversubscribe" in asked or any(s.lower() in {"1", "true", "yes"} for s in switches)


def placement_request(
    line: MpirunLine | None,
    environ: Mapping[str, str],
    *,
    np: int | None,
    mapping_is_set: bool = False,
    chooses_cpus: bool = False,
    allows_idle_hosts: bool,
    strict: bool,
) -> PlacementRequest:
    """Return what the settings and the mpirun line ask for.

    Args:
        mapping_is_set: the user set a mapping by an MCA parameter.
        chooses_cpus: he chose CPUs in a way that bears no mapping of ours; mpirun's own then fills
            one host after the other.

    Raises:
        SettingsError: they contradict each other, or a number is none.
    """
    line_np = _line_np(line)
    if np is not None and line_np is not None and np != line_np:
        raise SettingsError(
            f"cannot start both {np} and {line_np} processes: --np and mpirun's own -np differ",
            hint="give one of them",
        )
    return PlacementRequest(
        np=line_np if line_np is not None else np,
        per_host=_per_host(line),
        mapping=_mapping_of(line)
        or ("other" if mapping_is_set else "slot" if chooses_cpus else None),
        oversubscribes=asks_to_oversubscribe(line, environ),
        allows_idle_hosts=allows_idle_hosts,
        strict=strict,
    )


def _line_np(line: MpirunLine | None) -> int | None:
    """Return how many processes the applications of a line get, None when it does not say."""
    if line is None:
        return None
    _refuse_two_counts(line)
    if all(count is None for count in line.np_counts):
        if len(line.np_counts) > 1 and not line.has(Topic.PER_HOST):
            raise SettingsError(
                f"cannot share out the slots among {len(line.np_counts)} applications: none of "
                "them says how many processes it gets",
                hint="give each application its own -np",
            )
        return None
    for number, count in enumerate(line.np_counts, start=1):
        if count is None:
            raise SettingsError(
                f"cannot count the processes of the mpirun line: application {number} of "
                f"{len(line.np_counts)} does not say how many it gets",
                hint="give each application its own -np",
            )
        if not count.isdigit() or int(count) < 1:
            raise SettingsError(
                f'cannot use "-np {count}" of the mpirun line: not a number of processes',
                hint="write -np with a number of at least 1, or leave it out for every slot",
            )
    return sum(int(count) for count in line.np_counts if count is not None)


def _refuse_two_counts(line: MpirunLine) -> None:
    """Refuse two counts for one application.

    Source: Open MPI 4.1.4 takes the last, 5.0.11 the first, MPICH 4.0.2 ends; seen 2026-11-30.
    """
    seen: dict[int, str] = {}
    for option in line.options_of(Topic.NP):
        count = option.values[0] if option.values else ""
        if seen.setdefault(option.application, count) != count:
            raise SettingsError(
                f"cannot start both {seen[option.application]} and {count} processes: the mpirun "
                "line says -np twice",
                hint="give one of them",
            )


def _mapping_of(line: MpirunLine | None) -> str | None:
    """Return the first word of the user's mapping, without its modifiers."""
    if line is None:
        return None
    for value in line.values_of(Topic.MAP_BY):
        return re.split(r"[:,]", value.lower())[0] or "slot"
    return "other" if line.has(Topic.PER_HOST, Topic.OTHER_MAPPING) else None


def _per_host(line: MpirunLine | None) -> int | None:
    """Return how many processes each host gets, of all applications together.

    Raises:
        SettingsError: the line counts by something that only the hosts know, and gives no -np.
    """
    if line is None:
        return None
    for value in line.values_of(Topic.MAP_BY):
        if match := _PER_HOST.search(value):
            return int(match[1])
        if value.lower().startswith("ppr:") and all(count is None for count in line.np_counts):
            raise SettingsError(
                f'cannot count the processes of "--map-by {value}": how many of these a host has '
                "is not known",
                hint="give -np too, or count by host, as in --map-by ppr:2:node",
            )
    counts = [int(v) for v in line.values_of(Topic.PER_HOST) if v.isdigit() and int(v) > 0]
    says_all = len(counts) == len(line.np_counts)
    return sum(counts) if says_all else (counts[0] if counts else None)


def place(request: PlacementRequest, hosts: HostList) -> Placement:
    """Return how many processes are started and how they are spread.

    Raises:
        SlotsExceededError: more processes than slots, not asked for.
        HostsUnusedError: a host of the job would get no process, not asked for.
        SettingsError: strict, and slots would stay idle.
    """
    host_count = len(hosts.hosts)
    np = request.np or (request.per_host * host_count if request.per_host else hosts.total_slots)
    _refuse_too_many(np, request, hosts)
    map_by, notes = _mapping(np, request, hosts)
    used = _hosts_used(np, map_by, request, hosts)
    if used is not None and used < host_count and not request.allows_idle_hosts:
        raise HostsUnusedError(
            f"cannot run {np} processes on all {host_count} hosts of the job: "
            f"only {used} of them would get one",
            hint=f"start at least {host_count} processes, or allow it with --allow-idle-hosts",
        )
    if np % host_count and map_by is not None and np != hosts.total_slots:
        notes = (*notes, f"{np} processes do not spread evenly over {host_count} hosts")
    if np < hosts.total_slots:
        said = f"{np} processes on {hosts.total_slots} slots: {hosts.total_slots - np} stay idle"
        if request.strict:
            raise SettingsError(
                f"cannot leave slots idle under --strict: {said}",
                hint="leave -np out to use every slot",
            )
        notes = (said, *notes)
    by_node = (map_by or request.mapping) == "node"
    per_host = request.per_host or (1 if by_node else None)
    return Placement(np=np, map_by=map_by, notes=notes, per_host=per_host)


def _refuse_too_many(np: int, request: PlacementRequest, hosts: HostList) -> None:
    if request.oversubscribes or np <= hosts.total_slots:
        return
    raise SlotsExceededError(
        f"cannot start {np} processes: {len(hosts.hosts)} hosts have {hosts.total_slots} slots",
        hint="leave the number out, give the hosts more slots (slotsPerWorker, --slots), or write "
        "`mpirun --oversubscribe`",
    )


def _mapping(
    np: int, request: PlacementRequest, hosts: HostList
) -> tuple[str | None, tuple[str, ...]]:
    """Return our mapping: by slot, or by node where that would leave a host idle."""
    if request.mapping is not None:
        return None, ()
    if len(hosts.hosts) <= np and _filled_by_slot(np, hosts) < len(hosts.hosts):
        return "node", (f"mapped by node, so that each of {len(hosts.hosts)} hosts gets a rank",)
    return "slot", ()


def _filled_by_slot(np: int, hosts: HostList) -> int:
    """Return how many hosts get a process when they are filled one after the other."""
    left = np
    for count, host in enumerate(hosts.hosts):
        if left <= 0:
            return count
        left -= host.slots
    return len(hosts.hosts)


def _hosts_used(
    np: int, map_by: str | None, request: PlacementRequest, hosts: HostList
) -> int | None:
    """Return how many hosts get a process, None where the user's mapping does not tell."""
    if request.per_host:
        return min(len(hosts.hosts), math.ceil(np / request.per_host))
    mapping = map_by or request.mapping
    if mapping in _FILLS_ONE_HOST_FIRST:
        return _filled_by_slot(np, hosts)
    return min(np, len(hosts.hosts)) if mapping == "node" else None
