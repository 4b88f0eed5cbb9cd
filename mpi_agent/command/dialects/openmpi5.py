"""Open MPI 5 (PRRTE 3).

Source: Open MPI 5.0.7 and 5.0.11, measured 2026-11: every OMPI_MCA_orte_* and OMPI_MCA_plm_*
variable is ignored in silence; single-dash `-bind-to` ends mpirun with code 213.
"""

from __future__ import annotations

from mpi_agent.command.defaults import OPEN_MPI_5_PARAMETERS
from mpi_agent.command.dialects.dialect import Dialect

__all__ = ["OPEN_MPI_5"]

OPEN_MPI_5 = Dialect(
    name="Open MPI 5",
    parameters=OPEN_MPI_5_PARAMETERS,
    parameter_option="--prtemca",
    parameter_variable_prefix="PRTE_MCA_",
    binding_policy="hwloc_default_binding_policy",
    mapping_policy="rmaps_default_mapping_policy",
    ssh_arguments="plm_ssh_args",
    ssh_agent="plm_ssh_agent",
    default_hostfile="prte_default_hostfile",
    ssh_arguments_aliases=("plm_ssh_args", "plm_rsh_args"),
    refuses_single_dash=True,
    takes_ipv6_addresses=True,
    daemon="prted",
    finds_its_daemon=True,
    daemon_parameters=("prte_launch_agent", "launch-agent"),
)
