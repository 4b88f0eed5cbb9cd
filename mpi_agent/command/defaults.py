"""What the agent sets where the user set nothing: one table, each row with its reason and source.

A row says what it is for, when it is needed, and which knob has the effect in each dialect; a
dialect that is not in a row needs nothing. Whatever the user set, in whichever form, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mpi_agent.command.default_rows import Default, Situation
from mpi_agent.command.dialects.dialect import DialectName, Knob, mca, prte, variable
from mpi_agent.command.topics import Topic

__all__ = [
    "DEFAULTS",
    "INJECTED_BY_OPERATORS",
    "TREE_THRESHOLD",
]

TREE_THRESHOLD = 64
"""Up to so many hosts the launcher dials every one itself; Open MPI's trees are no deeper then.

Source: default radix of plm_rsh in Open MPI 4.1.4 and PRRTE 3.0.14, measured 2026-11.
"""
_USUAL_CONCURRENCY = 128
_MOST_PORTS_OF_DAEMONS = 16
_OPEN_MPI_4, _OPEN_MPI_5 = DialectName.OPEN_MPI_4, DialectName.OPEN_MPI_5
_KEEPALIVES = tuple(f"oob_tcp_keepalive_{name}" for name in ("time", "intvl", "probes"))
_MPICH, _INTEL_MPI = DialectName.MPICH, DialectName.INTEL_MPI
NO_TREE_KNOBS: Mapping[DialectName, tuple[Knob, ...]] = {
    _OPEN_MPI_4: (mca("plm_rsh_no_tree_spawn"),),
    _OPEN_MPI_5: (prte("plm_ssh_no_tree_spawn", "plm_rsh_no_tree_spawn"),),
}
CONCURRENCY_KNOBS: Mapping[DialectName, tuple[Knob, ...]] = {
    _OPEN_MPI_4: (mca("plm_rsh_num_concurrent"),),
    _OPEN_MPI_5: (prte("plm_ssh_num_concurrent", "plm_rsh_num_concurrent"),),
}


def _always(value: str) -> Callable[[Situation], str | None]:
    return lambda _: value


def _no_tree(situation: Situation) -> str | None:
    return None if situation.dials_by_tree or not situation.remote_count else "1"


def _concurrency(situation: Situation) -> str | None:
    if situation.remote_count <= TREE_THRESHOLD:
        return None
    return str(max(_USUAL_CONCURRENCY, situation.remote_count))


def _network(situation: Situation) -> str | None:
    return "127.0.0.0/8" if situation.loopback_only else situation.surroundings.network


def _daemons_network(situation: Situation) -> str | None:
    return None if situation.loopback_only else situation.surroundings.network


def _split(ports: tuple[int, int]) -> int:
    """Return the first port of the ranks: the daemons need few, and open all that they get."""
    first, last = ports
    return first + min(_MOST_PORTS_OF_DAEMONS, max(1, (last - first + 1) // 4))


def _ports_of_daemons(situation: Situation) -> str | None:
    if situation.ports is None:
        return None
    return f"{situation.ports[0]}-{_split(situation.ports) - 1}"


def _first_port_of_ranks(situation: Situation) -> str | None:
    return str(_split(situation.ports)) if situation.ports else None


def _port_count_of_ranks(situation: Situation) -> str | None:
    return str(situation.ports[1] - _split(situation.ports) + 1) if situation.ports else None


def _transports_to_leave_out(situation: Situation) -> str | None:
    """Return the components that look for RDMA devices, where neither launcher nor host has any.

    `ofi` then works over TCP, and listens where no parameter of Open MPI tells it to.
    """
    if situation.surroundings.has_rdma:
        return None
    return "^openib,ofi" if situation.ports else "^openib"


def _after(share: float) -> Callable[[Situation], str | None]:
    """Return what gives a share of the time after which a worker is lost, in whole seconds."""

    def seconds(situation: Situation) -> str | None:
        timeout_s = situation.worker_timeout_s
        if timeout_s is None or situation.loopback_only or not situation.remote_count:
            return None
        return str(max(1, round(timeout_s * share)))

    return seconds


def _missed_keepalives(situation: Situation) -> str | None:
    return None if _after(1)(situation) is None else "3"


def _keepalive(name: str, value: Callable[[Situation], str | None]) -> Default:
    return Default(
        reason="daemons notice a worker that is cut off; 300, 20 and 9 by themselves",
        source="Open MPI 4.1.4 and 5.0.11, packets of a worker dropped: 23.5 s, measured 2026-11",
        value=value,
        knobs={_OPEN_MPI_4: (mca(name),), _OPEN_MPI_5: (prte(name),)},
        unless=_KEEPALIVES,
    )


def _ports_with(mark: str) -> Callable[[Situation], str | None]:
    return lambda s: f"{s.ports[0]}{mark}{s.ports[1]}" if s.ports else None


DEFAULTS: tuple[Default, ...] = (
    Default(
        reason="else names are cut at the first dot and ssh cannot resolve them",
        source="Open MPI 4.1.4, measured 2026-11",
        value=_always("1"),
        knobs={_OPEN_MPI_4: (mca("orte_keep_fqdn_hostnames"),)},
        is_needed=True,
    ),
    Default(
        reason="workers then need neither the private key nor each other's names",
        source="open-mpi/ompi issue 4578; PRRTE 3.0 parameter plm_ssh_no_tree_spawn",
        value=_no_tree,
        knobs=NO_TREE_KNOBS,
        is_needed=True,
    ),
    Default(
        reason="ssh stays open for each host; fewer at a time than hosts hangs the start",
        source="Open MPI 4.1.4 at 200 hosts hung with 16, measured 2026-11",
        value=_concurrency,
        knobs=CONCURRENCY_KNOBS,
        is_needed=True,
    ),
    Default(
        reason="the network of the hosts' addresses; interface names differ between hosts",
        source="open-mpi/ompi issues 4963, 6377 and 6447",
        value=_network,
        knobs={
            _OPEN_MPI_4: (mca("btl_tcp_if_include"),),
            _OPEN_MPI_5: (mca("btl_tcp_if_include"),),
        },
        unless=("btl_tcp_if_exclude",),
    ),
    Default(
        reason="daemons call the launcher back over the same network",
        source="open-mpi/ompi issue 6377; PRRTE 3.0 parameter prte_if_include",
        value=_daemons_network,
        knobs={
            _OPEN_MPI_4: (mca("oob_tcp_if_include"),),
            _OPEN_MPI_5: (prte("prte_if_include", "oob_tcp_if_include"),),
        },
        unless=("oob_tcp_if_exclude", "prte_if_exclude"),
    ),
    _keepalive("oob_tcp_keepalive_time", _after(2 / 3)),
    _keepalive("oob_tcp_keepalive_intvl", _after(1 / 3)),
    _keepalive("oob_tcp_keepalive_probes", _missed_keepalives),
    Default(
        reason="a directory that is writable on every host",
        source="Open MPI 4.1.4 and 5.0.11 with a read-only /tmp on one host, measured 2026-11",
        value=lambda s: s.surroundings.session_directory,
        knobs={
            _OPEN_MPI_4: (mca("orte_tmpdir_base"),),
            _OPEN_MPI_5: (prte("prte_tmpdir_base", "orte_tmpdir_base"),),
        },
    ),
    Default(
        reason="there is no RDMA device for it to look for",
        source="Open MPI 4.1, component openib; Open MPI 5 has none; btl ofi: 4.1.4, ss -ltnp",
        value=_transports_to_leave_out,
        knobs={_OPEN_MPI_4: (mca("btl"),)},
    ),
    Default(
        reason="process_vm_readv is not allowed in this container",
        source="open-mpi/ompi issue 4948",
        value=lambda s: None if s.surroundings.process_vm_readv_works else "none",
        knobs={_OPEN_MPI_4: (mca("btl_vader_single_copy_mechanism"),)},
    ),
    Default(
        reason="process_vm_readv is not allowed in this container",
        source="Open MPI 5.0, framework smsc",
        value=lambda s: None if s.surroundings.process_vm_readv_works else "^cma",
        knobs={_OPEN_MPI_5: (mca("smsc"),)},
        unless=("btl_vader_single_copy_mechanism",),
    ),
    Default(
        reason="several workers of one machine would bind their ranks to the same cores",
        source="Intel MPI 2021 reference, I_MPI_PIN",
        value=_always("off"),
        knobs={_INTEL_MPI: (variable("I_MPI_PIN"),)},
        unless=("I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST", "I_MPI_PIN_CELL"),
        unless_said=(Topic.BIND_TO,),
    ),
    Default(
        reason="--port-range: ranks",
        source="Open MPI 4.1.4 and 5.0.11, ss -ltn during a run, 2026-11",
        value=_first_port_of_ranks,
        knobs=dict.fromkeys(
            (_OPEN_MPI_4, _OPEN_MPI_5), (mca("btl_tcp_port_min_v4"), mca("btl_tcp_port_min_v6"))
        ),
        is_needed=True,
    ),
    Default(
        reason="--port-range: ranks",
        source="Open MPI 4.1.4 and 5.0.11, ss -ltn during a run, 2026-11",
        value=_port_count_of_ranks,
        knobs=dict.fromkeys(
            (_OPEN_MPI_4, _OPEN_MPI_5),
            (mca("btl_tcp_port_range_v4"), mca("btl_tcp_port_range_v6")),
        ),
        is_needed=True,
    ),
    Default(
        reason="--port-range: daemons; mpirun opens every one of these",
        source="Open MPI 4.1.4 and PRRTE 3.0.14, ss -ltn during a run, 2026-11",
        value=_ports_of_daemons,
        knobs={
            _OPEN_MPI_4: (mca("oob_tcp_dynamic_ipv4_ports"), mca("oob_tcp_dynamic_ipv6_ports")),
            _OPEN_MPI_5: (prte("oob_tcp_dynamic_ipv4_ports"), prte("oob_tcp_dynamic_ipv6_ports")),
        },
        is_needed=True,
    ),
    Default(
        reason="--port-range: the launcher; proxies listen nowhere",
        source="MPICH 4.0.2 and 5.0.2, ss -ltn during a run, 2026-11",
        value=_ports_with(":"),
        knobs={_MPICH: (variable("MPIEXEC_PORT_RANGE"),)},
        is_needed=True,
    ),
    Default(
        reason="--port-range: ranks, over UCX",
        source="MPICH 4.0.2 and 5.0.2, ss -ltn during a run, 2026-11",
        value=_ports_with("-"),
        knobs={_MPICH: (variable("UCX_TCP_PORT_RANGE"),)},
        is_needed=True,
    ),
    Default(
        reason="--port-range: daemons and ranks",
        source="Intel MPI 2021.18, ss -ltn during a run, 2026-11",
        value=_ports_with(":"),
        knobs={_INTEL_MPI: (variable("I_MPI_PORT_RANGE"),)},
        is_needed=True,
    ),
)

INJECTED_BY_OPERATORS = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": None,
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_set_default_slots": None,
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "I_MPI_PERHOST": None,
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
}
"""Variables that mpi-operator and Trainer set on every launcher, with the value that tells them
from the user's own; None stands for any value. What they ask for is done by options on the command
line, which Open MPI 5 obeys too.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go.
"""
