"""MPICH 4 and 5 (Hydra).

Source: MPICH 4.0.2 of Debian 12 and 5.0.2 of PyPI, measured 2026-11: `-f` takes `NAME:N` and
refuses `slots=`; HYDRA_LAUNCHER_EXTRA_ARGS is split at blanks, and the operator's
HYDRA_LAUNCH_EXTRA_ARGS is read by no version; the proxy is called by the path of mpiexec itself;
`-ppn` wins over the hostfile's counts; `-genvlist` loses the last variable of mpiexec's own
environment, so that one must be nobody's.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Dialect, DialectName, Spelling, TagForm, variable
from mpi_agent.command.dialects.hydra import (
    INSTEAD_OF_OPEN_MPIS,
    MAPPINGS,
    NEEDLESS,
    SHARED_SPELLINGS,
)
from mpi_agent.command.hostfile import HostfileForm
from mpi_agent.command.topics import Family, Topic

__all__ = ["MPICH"]

MPICH = Dialect(
    name=DialectName.MPICH,
    family=Family.HYDRA,
    hostfile_form=HostfileForm.COLON,
    spellings={
        **SHARED_SPELLINGS,
        Topic.HOSTFILE: Spelling(words=("-f", "{}")),
        Topic.BIND_TO: Spelling(words=("-bind-to", "{}"), variables=("HYDRA_BINDING",)),
        Topic.SSH_ARGUMENTS: Spelling(knob=variable("HYDRA_LAUNCHER_EXTRA_ARGS")),
        Topic.LAUNCHER_ADDRESS: Spelling(words=("-localhost", "{}")),
        Topic.INTERFACE: Spelling(words=("-iface", "{}"), knob=variable("HYDRA_IFACE")),
    },
    refuses=frozenset({"perhost", "grr", "rr", "path", "gpath", "gwdir"}),
    instead={"perhost": ("-ppn",), "grr": ("-ppn",), "rr": ("-ppn", "1"), "gwdir": ("-wdir",)},
    needless=NEEDLESS,
    equivalents=INSTEAD_OF_OPEN_MPIS,
    mappings=MAPPINGS,
    tag_form=TagForm.HYDRA,
    hostfile_variable="HYDRA_HOST_FILE",
    ssh_agent_variable="HYDRA_LAUNCHER_EXEC",
    daemon="hydra_pmi_proxy",
    finds_its_daemon=True,
    takes_ipv6_addresses=False,
    called_by_path=True,
    passes_everything=True,
)
