"""Slots against what hosts have, and slots made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.command.room import compare, slots_from_facts, with_found_slots
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.hosts import HostList, SlotsOrigin
from tests.builders import a_host_list

ONE_EACH = HostFacts(gpus=1, cpus=64)


def told(
    hosts: HostList, *facts: HostFacts, environ: dict[str, str] | None = None
) -> tuple[str, ...]:
    """Return what does not fit, host by host with these facts; the last are those of the rest."""
    each = dict(zip(hosts.names, facts + facts[-1:] * len(hosts.hosts), strict=False))
    return compare(hosts, each, environ or {})


def origin(hosts: HostList, *origins: SlotsOrigin) -> HostList:
    """Return hosts whose slots come from there."""
    every = zip(hosts.hosts, origins, strict=True)
    return replace(hosts, hosts=tuple(replace(host, slots_from=from_) for host, from_ in every))


@pytest.mark.parametrize(
    ("slots", "facts", "sentence"),
    [
        (
            1,
            HostFacts(gpus=8),
            "8 GPUs but 1 slot on pi-worker-[0-1].pi.default.svc: "
            "is slotsPerWorker beside mpiReplicaSpecs?",
        ),
        (8, ONE_EACH, "1 GPU but 8 slots on pi-worker-[0-1].pi.default.svc: 8 ranks share it"),
        (
            8,
            HostFacts(gpus=4),
            "4 GPUs but 8 slots on pi-worker-[0-1].pi.default.svc: 8 ranks share them",
        ),
        (
            4,
            HostFacts(gpus=0, cpu_limit=2.0),
            "4 slots but a CPU limit of 2 on pi-worker-[0-1].pi.default.svc",
        ),
        (
            2,
            HostFacts(gpus=0, cpu_limit=1.5),
            "2 slots but a CPU limit of 1.5 on pi-worker-[0-1].pi.default.svc",
        ),
    ],
)
def test_slots_that_do_not_fit_are_told_once_for_all_hosts(
    slots: int, facts: HostFacts, sentence: str
) -> None:
    """With both numbers, and what it means."""
    assert told(a_host_list(2, slots=slots), facts) == (sentence,)


@pytest.mark.parametrize(
    ("slots", "facts"),
    [
        (8, HostFacts(gpus=8, cpu_limit=2.0)),
        (2, HostFacts(gpus=0, cpu_limit=2.0)),
        (1, HostFacts(gpus=0, cpu_limit=0.5)),
        (64, HostFacts(gpus=0)),
        (64, HostFacts(cpus=2)),
    ],
)
def test_slots_that_fit_are_not_mentioned(slots: int, facts: HostFacts) -> None:
    """Where there are GPUs nobody counts CPUs, and one process must run somewhere."""
    assert told(a_host_list(2, slots=slots), facts) == ()


def test_hosts_that_differ_are_told_apart() -> None:
    """Each sentence names the hosts of which it is true."""
    hosts = a_host_list(3, slots=2)

    assert told(hosts, HostFacts(gpus=1), HostFacts(gpus=2), HostFacts(gpus=1)) == (
        "1 GPU but 2 slots on pi-worker-[0,2].pi.default.svc: 2 ranks share it",
    )
    assert compare(hosts, {}, {}) == ()


def test_few_slots_that_the_user_asked_for_are_not_blamed_on_the_manifest() -> None:
    """One process that drives eight GPUs is usual."""
    hosts = origin(a_host_list(1), SlotsOrigin.SETTING)

    assert told(hosts, HostFacts(gpus=8)) == (
        "8 GPUs but 1 slot on pi-worker-0.pi.default.svc: as --slots says",
    )


@pytest.mark.parametrize(
    "name",
    ["OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots", "I_MPI_PERHOST"],
)
def test_an_operators_variable_that_contradicts_the_hostfile_is_told(name: str) -> None:
    """The hostfile counts; who wrote the manifest meant one of them."""
    hosts = a_host_list(2, slots=1)

    assert compare(hosts, {}, {name: "8"}) == (
        "1 slot on pi-worker-[0-1].pi.default.svc by /etc/mpi/hostfile, which counts, "
        f"not {name}=8",
    )
    assert compare(hosts, {}, {name: "1"}) == ()
    assert compare(hosts, {}, {name: "cores"}) == ()


@pytest.mark.parametrize("said_by", [SlotsOrigin.SETTING, SlotsOrigin.VARIABLE, SlotsOrigin.FOUND])
def test_slots_that_are_not_of_the_list_do_not_contradict_it(said_by: SlotsOrigin) -> None:
    """A flag is said on purpose; and hosts written on the command line are, too."""
    environ = {"I_MPI_PERHOST": "8"}
    hosts = a_host_list(2, slots=1)

    assert compare(origin(hosts, said_by, said_by), {}, environ) == ()
    assert compare(replace(hosts, source="--hosts"), {}, environ) == ()


@pytest.mark.parametrize(
    ("facts", "slots"),
    [
        (HostFacts(gpus=8, cpu_limit=4.0, cpus=64), 8),
        (HostFacts(gpus=0, cpu_limit=3.9, cpus=64), 3),
        (HostFacts(gpus=0, cpu_limit=0.5, cpus=64), 1),
        (HostFacts(gpus=None, cpus=64), 64),
        (HostFacts(), None),
    ],
)
def test_slots_are_gpus_else_the_limit_else_cpus(facts: HostFacts, slots: int | None) -> None:
    """And never none of a host that is there."""
    assert slots_from_facts(facts) == slots


def test_only_hosts_that_nobody_gave_a_number_take_what_was_found() -> None:
    """They may differ, and one that does not tell keeps its one slot and is named."""
    wanted, source = SlotsOrigin.WANTED, SlotsOrigin.SOURCE
    hosts = origin(a_host_list(4), wanted, source, wanted, wanted)
    facts = dict(zip(hosts.names, (HostFacts(gpus=8), HostFacts(gpus=8), ONE_EACH), strict=False))

    found = with_found_slots(hosts, facts)

    assert [host.slots for host in found.hosts] == [8, 1, 1, 1]
    assert [host.slots_from for host in found.hosts[::2]] == [SlotsOrigin.FOUND] * 2
    assert found.total_slots == 11
    assert "how many slots fit on pi-worker-3.pi.default.svc is unknown: 1 each" in compare(
        found, facts, {}
    )
