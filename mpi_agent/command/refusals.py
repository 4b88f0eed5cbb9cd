"""What Open MPI 4 and 5 refuse of the options that their family has, and what stands in its place.

Source: each was tried with Open MPI 4.1.4 and 5.0.11, 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mpi_agent.command.topics import Family
from mpi_agent.command.vocabulary import options_known_to

__all__ = [
    "OPEN_MPI_4_INSTEAD",
    "OPEN_MPI_4_REFUSES",
    "OPEN_MPI_4_TAKES_EQUALS",
    "OPEN_MPI_5_INSTEAD",
    "OPEN_MPI_5_NEEDS_ONE_DASH",
    "OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE",
    "OPEN_MPI_5_REFUSES",
    "OPEN_MPI_5_TAKES_ONE_DASH",
]

OPEN_MPI_4_TAKES_EQUALS = False
"""Whether `--map-by=slot` is understood: 4.1.4 ends with `unknown option "--map-by=slot"`."""

OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE = frozenset(
    {"bind-to", "map-by", "rank-by", "runtime-options"}
)
"""Options that Open MPI 5 understands as `--map-by slot` alone: not `-map-by slot`, which ends with
213, not `--map-by=slot`, 213, and `-bind-to none` is `--bind-to-core` with the program `none`, 66.

Source: tried with 5.0.11. It knows them as `mapby` and so on, and respells just that one form.
"""

OPEN_MPI_5_NEEDS_ONE_DASH = frozenset("H c h V v p s".split())
"""Options that Open MPI 5 refuses with two dashes or with `=`, though it takes `--n`, `--N`, `--x`.

Source: tried with 5.0.11; each ends with 213.
"""

OPEN_MPI_4_REFUSES = frozenset(
    "amca app-pmix-prefix append-env arch bindto display display-comm display-comm-finalize file"
    " forward-signals fwd-environment gomca gpu-support hetero-nodes initial-errhandler mapby"
    " memory-alloc-kinds no-aggregate-help no-app-prefix omca output output-directory p parsable"
    " parseable pmixmca prepend-env prtemca pset rankby rtos runtime-options soft spawn-timeout"
    " stop-in-app stop-in-init stop-on-exec stream-buffering tmpdir unset-env with-ft".split()
)
"""Options of Open MPI 5.0.11 that 4.1.4 ends at with `unknown option`."""

OPEN_MPI_4_INSTEAD: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("output", "tag"): ("--tag-output",),
        ("output", "timestamp"): ("--timestamp-output",),
        ("output", "merge"): ("--merge-stderr-to-stdout",),
        ("output", "merge-stderr-to-stdout"): ("--merge-stderr-to-stdout",),
        ("display", "map"): ("--display-map",),
        ("display", "bind"): ("--report-bindings",),
        ("display", "allocation"): ("--display-allocation",),
    }
)
"""What Open MPI 4 says for one word of the list that is the value of an option of 5.

Source: tried, both print the same kind of thing.
"""

OPEN_MPI_5_REFUSES = frozenset(
    "bind-to-socket cartofile cf d debug-devel debugger display-devel-allocation"
    " display-diffable-map do-not-resolve enable-instant-on-support fwd-mpirun-port hnp"
    " index-argv-by-rank novm ompi-server q quiet report-events rf set-cwd-to-session-dir tv"
    " use-regexp xml-file".split()
)
"""Options of Open MPI 4.1.4 that 5.0.11 ends at with 213."""

OPEN_MPI_5_INSTEAD: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bind-to-socket": ("--bind-to", "package"),
        "display-devel-allocation": ("--display", "allocation"),
        "display-diffable-map": ("--display", "map"),
        "rf": ("--rankfile",),
        "do-not-resolve": ("--prtemca", "prte_do_not_resolve", "1"),
        "q": (),
        "quiet": (),
    }
)
"""What stands in Open MPI 5 for an option of 4; its values follow. Nothing: it can be left out.

Source: each was accepted by 5.0.11. Others of OPEN_MPI_5_REFUSES have nothing in their place.
"""

OPEN_MPI_5_TAKES_ONE_DASH = frozenset(
    options_known_to(Family.OPEN_MPI)
    - OPEN_MPI_5_NEEDS_TWO_DASHES_AND_A_SPACE
    - OPEN_MPI_5_REFUSES
    - set("add-host add-hostfile gpmixmca keepalive no-ready-msg pmix-prefix set-env".split())
    - set("set-sid singleton slot-list system-server terminate".split())
)
"""Options that Open MPI 5 takes with one dash, `-hostfile f` as well as `-np 2`.

Source: each tried with 5.0.11. The words taken out here are in PRRTE's help and refused by mpirun.
"""
