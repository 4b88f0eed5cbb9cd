"""From a source's entries to the job's hosts: rank order, and an explicit slot count for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import (
    DiscoveredHosts,
    Host,
    HostEntry,
    HostList,
    Role,
    numeric_order_key,
)

__all__ = ["DefaultSlots", "OwnNames", "default_slots", "to_host_list"]

_SLOT_VARIABLES = (
    "OMPI_MCA_orte_set_default_slots",
    "PRTE_MCA_prte_set_default_slots",
    "I_MPI_PERHOST",
)
_LOOPBACK = ("localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSlots:
    """Slots of a host whose source gives no count, and who said so."""

    count: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNames:
    """By which names this container is known, to tell the launcher among the hosts."""

    host_name: str
    names: tuple[str, ...]
    addresses: tuple[str, ...]

    def include(self, name: str) -> bool:
        """Return whether a host of the job is this very container."""
        return (
            name in (self.host_name, *self.names, *self.addresses)
            or name.split(".", 1)[0] == self.host_name
            or name in _LOOPBACK
            or name.startswith("127.")
        )


def default_slots(wanted: int | None, environ: Mapping[str, str]) -> DefaultSlots:
    """Return the count for hosts without one: --slots, else the operator's variable, else 1."""
    if wanted is not None:
        return DefaultSlots(count=wanted, origin="--slots")
    for name in _SLOT_VARIABLES:
        value = environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return DefaultSlots(count=int(value), origin=name)
    return DefaultSlots(count=1, origin="default")


def to_host_list(
    discovered: DiscoveredHosts, *, slots: DefaultSlots, own: OwnNames, numeric_order: bool
) -> HostList:
    """Return the hosts in rank order, each with its slots.

    Args:
        numeric_order: the launcher first if it is among them, then worker-2 before worker-10;
            False keeps the order of a list that the user wrote.

    The launcher stands in the list under its own host name: Open MPI 5 takes any other name of it
    for a remote host (kubeflow/trainer issue 4028).

    Raises:
        HostSourceInvalidError: the source lists nobody.
    """
    if not discovered.entries:
        raise HostSourceInvalidError(
            f'cannot find any host in "{discovered.source}": it lists nobody',
            hint="say how many hosts to wait for with --workers N, or name them with --hosts",
        )
    entries = list(discovered.entries)
    if numeric_order:
        entries.sort(key=lambda e: (not own.include(e.name), numeric_order_key(e.name)))
    hosts = tuple(_to_host(entry, i, slots, own) for i, entry in enumerate(entries))
    try:
        return HostList(hosts=hosts, source=discovered.source)
    except ValueError as error:
        raise HostSourceInvalidError(
            f'cannot use the hosts of "{discovered.source}": {error}',
            hint="this container stands in the list under two names; keep one",
        ) from error


def _to_host(entry: HostEntry, index: int, slots: DefaultSlots, own: OwnNames) -> Host:
    is_local = own.include(entry.name)
    return Host(
        name=own.host_name if is_local else entry.name.rstrip("."),
        slots=entry.slots if entry.slots is not None else slots.count,
        role=Role.LAUNCHER if is_local else Role.WORKER,
        index=index,
        is_local=is_local,
    )
