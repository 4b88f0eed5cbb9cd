"""What MPICH and Intel MPI say alike: both launchers are Hydra.

Source: `mpiexec --help` and runs of MPICH 4.0.2 and 5.0.2 and Intel MPI 2021.18, 2026-11: daemons
call the launcher's short name unless they are told its address or interface; `-genvlist` adds to
the ssh session's own variables; no host may be given by its IPv6 address.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Spelling
from mpi_agent.command.topics import Topic

__all__ = ["INSTEAD_OF_OPEN_MPIS", "MAPPINGS", "NEEDLESS", "SHARED_SPELLINGS"]

SHARED_SPELLINGS = {
    Topic.HOSTS: Spelling(words=("-hosts", "{}")),
    Topic.NP: Spelling(words=("-n", "{}")),
    Topic.PER_HOST: Spelling(words=("-ppn", "{}")),
    Topic.VARIABLES: Spelling(words=("-genvlist", "{}")),
    Topic.NO_VARIABLES: Spelling(words=("-genvnone",)),
    Topic.WORKING_DIRECTORY: Spelling(words=("-wdir", "{}")),
    Topic.TAG_OUTPUT: Spelling(words=("-prepend-rank",)),
    Topic.TAG_PATTERN: Spelling(words=("-prepend-pattern", "{}")),
    Topic.VERBOSE: Spelling(words=("-verbose",)),
    Topic.LAUNCHER: Spelling(
        words=("-launcher", "{}"),
        variables=("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP"),
    ),
    Topic.SSH_AGENT: Spelling(
        words=("-launcher-exec", "{}"),
        variables=(
            *("HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"),
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        ),
    ),
}

MAPPINGS = {"slot": (), "core": (), "node": ("-ppn", "1")}
"""Hydra fills one host after the other, by the hostfile's counts, unless -ppn is given."""

NEEDLESS = {
    Topic.ROOT: "Hydra runs as root without being asked",
    Topic.OVERSUBSCRIBE: "Hydra starts more processes than slots by itself",
    Topic.PREFIX: "Hydra calls its daemon by the launcher's own path",
    Topic.SHOW_BINDINGS: "Hydra cannot print bindings",
    Topic.QUIET: "Hydra has no such option",
}

INSTEAD_OF_OPEN_MPIS = {
    "btl_tcp_if_include": "-iface INTERFACE",
    "oob_tcp_if_include": "-iface INTERFACE",
    "plm_rsh_args": "HYDRA_LAUNCHER_EXTRA_ARGS, or I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "plm_rsh_agent": "-launcher-exec PROGRAM",
    "rank-by": "-ppn N",
    "output-filename": "-outfile-pattern",
    "timestamp-output": "-prepend-pattern, or Intel's -prepend-timestamp",
}
