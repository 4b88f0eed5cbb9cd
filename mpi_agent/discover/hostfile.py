"""Reading a hostfile, in the form of any MPI: `NAME slots=N` as well as `NAME:N`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import HostEntry
from mpi_agent.ssh.trust import is_address

__all__ = ["is_host_name", "merge_repeated", "parse_hostfile"]

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_MOST_SLOTS = 65536
_COUNT_WORDS = frozenset({"slots", "cpus", "count"})
_IGNORED_WORDS = frozenset({"max_slots", "max-slots", "maxslots", "port"})


def is_host_name(text: str) -> bool:
    """Return whether a text can be a host's name or address."""
    return len(text) <= 253 and (is_address(text) or bool(_HOST_NAME.fullmatch(text)))


def parse_hostfile(
    text: str, *, place: str = "hostfile", unit: str = "line"
) -> tuple[HostEntry, ...]:
    """Return the entries of an Open MPI or Hydra hostfile, in file order.

    Comments, blank lines, trailing blanks and CRLF are accepted. An entry without a count has no
    slots yet; the caller must decide: left alone, mpirun counts the machine's cores, which is not
    what the container may use. A repeated host stays repeated; see `merge_repeated`.

    Raises:
        HostSourceInvalidError: a line is neither an entry, a comment nor blank, or no entry is
            there; names the line.
    Source: PRRTE manual, "hostfiles"; MPICH wiki, "Using the Hydra Process Manager", host file.
    """
    entries = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            entries.append(_parse_entry(words, f'"{place}", {unit} {number}', number))
    if not entries:
        raise HostSourceInvalidError(
            f'cannot find any host in "{place}": it has no entries',
            hint="give one line for each host, such as `pi-worker-0 slots=1`",
        )
    return tuple(entries)


def _parse_entry(words: list[str], where: str, number: int) -> HostEntry:
    account, _, rest = words[0].rpartition("@")
    name, count = _split_count(rest)
    if not is_host_name(name):
        raise _bad_line(where, number, words, f'"{words[0]}" is not a host name')
    slots = _parse_count(count, where, number, words) if count is not None else None
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key in _COUNT_WORDS:
            slots = _parse_count(value, where, number, words)
        elif key in {"user", "username"} and value:
            account = value
        elif key not in _IGNORED_WORDS or not value.isdigit():
            raise _bad_line(where, number, words, f'"{word}" is not understood')
    return HostEntry(
        name=name.rstrip("."), slots=slots, account=account or None, line_number=number
    )


def _split_count(text: str) -> tuple[str, str | None]:
    """Split Hydra's `NAME:N`; an IPv6 address carries a count only behind brackets."""
    if text.startswith("["):
        address, _, after = text[1:].partition("]")
        return address, after[1:] if after.startswith(":") else None
    if text.count(":") != 1:
        return text, None
    name, _, count = text.partition(":")
    return name, count


def _parse_count(text: str, where: str, number: int, words: list[str]) -> int:
    if not re.fullmatch(r"\d+", text):
        raise _bad_line(where, number, words, f'"{text}" is not a number of slots')
    if int(text) < 1:
        raise _bad_line(where, number, words, "a host needs at least 1 slot")
    if int(text) > _MOST_SLOTS:
        raise _bad_line(where, number, words, f"no host has more than {_MOST_SLOTS} slots")
    return int(text)


def _bad_line(where: str, number: int, words: list[str], why: str) -> HostSourceInvalidError:
    return HostSourceInvalidError(
        f"cannot read {where}, `{' '.join(words)}`: {why}",
        hint="a line is `NAME slots=N` or `NAME:N`, with N of at least 1",
        line_number=number,
    )


def merge_repeated(entries: Iterable[HostEntry]) -> tuple[tuple[HostEntry, ...], tuple[str, ...]]:
    """Return each host once, at its first place, and a note for each that stood repeatedly.

    Counts add up, and a repeated name without a count is one more slot, as in Open MPI.

    Source: PRRTE manual, "definition of slot"; Open MPI 4.1.4 and 5.0.11 refuse a host that is
    repeated with `slots=` (measured 2026-11), so it must be merged before mpirun sees it.
    """
    groups: dict[str, list[HostEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.name, []).append(entry)
    merged = tuple(_merge(group) for group in groups.values())
    notes = tuple(
        f'"{group[0].name}" is listed {len(group)} times; merged into one host with'
        f" {_merge(group).slots} slots"
        for group in groups.values()
        if len(group) > 1
    )
    return merged, notes


def _merge(group: list[HostEntry]) -> HostEntry:
    first = group[0]
    if len(group) == 1:
        return first
    return HostEntry(
        name=first.name,
        slots=sum(entry.slots or 1 for entry in group),
        account=first.account,
        line_number=first.line_number,
    )
