"""Reads what the programs of examples/mpi-operator print, pi.py and pi.c alike."""

from __future__ import annotations

import re

from tests.e2e.mpi_jobs import MpiJob
from tests.e2e.operator_cluster import Ended

__all__ = ["assert_ran_on", "hosts_of_ranks"]

_PLACE = re.compile(r"^rank (\d+) of (\d+) on (\S+)$", re.MULTILINE)


def hosts_of_ranks(output: str) -> tuple[str, ...]:
    """Return the host of each rank, in rank order, as the ranks themselves told it."""
    places = [match.groups() for match in _PLACE.finditer(output)]
    assert [int(rank) for rank, *_ in places] == list(range(len(places))), output
    assert all(int(size) == len(places) for _, size, _ in places), output
    return tuple(host for *_, host in places)


def assert_ran_on(ended: Ended, hosts: tuple[str, ...], job: MpiJob) -> None:
    """Check that pi was computed, by one rank for each slot of each of these hosts, in order."""
    assert ended.code == 0, ended.output
    assert "pi = 3.141592654" in ended.output, ended.output
    assert hosts_of_ranks(ended.output) == tuple(h for h in hosts for _ in range(job.slots))
