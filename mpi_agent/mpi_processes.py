"""By what the processes that launchers start on a host are known: names of daemons, ranks' numbers.

Workers, sidecars and errands to plain hosts all look for the same ones.
"""

from __future__ import annotations

__all__ = ["DAEMON_NAMES", "LOCAL_RANK_VARIABLES", "RANK_VARIABLES"]

DAEMON_NAMES = frozenset({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_pr"})
"""What mpirun starts on a host, by the 15 bytes that the kernel keeps of a name.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.18, seen 2026-11-30;
proc(5), Linux man-pages 6.03, "comm".
"""

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
LOCAL_RANK_VARIABLES = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""What launchers set for ranks, and for no daemon; all of them make each rank lead a process group.

Source: /proc of jobs of Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.18, seen
2026-11-30. The first two set PMIX_RANK beside their own, the others PMI_RANK alone.
"""
