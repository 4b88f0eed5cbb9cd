"""A daemon that is killed while its ranks live: under Hydra nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.farm import Farm, FarmHost
from tests.farm_launch import farm_of, running_launch
from tests.stacks import require_stack
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

_DAEMONS = {"hydra_pmi_proxy", "orted", "prted"}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide two workers that run the agent."""
    with farm_of(2) as farm:
        yield farm


def kill_daemon(host: FarmHost) -> None:
    """Kill what mpirun started on a host, and none of its ranks."""
    daemons = [process for process in host.processes() if process.name() in _DAEMONS]
    assert daemons
    for process in daemons:
        process.kill()


@pytest.mark.parametrize("name", ["mpich4", "mpich5", "intelmpi"])
def test_a_daemon_that_is_gone_ends_the_job_and_is_named(farm: Farm, name: str) -> None:
    """Its ranks would go on for ever; nothing of them is left."""
    host = farm.workers[1]
    with running_launch(farm, require_stack(name), ranks=4) as running:
        wait_until("agents told of them", lambda: "ranks started" in running.log.read_text())
        kill_daemon(host)
        wait_until("the launch ended", lambda: running.popen.poll() is not None)
        said = running.log.read_text()

    assert running.popen.returncode == 201, said
    assert "its MPI daemon is gone and its ranks go on (verdict=WORKERS_LOST code=201)" in said
    assert f"{host.name} lost after" in said
    assert not any("farm_rank" in " ".join(p.cmdline()) for p in host.processes())


@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "mpich5", "intelmpi"])
def test_an_orderly_end_is_no_loss(farm: Farm, name: str) -> None:
    """Daemons and ranks then go within moments, in whichever order."""
    with running_launch(farm, require_stack(name), ranks=4) as running:
        ended = running.end()

    assert ended.code == 0, ended.said
    assert "MPI daemon" not in ended.said
