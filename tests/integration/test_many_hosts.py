"""80 hosts: more than the 64 up to which Open MPI's launcher dials every one itself.

Whoever dials, each host gets its rank; whether hosts dial hosts is decided by a try.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

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


def clients_in(hosts: tuple[FarmHost, ...]) -> int:
    """Return how many ssh clients run on these hosts."""
    networks = {os.readlink(f"/proc/{host.pid}/ns/net") for host in hosts}
    found = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            is_there = os.readlink(f"/proc/{process.pid}/ns/net") in networks
            found += is_there and process.name() == "ssh"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """Who dialled whom, while the ranks ran.

    Attributes:
        by_launcher: hosts that the launcher logged in to.
        clients_of_launcher: its ssh clients; Open MPI 4 without a tree lets them end at once.
        clients_of_hosts: ssh clients on the hosts.
    """

    by_launcher: int
    clients_of_launcher: int
    clients_of_hosts: int


def launch_on_all(farm: Farm, name: str) -> tuple[Launched, Dialled]:
    """Launch a rank on each host; assert that rank 0 was on the first one, and so on."""
    options = ("--hosts", hosts_of(farm, slots=1))
    with running_launch(farm, require_stack(name), options=options, ranks=HOST_COUNT) as run:
        dialled = Dialled(
            by_launcher=len(list(farm.launcher.inside("/run/mpi-agent/dialled").iterdir())),
            clients_of_launcher=clients_in((farm.launcher,)),
            clients_of_hosts=clients_in(farm.workers),
        )
        ended = run.end()
    assert ended.code == 0, ended.said
    assert ended.placed == spread_of(farm, slots=1), ended.said
    return ended, dialled


@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "mpich5", "intelmpi"])
def test_each_of_80_hosts_runs_its_rank_by_a_plain_sshd(plain: Farm, name: str) -> None:
    """Workers have neither key nor configuration, so every MPI must let the launcher dial all."""
    ended, dialled = launch_on_all(plain, name)

    assert (dialled.by_launcher, dialled.clients_of_hosts) == (HOST_COUNT, 0)
    assert f"dials all {HOST_COUNT} hosts itself: pi-worker-[0-79].pi.default.svc have no" in (
        ended.said
    )


@OPEN_MPIS
def test_hosts_that_can_dial_hosts_share_the_dialling(agents: Farm, name: str) -> None:
    """The first 64 are dialled by the launcher, the rest by them; ssh stays open for each."""
    ended, dialled = launch_on_all(agents, name)

    assert dialled.by_launcher == dialled.clients_of_launcher == TREE_THRESHOLD
    assert dialled.clients_of_hosts == HOST_COUNT - TREE_THRESHOLD
    assert "no_tree_spawn" not in ended.said
    concurrent = re.search(r"num_concurrent (\d+)", ended.said)
    assert concurrent is not None
    assert int(concurrent[1]) > TREE_THRESHOLD


def test_hosts_that_cannot_dial_each_other_are_found_out_before_the_start(
    agents: Farm,
) -> None:
    """The first does not know the last one's name; mpirun would hang, or end without a word."""
    table = agents.workers[0].directory / "hosts"
    known = table.read_text()
    table.write_text("".join(f"{line}\n" for line in known.splitlines() if "worker-79" not in line))
    try:
        ended, dialled = launch_on_all(agents, "openmpi5")
    finally:
        table.write_text(known)

    assert (dialled.by_launcher, dialled.clients_of_hosts) == (HOST_COUNT, 0)
    why = '"pi-worker-0.pi.default.svc" cannot dial "pi-worker-79": '
    assert f"the launcher dials all {HOST_COUNT} hosts itself: {why}" in ended.said
    assert "Could not resolve hostname pi-worker-79" in ended.said
