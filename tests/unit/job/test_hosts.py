"""Host names in order, and folded for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.job.hosts import Host, HostList, Role, fold_names, numeric_order_key
from tests.builders import a_host


def test_worker_2_comes_before_worker_10() -> None:
    """Ranks must not jump when a job grows past ten workers."""
    names = [f"pi-worker-{index}.pi.default.svc" for index in (0, 1, 10, 11, 2)]

    assert [n.split(".")[0] for n in sorted(names, key=numeric_order_key)] == [
        "pi-worker-0",
        "pi-worker-1",
        "pi-worker-2",
        "pi-worker-10",
        "pi-worker-11",
    ]


@given(st.lists(st.text(alphabet="ab0123456789-.", max_size=8)))
def test_numeric_order_is_an_order_for_any_names(names: list[str]) -> None:
    """Sorting twice changes nothing, whatever stands in the names."""
    once = sorted(names, key=numeric_order_key)

    assert sorted(once, key=numeric_order_key) == once


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (("pi-worker-3", "pi-worker-6", "pi-worker-7", "pi-worker-8"), "pi-worker-[3,6-8]"),
        (("w-0.pi.ns.svc", "w-1.pi.ns.svc"), "w-[0-1].pi.ns.svc"),
        (("w-1",), "w-1"),
        (("alpha", "beta"), "alpha, beta"),
        (("node", "node5", "node6"), "node, node[5-6]"),
        (("w-00", "w-01"), "w-00, w-01"),
        ((), ""),
    ],
)
def test_names_are_folded_by_their_last_number(names: tuple[str, ...], folded: str) -> None:
    """A thousand hosts fit in one line; a number with leading zeros is part of the name."""
    assert fold_names(names) == folded


def test_a_host_without_slots_cannot_be_made() -> None:
    """Mpirun would count the machine's cores instead."""
    with pytest.raises(ValueError, match="less than 1"):
        Host(name="a", slots=0, role=Role.WORKER, index=0)


def test_a_job_has_each_host_once() -> None:
    """A host that stands twice is refused by both generations of Open MPI."""
    with pytest.raises(ValueError, match="twice"):
        HostList(hosts=(a_host(0), a_host(0)), source="test")
