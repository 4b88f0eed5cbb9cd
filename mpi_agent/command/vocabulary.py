"""Every option of the launchers: what it is about, and how many words behind it are its values.

A line can only be read by someone who knows all options: the first word that is neither an option
nor a value is the program. So the tables hold options that the agent has no use for, too; their
topic is None. What Open MPI 4 and 5 refuse of each other stands in `command.refusals`.

Source: the option table inside libprrte.so.3 of Open MPI 5.0.11; `mpirun --help all` and
mpirun(1) of Open MPI 4.1.4; `mpiexec --help` and src/pm/hydra/mpiexec/options.c of MPICH 4.0.2 and
5.0.2; `mpiexec.hydra --help` and the words inside that program of Intel MPI 2021.18; the number of
values of each was tried with these launchers, 2026-11. Old Intel switches for the fabric are from
its Developer Reference, as 2021.18 knows them no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mpi_agent.command.topics import Family, Topic

__all__ = [
    "DIFFERS_WITHIN_FAMILY",
    "Meaning",
    "meaning_of",
    "options_known_to",
]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an option is about.

    Attributes:
        topic: None for an option of which only the number of values matters.
        value_count: how many words behind it are its values.
        implied: values that it has without saying them, as `-pernode` is one process per host.
        is_local: it counts for its own application alone, not for those behind a `:`.
        takes_pair: its two values may be one word, `NAME=VALUE`.
        may_take_library: a word behind it that names a `.so` is its value.
    """

    topic: Topic | None
    value_count: int
    implied: tuple[str, ...] = ()
    is_local: bool = False
    takes_pair: bool = False
    may_take_library: bool = False


_OPEN_MPI: tuple[tuple[str, Meaning], ...] = (
    ("n np c", Meaning(Topic.NP, 1, is_local=True)),
    ("hostfile machinefile", Meaning(Topic.HOSTFILE, 1, is_local=True)),
    ("default-hostfile", Meaning(Topic.HOSTFILE, 1)),
    ("H host", Meaning(Topic.HOSTS, 1, is_local=True)),
    ("N npernode", Meaning(Topic.PER_HOST, 1)),
    ("pernode", Meaning(Topic.PER_HOST, 0, ("1",))),
    ("map-by mapby", Meaning(Topic.MAP_BY, 1)),
    ("bynode", Meaning(Topic.MAP_BY, 0, ("node",))),
    ("byslot", Meaning(Topic.MAP_BY, 0, ("slot",))),
    ("bycore", Meaning(Topic.MAP_BY, 0, ("core",))),
    ("npersocket ppr rankfile rf", Meaning(Topic.OTHER_MAPPING, 1)),
    ("rank-by rankby", Meaning(Topic.RANK_BY, 1)),
    ("bind-to bindto", Meaning(Topic.BIND_TO, 1)),
    ("bind-to-core", Meaning(Topic.BIND_TO, 0, ("core",))),
    ("bind-to-socket", Meaning(Topic.BIND_TO, 0, ("socket",))),
    ("oversubscribe", Meaning(Topic.OVERSUBSCRIBE, 0)),
    ("nooversubscribe", Meaning(Topic.NO_OVERSUBSCRIBE, 0)),
    ("nolocal", Meaning(Topic.NO_LOCAL, 0)),
    ("x set-env", Meaning(Topic.VARIABLE, 1, is_local=True)),
    ("mca omca", Meaning(Topic.PARAMETER, 2, is_local=True)),
    ("gmca gomca prtemca pmixmca gpmixmca", Meaning(Topic.PARAMETER, 2)),
    ("tune am", Meaning(Topic.PARAMETER_FILE, 1)),
    ("amca", Meaning(Topic.PARAMETER_FILE, 2)),
    ("app", Meaning(Topic.APPLICATIONS, 1)),
    ("allow-run-as-root", Meaning(Topic.ROOT, 0)),
    ("prefix", Meaning(Topic.PREFIX, 1)),
    ("launch-agent", Meaning(Topic.DAEMON, 1)),
    ("wd wdir", Meaning(Topic.WORKING_DIRECTORY, 1, is_local=True)),
    ("set-cwd-to-session-dir", Meaning(Topic.WORKING_DIRECTORY, 0, is_local=True)),
    ("path", Meaning(Topic.SEARCH_PATH, 1, is_local=True)),
    ("tag-output", Meaning(Topic.TAG_OUTPUT, 0)),
    ("timestamp-output", Meaning(Topic.TIMESTAMP_OUTPUT, 0)),
    ("output-filename output-directory", Meaning(Topic.OUTPUT_FILE, 1)),
    ("output", Meaning(Topic.OUTPUT, 1)),
    ("display", Meaning(Topic.DISPLAY, 1)),
    ("display-map display-devel-map display-diffable-map", Meaning(Topic.SHOW_MAP, 0)),
    ("report-bindings", Meaning(Topic.SHOW_BINDINGS, 0)),
    ("q quiet", Meaning(Topic.QUIET, 0)),
    ("v verbose d debug-devel", Meaning(Topic.VERBOSE, 0)),
    ("stdin", Meaning(Topic.STDIN, 1)),
    ("timeout", Meaning(Topic.TIME_LIMIT, 1)),
    ("tmpdir", Meaning(Topic.SESSION_DIRECTORY, 1)),
    ("h help V version", Meaning(Topic.QUESTION, 0)),
    ("append-env prepend-env", Meaning(None, 2, is_local=True)),
    ("preload-files unset-env pset", Meaning(None, 1, is_local=True)),
    ("s preload-binary", Meaning(None, 0, is_local=True)),
    (
        "add-host add-hostfile app-pmix-prefix arch cartofile cf cpu-list cpu-set cpus-per-proc"
        " cpus-per-rank debugger dvm file forward-signals gpu-support hnp initial-errhandler"
        " keepalive max-restarts max-vm-size memory-alloc-kinds ompi-server personality"
        " pmix-prefix report-events report-pid report-uri rtos runtime-options singleton"
        " slot-list spawn-timeout stream-buffering with-ft xml-file xterm",
        Meaning(None, 1),
    ),
    (
        "continuous debug debug-daemons debug-daemons-file disable-recovery display-allocation"
        " display-comm display-comm-finalize display-devel-allocation display-topo do-not-launch"
        " do-not-resolve enable-instant-on-support enable-recovery fwd-environment"
        " fwd-mpirun-port get-stack-traces hetero-nodes index-argv-by-rank"
        " leave-session-attached merge-stderr-to-stdout no-aggregate-help no-app-prefix"
        " no-ready-msg noprefix novm output-proctable p parsable parseable"
        " report-child-jobs-separately report-state-on-timeout set-sid show-progress soft"
        " stop-in-app stop-in-init stop-on-exec system-server terminate tv use-hwthread-cpus"
        " use-regexp xml",
        Meaning(None, 0),
    ),
)
_HYDRA: tuple[tuple[str, Meaning], ...] = (
    ("n np", Meaning(Topic.NP, 1, is_local=True)),
    ("f hostfile machinefile", Meaning(Topic.HOSTFILE, 1)),
    ("host hosts hostlist machine machines machinelist hosts-group", Meaning(Topic.HOSTS, 1)),
    ("ppn perhost grr", Meaning(Topic.PER_HOST, 1)),
    ("rr", Meaning(Topic.MAP_BY, 0, ("node",))),
    ("map-by", Meaning(Topic.MAP_BY, 1)),
    ("rankmap", Meaning(Topic.OTHER_MAPPING, 1)),
    ("bind-to binding cpu-bind", Meaning(Topic.BIND_TO, 1)),
    ("nolocal skip-launch-node", Meaning(Topic.NO_LOCAL, 0)),
    ("genv", Meaning(Topic.VARIABLE, 2, takes_pair=True)),
    ("env", Meaning(Topic.VARIABLE, 2, is_local=True, takes_pair=True)),
    ("genvlist", Meaning(Topic.VARIABLES, 1)),
    ("envlist", Meaning(Topic.VARIABLES, 1, is_local=True)),
    ("genvall", Meaning(Topic.ALL_VARIABLES, 0)),
    ("envall", Meaning(Topic.ALL_VARIABLES, 0, is_local=True)),
    ("genvnone", Meaning(Topic.NO_VARIABLES, 0)),
    ("envnone", Meaning(Topic.NO_VARIABLES, 0, is_local=True)),
    ("wdir", Meaning(Topic.WORKING_DIRECTORY, 1, is_local=True)),
    ("gwdir", Meaning(Topic.WORKING_DIRECTORY, 1)),
    ("path", Meaning(Topic.SEARCH_PATH, 1, is_local=True)),
    ("gpath", Meaning(Topic.SEARCH_PATH, 1)),
    ("configfile", Meaning(Topic.APPLICATIONS, 1)),
    ("launcher bootstrap", Meaning(Topic.LAUNCHER, 1)),
    ("launcher-exec bootstrap-exec r rsh", Meaning(Topic.SSH_AGENT, 1)),
    ("bootstrap-exec-args", Meaning(Topic.SSH_ARGUMENTS, 1)),
    ("branch-count", Meaning(Topic.TREE_WIDTH, 1)),
    ("iface", Meaning(Topic.INTERFACE, 1)),
    ("localhost", Meaning(Topic.LAUNCHER_ADDRESS, 1)),
    ("rmk", Meaning(Topic.RESOURCE_MANAGER, 1)),
    ("l prepend-rank", Meaning(Topic.TAG_OUTPUT, 0)),
    ("prepend-pattern", Meaning(Topic.TAG_PATTERN, 1)),
    ("prepend-timestamp", Meaning(Topic.TIMESTAMP_OUTPUT, 0)),
    ("outfile-pattern outfile errfile-pattern errfile", Meaning(Topic.OUTPUT_FILE, 1)),
    ("print-rank-map", Meaning(Topic.SHOW_MAP, 0)),
    ("silent-abort", Meaning(Topic.QUIET, 0)),
    ("v verbose debug", Meaning(Topic.VERBOSE, 0)),
    ("s", Meaning(Topic.STDIN, 1)),
    ("tmpdir", Meaning(Topic.SESSION_DIRECTORY, 1)),
    ("h help info V version", Meaning(Topic.QUESTION, 0)),
    (
        "trace t trace-imbalance trace_imbalance check-mpi check_mpi check",
        Meaning(None, 0, may_take_library=True),
    ),
    ("pmi_args", Meaning(None, 4)),
    (
        "demux envexcl g gdb-args gdba genvexcl gpu-subdevs-per-proc gpus-per-proc gtool"
        " gtoolfile membind memory-alloc-kinds nameserver order-nodes output-from pmi-connect"
        " topolib tune tva umask use-app-topology usize",
        Meaning(None, 1),
    ),
    (
        "aps cleanup dac disable-auto-cleanup disable-hostname-propagation disable-x"
        " enable-auto-cleanup enable-hostname-propagation enable-x gdb gdb-ia hybrid-hosts idb"
        " ilp64 mps noconf ordered-output pmi-aggregate pmi-noaggregate pmi-port prefork"
        " print-all-exitcodes profile prot trace-collectives trace-pt2pt tv v6"
        " dapl DAPL ib IB mx MX ofa ofi OFI psm PSM psm2 PSM2 rdma RDMA tmi TMI",
        Meaning(None, 0),
    ),
)
_TABLES: Mapping[Family, Mapping[str, Meaning]] = {
    family: {name: meaning for names, meaning in rows for name in names.split()}
    for family, rows in ((Family.OPEN_MPI, _OPEN_MPI), (Family.HYDRA, _HYDRA))
}

DIFFERS_WITHIN_FAMILY: Mapping[tuple[str, Family], str] = MappingProxyType(
    {
        ("display-topo", Family.OPEN_MPI): "takes a value in Open MPI 5 and none in Open MPI 4; "
        "it is read as having none",
        ("dvm", Family.OPEN_MPI): "takes a value in Open MPI 5 and none in Open MPI 4; "
        "it is read as having one",
        ("machine", Family.HYDRA): "is a list of hosts in MPICH and a file in Intel MPI; "
        "it is read as a list",
    }
)
"""Options that one family's members understand differently; each sentence goes behind its name."""


def meaning_of(bare: str, family: Family) -> Meaning | None:
    """Return what an option, written without its dashes, means to a family; None if unknown to it.

    Any number of dashes is right: `--np 2`, `---np 2` and `-np=2` are `-np 2` to Hydra.
    Hydra's are also found in another case, but only those of more than one letter: MPICH does take
    `-N 2` for `-n 2`, whereas whoever writes it means Open MPI's processes per host.
    """
    table = _TABLES[family]
    found = table.get(bare)
    if found is None and family is Family.HYDRA and len(bare) > 1:
        return table.get(bare.lower())
    return found


def options_known_to(family: Family) -> frozenset[str]:
    """Return every option of a family, without dashes."""
    return frozenset(_TABLES[family])
