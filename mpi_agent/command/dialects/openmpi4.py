"""Open MPI 4.1 (ORTE).

Source: Open MPI 4.1.4 of Debian 12, measured 2026-11: plain `orted` is looked for in the remote
login's PATH unless --prefix is given; single-dash long options are accepted, `--bind-to=none` is
not; `-x` counts for the application it stands in; for a host given by its IPv6 address mpirun
prints "illegal character in node" and hangs for ever.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Dialect, DialectName, Spelling, TagForm, mca
from mpi_agent.command.dialects.openmpi import (
    INSTEAD_OF_HYDRAS,
    MAPPINGS,
    NEEDLESS,
    SHARED_SPELLINGS,
)
from mpi_agent.command.hostfile import HostfileForm
from mpi_agent.command.refusals import (
    OPEN_MPI_4_INSTEAD,
    OPEN_MPI_4_REFUSES,
    OPEN_MPI_4_TAKES_EQUALS,
)
from mpi_agent.command.topics import Family, Topic

__all__ = ["OPEN_MPI_4"]

OPEN_MPI_4 = Dialect(
    name=DialectName.OPEN_MPI_4,
    family=Family.OPEN_MPI,
    hostfile_form=HostfileForm.SLOTS,
    spellings={
        **SHARED_SPELLINGS,
        Topic.MAP_BY: Spelling(words=("--map-by", "{}"), knob=mca("rmaps_base_mapping_policy")),
        Topic.BIND_TO: Spelling(words=("--bind-to", "{}"), knob=mca("hwloc_base_binding_policy")),
        Topic.TAG_OUTPUT: Spelling(words=("--tag-output",), knob=mca("orte_tag_output")),
        Topic.SSH_ARGUMENTS: Spelling(knob=mca("plm_rsh_args")),
        Topic.SSH_AGENT: Spelling(knob=mca("plm_rsh_agent")),
        Topic.LAUNCHER: Spelling(knob=mca("plm")),
        Topic.DAEMON: Spelling(knob=mca("orte_launch_agent")),
        Topic.QUIET: Spelling(words=("--quiet",)),
    },
    needless=NEEDLESS,
    equivalents=INSTEAD_OF_HYDRAS,
    mappings=MAPPINGS,
    tag_form=TagForm.OPEN_MPI_4,
    hostfile_variable="OMPI_MCA_orte_default_hostfile",
    ssh_agent_variable="OMPI_MCA_plm_rsh_agent",
    daemon="orted",
    finds_its_daemon=False,
    takes_ipv6_addresses=False,
    takes_equals=OPEN_MPI_4_TAKES_EQUALS,
    refuses=OPEN_MPI_4_REFUSES,
    instead_of_words=OPEN_MPI_4_INSTEAD,
    needless_values=frozenset({("rank-by", "span"), ("rank-by", "fill")}),
    passes_to_one_application=True,
)
