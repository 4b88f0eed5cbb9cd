"""What can be said on a launcher's command line, whichever launcher it is and however it spells it.

The launchers say the same few things in different words. A topic is such a thing; the user's words
are read into topics, dialects say topics in their own words, so what one family spells `-x` and the
other `-genv` meets here.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Family", "Topic"]


class Family(Enum):
    """Launchers that share one language of options.

    Open MPI 4 (ORTE) and Open MPI 5 (PRRTE) are one family in spite of their differences, and so
    are MPICH and Intel MPI, whose launchers are both Hydra.
    """

    OPEN_MPI = "Open MPI"
    HYDRA = "Hydra"


class Topic(Enum):
    """One thing that a launcher can be told; the text is how it is called in messages."""

    HOSTFILE = "the hostfile"
    HOSTS = "a list of hosts"
    NP = "the number of processes"
    PER_HOST = "processes per host"
    MAP_BY = "the mapping"
    BIND_TO = "the binding"
    OVERSUBSCRIBE = "more processes than slots"
    VARIABLE = "one variable, by its name or with its value"
    VARIABLES = "variables by their names"
    ALL_VARIABLES = "all variables"
    NO_VARIABLES = "no variables"
    PARAMETER = "an MCA parameter"
    ROOT = "permission to run as root"
    PREFIX = "where the MPI is installed on the hosts"
    DAEMON = "another daemon"
    WORKING_DIRECTORY = "the working directory"
    SEARCH_PATH = "where programs are looked for"
    TAG_OUTPUT = "the rank in front of each line"
    TAG_PATTERN = "a pattern in front of each line"
    TIMESTAMP_OUTPUT = "the time in front of each line"
    OUTPUT_FILE = "files for the output"
    SHOW_MAP = "a print of which rank is where"
    SHOW_BINDINGS = "a print of what each rank is bound to"
    QUIET = "less output of the launcher"
    VERBOSE = "more output of the launcher"
    LAUNCHER = "how daemons are started"
    SSH_AGENT = "the ssh program"
    SSH_ARGUMENTS = "arguments for ssh"
    TREE_WIDTH = "how many hosts each daemon starts"
    INTERFACE = "a network interface"
    LAUNCHER_ADDRESS = "where daemons call the launcher back"
    IPV6 = "that hosts are dialled over IPv6"
    RESOURCE_MANAGER = "the resource manager"
    STDIN = "who reads the standard input"
    TIME_LIMIT = "a limit of the run time"
    QUESTION = "a question about the launcher itself"
    SESSION_DIRECTORY = "where daemons keep their files"
    NO_LOCAL = "no process on the launcher's own host"
    NO_OVERSUBSCRIBE = "never more processes than slots"
    OTHER_MAPPING = "a mapping in words of its own"
    RANK_BY = "the order of ranks"
    PARAMETER_FILE = "a file of MCA parameters"
    APPLICATIONS = "a file that names the programs"
    OUTPUT = "how output is printed, in Open MPI 5's words"
    DISPLAY = "what is printed about the job, in Open MPI 5's words"
