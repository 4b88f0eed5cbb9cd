"""A launch whose workers' part is played by a script on each host: what they hear, and what counts.

The launchers, their ssh and the hosts are real.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_words import Draining, Farewell, GraceOver, OutOfMemory
from tests.fake_worker_call import FakeCall
from tests.farm import Farm, FarmOptions, running_farm
from tests.farm_launch import ALL_STACKS, Launched, launch, running_launch
from tests.stacks import require_stack
from tests.waiting import wait_until
from tests.workers import make_job_keys, open_directory

pytestmark = pytest.mark.integration


class _Played:
    """A farm of plain sshd's that say in their banner that they are of an agent.

    Attributes:
        call: what plays the worker's part on each host.
    """

    def __init__(self, farm: Farm, call: FakeCall) -> None:
        self.farm = farm
        self.call = call

    def run_ids(self, launched: Launched) -> set[str]:
        """Return the ids that the ranks of a launch had."""
        return {
            str(os.fsdecode(rank.variable("MPI_AGENT_RUN_ID") or b"")) for rank in launched.ranks
        }


@pytest.fixture(scope="module")
def played() -> Iterator[_Played]:
    """Provide three workers; every conversation of theirs is written down."""
    with open_directory() as directory:
        root = directory / "farm"
        root.mkdir()
        call = FakeCall(root=root / "fakes")
        options = FarmOptions(
            sshd_lines=("AcceptEnv MPI_AGENT_RUN_ID", "VersionAddendum mpi-agent pi-worker"),
            session_variables={"MPI_AGENT_WORKER_CALL": str(root / "fakes" / "worker-call")},
        )
        keys = make_job_keys(directory / "mount")
        with running_farm(keys, root, 3, options) as farm:
            call.root.mkdir()
            assert call.path.exists()
            yield _Played(farm, call)


@ALL_STACKS
@pytest.mark.parametrize("ssh", ["openssh", "builtin"])
def test_every_rank_of_a_launch_has_the_id_that_its_workers_were_told(
    played: _Played, name: str, ssh: str
) -> None:
    """Every launcher hands its environment to its ssh, and daemons hand theirs to ranks."""
    launched = launch(played.farm, require_stack(name), options=("--ssh", ssh))

    assert launched.code == 0, launched.said
    (run_id,) = played.run_ids(launched)
    assert RunId.parse(run_id) is not None
    for worker in played.farm.workers:
        assert played.call.calls(worker.address)[-1]["run_id"] == run_id
        assert played.call.heard(worker.address)[-1] == "over"
    assert "said no farewell" not in launched.said


def test_a_launch_with_exec_has_an_id_too_and_nobody_is_watched(played: _Played) -> None:
    """So that a worker that drains knows whom to ask to end."""
    before = {worker.address: played.call.heard(worker.address) for worker in played.farm.workers}

    launched = launch(played.farm, require_stack("openmpi5"), options=("--exec",))

    assert launched.code == 0, launched.said
    (run_id,) = played.run_ids(launched)
    assert run_id
    assert RunId.parse(run_id) is None, "a lease would end what nobody watches"
    assert before == {w.address: played.call.heard(w.address) for w in played.farm.workers}


def test_a_failed_launch_names_the_worker_that_ran_out_of_memory(played: _Played) -> None:
    """It told so only when it heard of the end."""
    no_memory = OutOfMemory(kills=1, used_bytes=int(31.9 * 1024**3), limit_bytes=32 * 1024**3)
    address = played.farm.workers[1].address
    played.call.behaves(address, last_words=(no_memory,))

    launched = launch(played.farm, require_stack("openmpi4"), "--code", "137")

    played.call.behaves(address)
    assert launched.code == 137
    (ending,) = [line for line in launched.said.splitlines() if "code=137)" in line]
    cause = "out of memory on pi-worker-1.pi.default.svc, 31.9 of 32 GiB"
    assert re.search(rf"failed with exit code 137 .* s: {re.escape(cause)} \(", ending), ending


DRAINING = Draining(signal_name="SIGTERM", grace_s=25.0, ranks=2)


def test_a_success_of_ranks_that_saved_when_they_were_evicted_is_one_and_tells_it(
    played: _Played,
) -> None:
    """Nothing of the program was left when that worker went, before the others were done."""
    address = played.farm.workers[2].address
    played.call.behaves(address, tells=(DRAINING, Farewell()))

    with running_launch(played.farm, require_stack("openmpi4")) as running:
        wait_until("it is told", lambda: "is being evicted" in running.log.read_text())
        launched = running.end()

    played.call.behaves(address)
    assert launched.code == 0
    assert "; pi-worker-2.pi.default.svc was evicted (verdict=SUCCEEDED" in launched.said


def test_an_eviction_where_nothing_of_a_program_ran_leaves_a_failure_as_it_is(
    played: _Played,
) -> None:
    """A retry would fail again."""
    address = played.farm.workers[2].address
    idle = replace(DRAINING, ranks=0)
    played.call.behaves(address, tells=(idle, Farewell()))

    launched = launch(played.farm, require_stack("openmpi4"), "--code", "7")

    played.call.behaves(address)
    assert launched.code == 7
    remark = "; pi-worker-2.pi.default.svc was evicted when no program ran there"
    assert f"{remark} (verdict=PROGRAM_FAILED" in launched.said


def test_a_success_is_none_once_a_worker_ended_what_was_left_and_all_others_hear_it(
    played: _Played,
) -> None:
    """Mpirun says 0 as if nothing had happened; a worker may end with the code that it hears."""
    address = played.farm.workers[2].address
    played.call.behaves(address, tells=(DRAINING, GraceOver(), Farewell()))

    with running_launch(played.farm, require_stack("openmpi4")) as running:
        wait_until("it is told", lambda: "ends what is left" in running.log.read_text())
        launched = running.end()

    played.call.behaves(address)
    lost = "pi-worker-2.pi.default.svc was evicted while it ran (mpirun: exit code 0)"
    assert launched.code == 201
    assert f"the program cannot have finished: {lost} (verdict=WORKERS_LOST" in launched.said
    assert [played.call.codes(worker.address)[-1] for worker in played.farm.workers[:2]] == [
        201
    ] * 2


def test_a_success_is_none_though_the_worker_says_so_only_when_it_hears_of_the_end(
    played: _Played,
) -> None:
    """Mpirun may be faster than the worker's line."""
    address = played.farm.workers[1].address
    played.call.behaves(address, tells=(DRAINING,), last_words=(GraceOver(),))

    launched = launch(played.farm, require_stack("openmpi4"))

    played.call.behaves(address)
    assert launched.code == 201
    assert "pi-worker-1.pi.default.svc was evicted while it ran" in launched.said
