"""Open MPI 4.1 (ORTE).

Source: Open MPI 4.1.4 of Debian 12, measured 2026-11: plain `orted` is looked for in the remote
login's PATH unless --prefix is given; single-dash long options are accepted; for a
host given by its IPv6 address mpirun prints "illegal character in node" and hangs for ever.
"""

from __future__ import annotations

from mpi_agent.command.defaults import OPEN_MPI_4_PARAMETERS
from mpi_agent.command.dialects.dialect import Dialect

__all__ = ["OPEN_MPI_4"]

OPEN_MPI_4 = Dialect(
    name="Open MPI 4",
    parameters=OPEN_MPI_4_PARAMETERS,
    parameter_option="--mca",
    parameter_variable_prefix="OMPI_MCA_",
    binding_policy="hwloc_base_binding_policy",
    mapping_policy="rmaps_base_mapping_policy",
    ssh_arguments="plm_rsh_args",
    ssh_agent="plm_rsh_agent",
    default_hostfile="orte_default_hostfile",
    ssh_arguments_aliases=("plm_rsh_args",),
    refuses_single_dash=False,
    takes_ipv6_addresses=False,
    daemon="orted",
    finds_its_daemon=False,
    daemon_parameters=("orte_launch_agent", "launch-agent"),
)
