"""What both generations of Open MPI say alike.

Source: mpirun(1) of Open MPI 4.1.4 and prterun(1) of PRRTE 3.0.14, each word tried 2026-11.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Spelling
from mpi_agent.command.topics import Topic

__all__ = ["INSTEAD_OF_HYDRAS", "MAPPINGS", "NEEDLESS", "SHARED_SPELLINGS"]

SHARED_SPELLINGS = {
    Topic.HOSTFILE: Spelling(words=("--hostfile", "{}")),
    Topic.HOSTS: Spelling(words=("--host", "{}")),
    Topic.NP: Spelling(words=("-np", "{}")),
    Topic.PER_HOST: Spelling(words=("--map-by", "ppr:{}:node")),
    Topic.OVERSUBSCRIBE: Spelling(words=("--oversubscribe",)),
    Topic.VARIABLE: Spelling(words=("-x", "{}")),
    Topic.ROOT: Spelling(words=("--allow-run-as-root",)),
    Topic.PREFIX: Spelling(words=("--prefix", "{}")),
    Topic.WORKING_DIRECTORY: Spelling(words=("--wdir", "{}")),
    Topic.SEARCH_PATH: Spelling(words=("--path", "{}")),
    Topic.TAG_OUTPUT: Spelling(words=("--tag-output",)),
    Topic.TIMESTAMP_OUTPUT: Spelling(words=("--timestamp-output",)),
    Topic.SHOW_MAP: Spelling(words=("--display-map",)),
    Topic.VERBOSE: Spelling(words=("--verbose",)),
    Topic.STDIN: Spelling(words=("--stdin", "{}")),
    Topic.INTERFACE: Spelling(words=("--mca", "btl_tcp_if_include", "{}")),
}

MAPPINGS = {"slot": ("--map-by", "slot"), "node": ("--map-by", "node")}

NEEDLESS = {
    Topic.LAUNCHER: "mpirun dials with ssh",
    Topic.RESOURCE_MANAGER: "the hosts come from the hostfile",
    Topic.NO_VARIABLES: "only named variables travel",
    Topic.LAUNCHER_ADDRESS: "daemons are told the launcher's address",
    Topic.SSH_AGENT: "the job's own ssh dials",
    Topic.SSH_ARGUMENTS: "the job's own ssh_config has them",
    Topic.TREE_WIDTH: "the agent decides who dials whom",
}

INSTEAD_OF_HYDRAS = {
    "genvall": "--env-prefix PREFIX for mpi-agent, or -x NAME",
    "envall": "--env-prefix PREFIX for mpi-agent, or -x NAME",
    "configfile": "the applications on the line, separated by `:`",
    "outfile-pattern": "--output-filename",
    "errfile-pattern": "--output-filename",
    "gtool": "the tool in front of the program",
    "prepend-pattern": "--tag-output",
}
