"""Open MPI 5 (PRRTE 3).

Source: Open MPI 5.0.7 and 5.0.11, measured 2026-11: every OMPI_MCA_orte_* and OMPI_MCA_plm_*
variable is ignored in silence, and so is --launch-agent; single-dash `-bind-to` ends mpirun. Its
ssh has its own stdout and stderr, where Open MPI 4 and Hydra lose nothing by theirs.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Dialect, DialectName, Spelling, TagForm, prte
from mpi_agent.command.dialects.openmpi import (
    INSTEAD_OF_HYDRAS,
    MAPPINGS,
    NEEDLESS,
    SHARED_SPELLINGS,
)
from mpi_agent.command.hostfile import HostfileForm
from mpi_agent.command.refusals import (
    OPEN_MPI_5_INSTEAD,
    OPEN_MPI_5_NEEDS_ONE_DASH,
    OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE,
    OPEN_MPI_5_REFUSES,
    OPEN_MPI_5_TAKES_ONE_DASH,
)
from mpi_agent.command.topics import Family, Topic

__all__ = ["OPEN_MPI_5"]

_RENAMED_VARIABLES = {
    "OMPI_MCA_plm_rsh_agent": ("--prtemca", "plm_ssh_agent", "{}"),
    "OMPI_MCA_plm_rsh_num_concurrent": ("--prtemca", "plm_ssh_num_concurrent", "{}"),
    "OMPI_MCA_plm_rsh_no_tree_spawn": ("--prtemca", "plm_ssh_no_tree_spawn", "{}"),
    "OMPI_MCA_orte_tmpdir_base": ("--prtemca", "prte_tmpdir_base", "{}"),
    "OMPI_MCA_oob_tcp_if_include": ("--prtemca", "prte_if_include", "{}"),
    "OMPI_MCA_oob_tcp_if_exclude": ("--prtemca", "prte_if_exclude", "{}"),
    "OMPI_MCA_hwloc_base_binding_policy": ("--bind-to", "{}"),
    "OMPI_MCA_rmaps_base_mapping_policy": ("--map-by", "{}"),
    "OMPI_MCA_rmaps_base_oversubscribe": ("--oversubscribe",),
    "OMPI_MCA_orte_tag_output": ("--tag-output",),
    "OMPI_MCA_orte_timestamp_output": ("--timestamp-output",),
}
"""What Open MPI 4 reads from these, said in words that Open MPI 5 obeys."""

_ORDERS_OF_OPEN_MPI_4 = ("core", "hwthread", "socket", "numa", "board", "l3cache", "l2cache")
"""With each of them Open MPI 4 gives a host's ranks successive numbers, as `slot` does in 5.

Source: PRRTE 3.0.14 ends with 213 and names slot, node, fill and span; without an order it numbers
host by host where --map-by node stands, which 4.1.4 did not; measured 2026-11-30.
"""

OPEN_MPI_5 = Dialect(
    name=DialectName.OPEN_MPI_5,
    family=Family.OPEN_MPI,
    hostfile_form=HostfileForm.SLOTS,
    spellings={
        **SHARED_SPELLINGS,
        Topic.MAP_BY: Spelling(
            words=("--map-by", "{}"),
            knob=prte("rmaps_default_mapping_policy", "rmaps_base_mapping_policy"),
        ),
        Topic.BIND_TO: Spelling(
            words=("--bind-to", "{}"),
            knob=prte("hwloc_default_binding_policy", "hwloc_base_binding_policy"),
        ),
        Topic.SSH_ARGUMENTS: Spelling(knob=prte("plm_ssh_args", "plm_rsh_args")),
        Topic.SSH_AGENT: Spelling(knob=prte("plm_ssh_agent", "plm_rsh_agent")),
        Topic.LAUNCHER: Spelling(knob=prte("plm")),
        Topic.DAEMON: Spelling(knob=prte("prte_launch_agent", "orte_launch_agent")),
    },
    needless={**NEEDLESS, Topic.QUIET: "it has no such option"},
    equivalents=INSTEAD_OF_HYDRAS,
    mappings=MAPPINGS,
    tag_form=TagForm.OPEN_MPI_5,
    hostfile_variable="PRTE_MCA_prte_default_hostfile",
    ssh_agent_variable="PRTE_MCA_plm_ssh_agent",
    daemon="prted",
    finds_its_daemon=True,
    shares_its_streams=True,
    takes_ipv6_addresses=True,
    refuses=OPEN_MPI_5_REFUSES | {"launch-agent"},
    instead={**OPEN_MPI_5_INSTEAD, "launch-agent": ("--prtemca", "prte_launch_agent")},
    instead_of_words={
        (option, unit): ("--rank-by", "slot")
        for option in ("rank-by", "rankby")
        for unit in _ORDERS_OF_OPEN_MPI_4
    },
    needs_two_words=OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE,
    needs_one_dash=OPEN_MPI_5_NEEDS_ONE_DASH,
    one_dash=OPEN_MPI_5_TAKES_ONE_DASH,
    renamed_variables=_RENAMED_VARIABLES,
)
