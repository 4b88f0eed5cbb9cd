"""The hostfile that a launcher reads: one line a host, slots always explicit."""

from __future__ import annotations

from enum import Enum

from mpi_agent.job.hosts import Host, HostList
from mpi_agent.job.stacks import Implementation

__all__ = ["HostfileForm", "hostfile_form_of", "render_hostfile"]


class HostfileForm(Enum):
    """How a line gives the slots of its host; no launcher reads both.

    Source: measured 2026-11: Open MPI 4.1.4 and 5.0.11 ignore `:N` in silence and count cores;
    MPICH 4.0.2 and 5.0.2 (`-f`) and Intel MPI 2021.19 (`-machinefile`) end at `slots=N`.
    """

    SLOTS = "NAME slots=N"
    COLON = "NAME:N"


_FORM_OF = {
    Implementation.OPEN_MPI: HostfileForm.SLOTS,
    Implementation.SPECTRUM_MPI: HostfileForm.SLOTS,
    Implementation.MPICH: HostfileForm.COLON,
    Implementation.INTEL_MPI: HostfileForm.COLON,
    Implementation.MVAPICH: HostfileForm.COLON,
}


def hostfile_form_of(implementation: Implementation) -> HostfileForm:
    """Return the form that an MPI's launcher reads."""
    return _FORM_OF[implementation]


def render_hostfile(hosts: HostList, form: HostfileForm) -> str:
    """Return the hosts in rank order, as the text of a hostfile.

    In the form `NAME:N` an IPv6 address stands in brackets, because it has colons itself.
    """
    return "".join(f"{_line(host, form)}\n" for host in hosts.hosts)


def _line(host: Host, form: HostfileForm) -> str:
    if form is HostfileForm.SLOTS:
        return f"{host.name} slots={host.slots}"
    name = f"[{host.name}]" if ":" in host.name else host.name
    return f"{name}:{host.slots}"
