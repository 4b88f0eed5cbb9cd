"""What the agent sets where the user set nothing: each with its reason and source."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "INJECTED_BY_OPERATORS",
    "OPEN_MPI_4_PARAMETERS",
    "OPEN_MPI_5_PARAMETERS",
    "RESOURCE_MANAGER_PREFIXES",
    "Parameter",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One MCA parameter with the value the agent gives it, and why."""

    name: str
    value: str
    reason: str
    source: str


OPEN_MPI_4_PARAMETERS = (
    Parameter(
        name="orte_keep_fqdn_hostnames",
        value="1",
        reason="else names are cut at the first dot and ssh cannot resolve them",
        source="Open MPI 4.1.4, measured 2026-11",
    ),
    Parameter(
        name="plm_rsh_no_tree_spawn",
        value="1",
        reason="workers then need neither the private key nor each other's names",
        source="open-mpi/ompi issue 4578",
    ),
)
OPEN_MPI_5_PARAMETERS = (
    Parameter(
        name="plm_ssh_no_tree_spawn",
        value="1",
        reason="workers then need neither the private key nor each other's names",
        source="PRRTE 3.0 parameter plm_ssh_no_tree_spawn, measured 2026-11",
    ),
)

INJECTED_BY_OPERATORS = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": None,
    "OMPI_MCA_orte_default_hostfile": None,
    "OMPI_MCA_orte_set_default_slots": None,
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}
"""Variables that mpi-operator and Trainer set on every launcher, with the value that tells them
from the user's own; None stands for any value. What they ask for is done by options on the command
line, which Open MPI 5 obeys too.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go.
"""

RESOURCE_MANAGER_PREFIXES = ("SLURM_", "PBS_", "LSB_")
"""A variable of a resource manager makes mpirun start its daemons through that manager.

Source: Open MPI FAQ, "running under Slurm"; determined-ai unsets SLURM_JOBID for that reason.
"""
