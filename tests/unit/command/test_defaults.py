"""The table of defaults: what is set where, and whatever keeps it away."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.defaults import DEFAULTS
from mpi_agent.command.dialects import dialect_of
from mpi_agent.command.plan import LaunchPlan, LaunchRequest, SshAccess, Surroundings
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    INTEL_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    STACKS,
    a_host_list,
    a_launch_request,
)

KNOBS = {
    (dialect, knob.name) for row in DEFAULTS for dialect in row.knobs for knob in row.knobs[dialect]
}
PORT_KNOBS = {
    (dialect, knob.name)
    for row in DEFAULTS
    if row.reason.startswith("--port-range")
    for dialect in row.knobs
    for knob in row.knobs[dialect]
}
PORTS = (20000, 20999)
TREE = SshAccess(config_path="/run/mpi-agent/ssh_config", hosts_can_dial=True)
QUIET = Surroundings(has_rdma=True)


def request_of(line: str = "./pi", environ: Mapping[str, str] | None = None) -> LaunchRequest:
    """Return a request for which no default but the ever needed ones is due."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    return replace(request, surroundings=QUIET, ssh=TREE)


def defaults_of(plan: LaunchPlan, stack: MpiStack) -> dict[str, str]:
    """Return the knobs of the table that a plan turns, by parameters or variables."""
    names = {name for dialect, name in KNOBS if dialect is dialect_of(stack).name}
    words = itertools.pairwise(plan.argv)
    found = {name: value for name, value in words if name in names}
    return found | {v.name: v.value for v in plan.variables if v.name in names}


def planned(stack: MpiStack, request: LaunchRequest, *, hosts: int = 2) -> dict[str, str]:
    """Return the defaults of a request on that many hosts."""
    return defaults_of(build_plan(request, a_host_list(hosts), stack), stack)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table, or two that belong together: its situation, and what is said in it.

    Attributes:
        without: what is said in every other situation and not in this one.
    """

    request: LaunchRequest
    hosts: int = 2
    without: Collection[str] = ()
    openmpi4: Mapping[str, str] = field(default_factory=dict)
    openmpi5: Mapping[str, str] = field(default_factory=dict)
    mpich: Mapping[str, str] = field(default_factory=dict)
    intel: Mapping[str, str] = field(default_factory=dict)


KEEPALIVES = {
    "oob_tcp_keepalive_time": "10",
    "oob_tcp_keepalive_intvl": "5",
    "oob_tcp_keepalive_probes": "3",
}
ALWAYS = {
    "openmpi4": {"orte_keep_fqdn_hostnames": "1", **KEEPALIVES},
    "openmpi5": KEEPALIVES,
    "intel": {"I_MPI_PIN": "off"},
}
ROWS = {
    "no situation": Row(request=request_of()),
    "no tree": Row(
        request=replace(request_of(), ssh=SshAccess(config_path="/c")),
        openmpi4={"plm_rsh_no_tree_spawn": "1"},
        openmpi5={"plm_ssh_no_tree_spawn": "1"},
    ),
    "as many hosts as a tree dials at once": Row(request=request_of(), hosts=64),
    "more hosts": Row(
        request=request_of(),
        hosts=65,
        openmpi4={"plm_rsh_num_concurrent": "128"},
        openmpi5={"plm_ssh_num_concurrent": "128"},
    ),
    "more hosts than usual": Row(
        request=request_of(),
        hosts=200,
        openmpi4={"plm_rsh_num_concurrent": "200"},
        openmpi5={"plm_ssh_num_concurrent": "200"},
    ),
    "a known network": Row(
        request=replace(request_of(), surroundings=replace(QUIET, network="10.4.0.0/16")),
        openmpi4={"btl_tcp_if_include": "10.4.0.0/16", "oob_tcp_if_include": "10.4.0.0/16"},
        openmpi5={"btl_tcp_if_include": "10.4.0.0/16", "prte_if_include": "10.4.0.0/16"},
    ),
    "this machine alone": Row(
        request=replace(
            request_of(), loopback_only=True, surroundings=replace(QUIET, network="10.4.0.0/16")
        ),
        without=KEEPALIVES,
        openmpi4={"btl_tcp_if_include": "127.0.0.0/8"},
        openmpi5={"btl_tcp_if_include": "127.0.0.0/8"},
    ),
    "a worker may be silent for a minute": Row(
        request=replace(request_of(), worker_timeout_s=60.0),
        openmpi4={"oob_tcp_keepalive_time": "40", "oob_tcp_keepalive_intvl": "20"},
        openmpi5={"oob_tcp_keepalive_time": "40", "oob_tcp_keepalive_intvl": "20"},
    ),
    "a read-only /tmp": Row(
        request=replace(request_of(), surroundings=replace(QUIET, session_directory="/dev/shm")),
        openmpi4={"orte_tmpdir_base": "/dev/shm"},
        openmpi5={"prte_tmpdir_base": "/dev/shm"},
    ),
    "no RDMA": Row(
        request=replace(request_of(), surroundings=Surroundings(has_rdma=False)),
        openmpi4={"btl": "^openib"},
    ),
    "no reading of other processes": Row(
        request=replace(request_of(), surroundings=replace(QUIET, process_vm_readv_works=False)),
        openmpi4={"btl_vader_single_copy_mechanism": "none"},
        openmpi5={"smsc": "^cma"},
    ),
}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_said_in_its_situation_and_in_its_dialects(row: str, stack: str) -> None:
    """Nothing else is: a default that is not needed only makes the line longer."""
    case = ROWS[row]

    found = planned(STACKS[stack], case.request, hosts=case.hosts)

    always = ALWAYS.get(stack, {}).items()
    kept = {name: value for name, value in always if name not in case.without}
    assert found == {**kept, **getattr(case, stack)}


def test_every_knob_of_the_table_is_in_a_situation_above() -> None:
    """A new row comes with its test."""
    tested = {
        (dialect_of(STACKS[stack]).name, name)
        for case in ROWS.values()
        for stack in STACKS
        for name in {**ALWAYS.get(stack, {}), **getattr(case, stack)}
    }

    assert tested == KNOBS - PORT_KNOBS


def ports_of(stack: str) -> set[str]:
    """Return the knobs with which --port-range is obeyed."""
    return {name for dialect, name in PORT_KNOBS if dialect is dialect_of(STACKS[stack]).name}


@pytest.mark.parametrize("stack", STACKS)
def test_a_port_range_is_said_in_each_dialect_and_never_left(stack: str) -> None:
    """Daemons and ranks of every MPI stay in it; some are told a first port and a count."""
    request = replace(request_of(), port_range=PORTS)

    found = planned(STACKS[stack], request)

    ports = {name: value for name, value in found.items() if name in ports_of(stack)}
    counts = {name for name in ports if "port_range_v" in name}
    numbers = [int(n) for name in ports.keys() - counts for n in re.findall(r"\d+", ports[name])]
    assert ports.keys() == ports_of(stack)
    assert all(PORTS[0] <= number <= PORTS[1] for number in numbers)
    for name in counts:
        first = int(ports[name.replace("_range_", "_min_")])
        assert first + int(ports[name]) - 1 <= PORTS[1]


@pytest.mark.parametrize("stack", STACKS)
def test_without_defaults_only_needed_rows_are_said(stack: str) -> None:
    """Names that ssh can resolve, who dials whom, and the ports that --port-range asks for."""
    everything = replace(
        request_of(),
        ssh=SshAccess(config_path="/c"),
        surroundings=Surroundings(
            network="10.4.0.0/16", session_directory="/dev/shm", process_vm_readv_works=False
        ),
        port_range=PORTS,
        sets_defaults=False,
    )

    found = planned(STACKS[stack], everything, hosts=70)

    dialling = {
        "openmpi4": {
            *("orte_keep_fqdn_hostnames", "plm_rsh_no_tree_spawn"),
            "plm_rsh_num_concurrent",
        },
        "openmpi5": {"plm_ssh_no_tree_spawn", "plm_ssh_num_concurrent"},
    }
    needed = dialling.get(stack, set())
    assert found.keys() == needed | ports_of(stack)


@pytest.mark.parametrize("stack", ["openmpi4", "openmpi5"])
@pytest.mark.parametrize(
    "case",
    [
        replace(request_of(), worker_timeout_s=None),
        replace(request_of(), loopback_only=True),
        request_of("mpirun --mca oob_tcp_keepalive_probes 9 ./pi"),
        request_of("./pi", {"OMPI_MCA_oob_tcp_keepalive_time": "300"}),
    ],
    ids=["never lost", "one machine", "on the line", "a variable"],
)
def test_keepalives_are_left_alone_where_they_are_the_users_or_have_no_use(
    stack: str, case: LaunchRequest
) -> None:
    """Those of them that he did not name too: the three have one effect together."""
    plan = build_plan(case, a_host_list(2), STACKS[stack])

    ours = {choice.words for choice in plan.choices if choice.said_by == "mpi-agent"}
    assert not [words for words in ours if "keepalive" in " ".join(words)]


OWN_NETWORK = "10.9.9.0/24"


@pytest.mark.parametrize(
    ("line", "environ", "stacks"),
    [
        ("mpirun --mca btl_tcp_if_include eth0 ./pi", {}, ("openmpi4", "openmpi5")),
        ("mpirun -mca btl_tcp_if_include eth0 ./pi", {}, ("openmpi4", "openmpi5")),
        ("mpirun --gmca btl_tcp_if_include eth0 ./pi", {}, ("openmpi4", "openmpi5")),
        ("mpirun --omca btl_tcp_if_include eth0 ./pi", {}, ("openmpi5",)),
        ("mpirun -n 1 ./a : --mca btl_tcp_if_include eth0 -n 1 ./b", {}, ("openmpi4", "openmpi5")),
        ("mpirun -iface eth0 ./pi", {}, ("openmpi4", "openmpi5")),
        ("mpirun --mca btl_tcp_if_exclude lo ./pi", {}, ("openmpi4", "openmpi5")),
        ("./pi", {"OMPI_MCA_btl_tcp_if_include": "eth0"}, ("openmpi4", "openmpi5")),
        ("./pi", {"OMPI_MCA_btl_tcp_if_exclude": "lo"}, ("openmpi4", "openmpi5")),
    ],
)
def test_the_users_own_network_keeps_ours_away(
    line: str, environ: dict[str, str], stacks: tuple[str, ...]
) -> None:
    """In any form; both Open MPIs end where a parameter has two values on the line."""
    request = replace(request_of(line, environ), surroundings=replace(QUIET, network=OWN_NETWORK))

    for stack in stacks:
        argv = build_plan(request, a_host_list(), STACKS[stack]).argv
        assert not any(
            name.startswith("btl_tcp_if") and value == OWN_NETWORK
            for name, value in itertools.pairwise(argv)
        )


@pytest.mark.parametrize(
    ("line", "environ"),
    [
        ("mpirun --prtemca prte_if_include eth0 ./pi", {}),
        ("mpirun --mca oob_tcp_if_include eth0 ./pi", {}),
        ("mpirun --prtemca prte_if_exclude lo ./pi", {}),
        ("mpirun --mca oob_tcp_if_exclude lo ./pi", {}),
        ("./pi", {"PRTE_MCA_prte_if_include": "eth0"}),
        ("./pi", {"OMPI_MCA_oob_tcp_if_include": "eth0"}),
        ("./pi", {"OMPI_MCA_oob_tcp_if_exclude": "lo"}),
    ],
)
def test_a_name_of_an_earlier_version_keeps_ours_away(line: str, environ: dict[str, str]) -> None:
    """Open MPI 5 is told the user's value under its own name, and ours not."""
    request = replace(request_of(line, environ), surroundings=replace(QUIET, network=OWN_NETWORK))

    argv = build_plan(request, a_host_list(), OPEN_MPI_5_STACK).argv

    assert ("prte_if_include", OWN_NETWORK) not in set(itertools.pairwise(argv))
    assert argv.count("prte_if_include") <= 1


@pytest.mark.parametrize("variable", ["I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_CELL"])
def test_any_pinning_of_the_user_keeps_ours_away(variable: str) -> None:
    """I_MPI_PIN=off would switch his domains off."""
    request = request_of("./pi", {variable: "1"})

    assert planned(INTEL_STACK, request) == {}


@pytest.mark.parametrize(
    "line",
    [
        "mpiexec -genv I_MPI_PIN 1 ./pi",
        "mpiexec -genv I_MPI_PIN=1 ./pi",
        "mpirun -x I_MPI_PIN=1 ./pi",
        "mpiexec --bind-to core ./pi",
        "mpiexec -bind-to core ./pi",
    ],
)
def test_a_pinning_on_the_users_line_keeps_ours_away(line: str) -> None:
    """Ours would stand beside his, and switch his binding off."""
    plan = build_plan(request_of(line), a_host_list(), INTEL_STACK)

    assert "I_MPI_PIN" not in {variable.name for variable in plan.variables}


def test_what_kept_a_default_away_is_told() -> None:
    """`plan` shows whose word counts."""
    plan = build_plan(
        request_of("./pi", {"OMPI_MCA_orte_keep_fqdn_hostnames": "0", "OMPI_MCA_btl": "self"}),
        a_host_list(),
        OPEN_MPI_4_STACK,
    )

    assert "orte_keep_fqdn_hostnames" in plan.argv
    rdma = replace(request_of("./pi", {"OMPI_MCA_btl": "self"}), surroundings=Surroundings())
    kept = build_plan(rdma, a_host_list(), OPEN_MPI_4_STACK).kept
    assert [choice.said_by for choice in kept] == ["OMPI_MCA_btl"]
