"""Names that do not resolve, on the launcher or on the way back to it."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict

__all__ = ["ROWS"]

_FAILED = Verdict.LAUNCH_FAILED

ROWS = (
    row(
        "host-name-unknown",
        "ssh: Could not resolve hostname {host}: Name or service not known",
        stacks="ssh",
        verdict=_FAILED,
        cause='the name "{host}" does not exist in DNS (yet)',
        remedy="wait for the workers (`mpi-agent wait`), and check that a headless Service selects"
        " them",
        source="OpenSSH 9.2, measured 2026-11",
    ),
    row(
        "name-server-failed",
        "ssh: Could not resolve hostname {host}: Temporary failure in name resolution",
        stacks="ssh",
        verdict=_FAILED,
        cause='no name server answered when "{host}" was looked up',
        remedy="check CoreDNS, and that egress to port 53 is allowed",
        source="OpenSSH 9.2, measured 2026-11",
    ),
    row(
        "launcher-name-unknown",
        "unable to get host address for {host} (",
        stacks="MPICH, Intel MPI",
        verdict=_FAILED,
        cause='a worker cannot resolve the launcher\'s name "{host}"',
        remedy="give the launcher a name in DNS (a Service that selects it), or launch by"
        " mpi-agent, which hands over an address",
        source="ompi#7187, MPICH 3.3",
    ),
)
