"""The hosts of a job: as a source names them, and as they will stand in the hostfile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "DiscoveredHosts",
    "Host",
    "HostEntry",
    "HostList",
    "Role",
    "SlotsOrigin",
    "fold_names",
    "numeric_order_key",
]

_NUMBER = re.compile(r"(\d+)")


class Role(Enum):
    """What a host's pod is in the job."""

    LAUNCHER = "launcher"
    WORKER = "worker"


class SlotsOrigin(Enum):
    """Who says how many slots a host has."""

    SOURCE = "the list of hosts"
    SETTING = "--slots"
    VARIABLE = "a variable"
    DEFAULT = "the default"
    WANTED = "nobody yet"
    """a number that stands in until the host tells what it has, as `--slots auto` asks for"""
    FOUND = "what the host has"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """One host as a source names it.

    Attributes:
        name: as written in the source, with surrounding blanks removed.
        slots: None when the source gives no count; at least 1 otherwise.
        account: login name the source asks for, None when it names none.
        line_number: 1-based; 0 when the source has no lines.
    """

    name: str
    slots: int | None = None
    account: str | None = None
    line_number: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a host has no name")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"slots={self.slots} is less than 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredHosts:
    """What a source told: its entries in the source's order, and notes on how they were read.

    Attributes:
        source: back end and the file, variable or option read, for people.
        notes: sentences about what was merged, left out or assumed.
    """

    entries: tuple[HostEntry, ...]
    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host of the job, ready for the hostfile.

    Attributes:
        index: position in rank order, from 0.
        is_local: mpirun starts ranks here without ssh.
        slots_from: who says how many slots it has.
    """

    name: str
    slots: int
    role: Role
    index: int
    is_local: bool = False
    slots_from: SlotsOrigin = SlotsOrigin.SOURCE

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f'host "{self.name}" has {self.slots} slots, less than 1')


@dataclass(frozen=True, slots=True, kw_only=True)
class HostList:
    """The job's hosts in rank order; never empty, names unique."""

    hosts: tuple[Host, ...]
    source: str

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ValueError("a job needs at least one host")
        if len({host.name for host in self.hosts}) != len(self.hosts):
            raise ValueError("a host stands twice in the list")

    @property
    def total_slots(self) -> int:
        """Room for processes in the whole job."""
        return sum(host.slots for host in self.hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """Host names in rank order."""
        return tuple(host.name for host in self.hosts)

    @property
    def remote(self) -> tuple[Host, ...]:
        """Hosts that mpirun reaches by ssh."""
        return tuple(host for host in self.hosts if not host.is_local)


def numeric_order_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts `worker-2` before `worker-10`.

    Digits compare as numbers, everything else as text.
    """
    pieces = _NUMBER.split(name)
    return tuple((int(p), "") if i % 2 else (-1, p) for i, p in enumerate(pieces))


def fold_names(names: tuple[str, ...]) -> str:
    """Return names with runs of their last number folded: `pi-worker-[0-2,5].pi.default.svc`.

    The number that is folded is the last one of the first label; names that share nothing stand
    side by side, in first-seen order.
    """
    groups: dict[tuple[str, str | None], list[int]] = {}
    for name in names:
        label, dot, rest = name.partition(".")
        match = re.fullmatch(r"(.*?)(\d+)", label)
        if match is None or (match[2].startswith("0") and match[2] != "0"):
            groups.setdefault((name, None), [])
        else:
            groups.setdefault((match[1], dot + rest), []).append(int(match[2]))
    return ", ".join(_fold_group(head, tail, found) for (head, tail), found in groups.items())


def _fold_group(head: str, tail: str | None, numbers: list[int]) -> str:
    if tail is None:
        return head
    if len(numbers) == 1:
        return f"{head}{numbers[0]}{tail}"
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    spans = (str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"{head}[{','.join(spans)}]{tail}"
