"""80 hosts: more than the 64 up to which Open MPI's launcher dials every one itself.

Whoever dials, each host gets its rank; whether hosts dial hosts is decided by a try.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest

from mpi_agent.command.defaults import TREE_THRESHOLD
from tests.farm import Farm, FarmHost, FarmOptions
from tests.farm_launch import Launched, farm_of, hosts_of, running_launch, spread_of
from tests.stacks import require_stack

pytestmark = pytest.mark.integration

HOST_COUNT = 80
OPEN_MPIS = pytest.mark.parametrize("name", ["openmpi4", "openmpi5"])


@pytest.fixture(scope="module")
def plain() -> Iterator[Farm]:
    """Provide 80 hosts with an sshd alone, which cannot dial each other."""
    with farm_of(HOST_COUNT, FarmOptions()) as farm:
        yield farm


@pytest.fixture(scope="module")
def agents() -> Iterator[Farm]:
    """Provide 80 hosts that run the agent; in about 20 seconds on 2 cores, with 4 GB."""
    with farm_of(HOST_COUNT) as farm:
        yield farm


def ssh_clients_of(host: FarmHost) -> int:
    """Return how many ssh clients run on a host."""
    found = 0
    for process in host.processes():
        try:
            found += process.name() == "ssh"
        except psutil.NoSuchProcess:
            continue
    return found


def launch_on_all(farm: Farm, name: str) -> tuple[Launched, int, int]:
    """Launch a rank on each host; also return how many were dialled by the launcher and by hosts."""
    options = ("--hosts", hosts_of(farm, slots=1))
    with running_launch(farm, require_stack(name), options=options, ranks=HOST_COUNT) as run:
        marks = list(farm.launcher.inside("/run/mpi-agent/dialled").iterdir())
        first_hosts = farm.workers[: HOST_COUNT // 2]
        by_hosts = sum(ssh_clients_of(worker) for worker in first_hosts)
        assert ssh_clients_of(farm.launcher) == len(marks)
        return run.end(), len(marks), by_hosts


def assert_each_host_ran_its_rank(ended: Launched, farm: Farm) -> None:
    """Assert that rank 0 was on the first host, and so on."""
    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm, slots=1), ended.said


@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "mpich5", "intelmpi"])
def test_each_of_80_hosts_runs_its_rank_by_a_plain_sshd(plain: Farm, name: str) -> None:
    """Workers have neither key nor configuration, so every MPI must let the launcher dial all."""
    ended, by_launcher, by_hosts = launch_on_all(plain, name)

    assert_each_host_ran_its_rank(ended, plain)
    assert (by_launcher, by_hosts) == (HOST_COUNT, 0)
    assert f"dials all {HOST_COUNT} hosts itself: pi-worker-[0-79].pi.default.svc have no" in (
        ended.said
    )


@OPEN_MPIS
def test_hosts_that_can_dial_hosts_share_the_dialling(agents: Farm, name: str) -> None:
    """The first 64 are dialled by the launcher, the rest by them; ssh stays open for each."""
    ended, by_launcher, by_hosts = launch_on_all(agents, name)

    assert_each_host_ran_its_rank(ended, agents)
    assert by_launcher == TREE_THRESHOLD
    assert by_hosts == HOST_COUNT - TREE_THRESHOLD
    assert "no_tree_spawn" not in ended.said
    concurrent = re.search(r"num_concurrent (\d+)", ended.said)
    assert concurrent is not None
    assert int(concurrent[1]) > by_launcher


@OPEN_MPIS
def test_hosts_that_cannot_dial_each_other_are_found_out_before_the_start(
    agents: Farm, name: str
) -> None:
    """The first host does not know the last one's name; mpirun would hang, or end without a word."""
    table = agents.workers[0].directory / "hosts"
    known = table.read_text()
    table.write_text("".join(f"{line}\n" for line in known.splitlines() if "worker-79" not in line))
    try:
        ended, by_launcher, by_hosts = launch_on_all(agents, name)
    finally:
        table.write_text(known)

    assert_each_host_ran_its_rank(ended, agents)
    assert (by_launcher, by_hosts) == (HOST_COUNT, 0)
    why = '"pi-worker-0.pi.default.svc" cannot dial "pi-worker-79": '
    assert f"the launcher dials all {HOST_COUNT} hosts itself: {why}" in ended.said
    assert "Could not resolve hostname pi-worker-79" in ended.said
