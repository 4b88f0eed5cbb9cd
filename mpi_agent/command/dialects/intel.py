"""Intel MPI 2021 (Hydra with a launcher tree of its own).

Source: Intel MPI 2021.18 and 2021.19 of PyPI, measured 2026-11: counts are read with
`-machinefile` alone, `-f` ignores them in silence; `mpirun` is a shell script that ignores TERM as
PID 1, so `mpiexec.hydra` is called; ssh arguments come from a variable, split at blanks; the
hostfile's counts win over `-ppn`; more than 16 hosts are dialled by a tree, whose inner proxies
look for the launcher's interface on their own host; IPv6 needs `-v6`.
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

__all__ = ["INTEL_MPI"]

INTEL_MPI = Dialect(
    name=DialectName.INTEL_MPI,
    family=Family.HYDRA,
    hostfile_form=HostfileForm.COLON,
    spellings={
        **SHARED_SPELLINGS,
        Topic.HOSTFILE: Spelling(words=("-machinefile", "{}")),
        Topic.SHOW_MAP: Spelling(words=("-print-rank-map",)),
        Topic.TIMESTAMP_OUTPUT: Spelling(words=("-prepend-timestamp",)),
        Topic.INTERFACE: Spelling(words=("-iface", "{}"), knob=variable("I_MPI_HYDRA_IFACE")),
        Topic.IPV6: Spelling(words=("-v6",)),
        Topic.TREE_WIDTH: Spelling(
            words=("-branch-count", "{}"), knob=variable("I_MPI_HYDRA_BRANCH_COUNT")
        ),
        Topic.SSH_ARGUMENTS: Spelling(knob=variable("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")),
    },
    needless={**NEEDLESS, Topic.BIND_TO: "Intel MPI binds by I_MPI_PIN"},
    equivalents=INSTEAD_OF_OPEN_MPIS,
    mappings=MAPPINGS,
    tag_form=TagForm.HYDRA,
    hostfile_variable="I_MPI_HYDRA_HOST_FILE",
    ssh_agent_variable="I_MPI_HYDRA_BOOTSTRAP_EXEC",
    daemon="hydra_bstrap_proxy",
    finds_its_daemon=True,
    takes_ipv6_addresses=False,
    called_by_path=True,
    passes_everything=True,
    counts_win_over_per_host=True,
)
