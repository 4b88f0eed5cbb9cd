"""Hostfiles as each launcher reads them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.hostfile import HostfileForm, hostfile_form_of, render_hostfile
from mpi_agent.discover.hostfile import parse_hostfile
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.stacks import Implementation

NAMES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9]{0,4}(-[0-9]{1,3})?(\.pi)?", fullmatch=True),
    st.integers(0, 2**32 - 1).map(lambda number: str(ipaddress.IPv4Address(number))),
    st.integers(0, 2**128 - 1).map(lambda number: str(ipaddress.IPv6Address(number))),
)
SLOTS = st.integers(1, 65536)


def a_list(*hosts: tuple[str, int]) -> HostList:
    """Return a job of these hosts."""
    made = (
        Host(name=name, slots=slots, role=Role.WORKER, index=index)
        for index, (name, slots) in enumerate(hosts)
    )
    return HostList(hosts=tuple(made), source="test")


def test_each_form_has_its_words() -> None:
    """No launcher reads both."""
    hosts = a_list(("a", 2), ("10.0.0.7", 1), ("fd00::7", 3))

    assert render_hostfile(hosts, HostfileForm.SLOTS).splitlines() == [
        "a slots=2",
        "10.0.0.7 slots=1",
        "fd00::7 slots=3",
    ]
    assert render_hostfile(hosts, HostfileForm.COLON).splitlines() == [
        "a:2",
        "10.0.0.7:1",
        "[fd00::7]:3",
    ]


@pytest.mark.parametrize("form", HostfileForm)
@given(hosts=st.dictionaries(NAMES, SLOTS, min_size=1, max_size=4))
def test_what_is_written_is_read_back(form: HostfileForm, hosts: dict[str, int]) -> None:
    """Names and addresses of both families, in order, with their slots."""
    text = render_hostfile(a_list(*hosts.items()), form)

    assert [(entry.name, entry.slots) for entry in parse_hostfile(text)] == [*hosts.items()]


@pytest.mark.parametrize("implementation", Implementation)
def test_every_mpi_has_a_form(implementation: Implementation) -> None:
    """So that `hostfile` works wherever an MPI is recognised."""
    assert hostfile_form_of(implementation) in HostfileForm
