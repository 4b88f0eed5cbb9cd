"""From a source's entries to the job's hosts: rank order, and an explicit slot count for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import (
    DiscoveredHosts,
    Host,
    HostEntry,
    HostList,
    Role,
    SlotsOrigin,
    numeric_order_key,
)
from mpi_agent.setting_words import Slots

__all__ = [
    "SLOT_VARIABLES",
    "DefaultSlots",
    "OwnNames",
    "default_slots",
    "slots_of_variable",
    "to_host_list",
]

SLOT_VARIABLES = (
    "OMPI_MCA_orte_set_default_slots",
    "PRTE_MCA_prte_set_default_slots",
    "I_MPI_PERHOST",
)
"""Set on launchers: by mpi-operator from slotsPerWorker, by Trainer from numProcPerNode, by users.

Source: mpi-operator v0.8.2 (`OMPI_MCA_...` or `I_MPI_PERHOST`) and Kubeflow Trainer, as of 2026-08.
"""
_LOOPBACK = ("localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSlots:
    """Slots of a host whose source gives no count, and who said so.

    Attributes:
        slots_from: WANTED where the hosts are to be asked; the count stands in until then.
    """

    count: int
    origin: str
    slots_from: SlotsOrigin = SlotsOrigin.DEFAULT


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


def default_slots(wanted: int | Slots | None, environ: Mapping[str, str]) -> DefaultSlots:
    """Return the count for hosts without one: --slots, else the operator's variable, else 1."""
    if isinstance(wanted, Slots):
        return DefaultSlots(count=1, origin="--slots auto", slots_from=SlotsOrigin.WANTED)
    if wanted is not None:
        return DefaultSlots(count=wanted, origin="--slots", slots_from=SlotsOrigin.SETTING)
    for name in SLOT_VARIABLES:
        if (count := slots_of_variable(environ, name)) is not None:
            return DefaultSlots(count=count, origin=name, slots_from=SlotsOrigin.VARIABLE)
    return DefaultSlots(count=1, origin="default")


def slots_of_variable(environ: Mapping[str, str], name: str) -> int | None:
    """Return the count that a variable gives, None where it gives none."""
    value = environ.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and int(value) > 0 else None


def to_host_list(
    discovered: DiscoveredHosts, *, slots: DefaultSlots, own: OwnNames, numeric_order: bool
) -> HostList:
    """Return the hosts in rank order, each with its slots.

    Args:
        slots: for hosts without a count; where the hosts are to be asked and each has a count
            already, all are asked nevertheless, because the user wanted it.
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
    if slots.slots_from is SlotsOrigin.WANTED and all(entry.slots for entry in entries):
        entries = [replace(entry, slots=None) for entry in entries]
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
        slots_from=SlotsOrigin.SOURCE if entry.slots is not None else slots.slots_from,
    )
