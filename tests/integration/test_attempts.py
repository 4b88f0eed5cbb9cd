"""What happens beside one attempt, with real workers, a real mpirun and real faults."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.agents import running_agent, running_hosts
from tests.integration.test_restarts import worker_pids
from tests.stacks import require_stack
from tests.waiting import wait_until
from tests.workers import make_job_keys, open_directory

pytestmark = pytest.mark.integration

LOOKED_S = 6.0
"""after the start, in which an agent has looked at its host; nothing shows that it did"""
_UNTIL_TOLD = "while [ ! -e go ]; do sleep 0.1; done"


@pytest.mark.parametrize("name", ["mpich4", "mpich5", "intelmpi"])
def test_the_loss_of_a_host_on_which_nothing_runs_leaves_a_program_alone(
    tmp_path: Path, name: str
) -> None:
    """One rank on one of two hosts; the other one stands still."""
    mpirun = str(require_stack(name).mpirun)
    with open_directory() as root, contextlib.ExitStack() as stack:
        keys = make_job_keys(root / "mount")
        job = stack.enter_context(running_hosts(keys, root, "pi-worker-0", "pi-worker-1"))
        options = (
            *("--hosts", "pi-worker-0:1,pi-worker-1:1", "--mpi", mpirun),
            *("--allow-idle-hosts", "--worker-timeout", "4s"),
        )
        line = ("mpirun", "-np", "1", "sh", "-c", _UNTIL_TOLD)
        words = ("env", "-C", str(tmp_path), *job.words("launch"), *options, "--", *line)
        with running_agent(*words) as agent:
            agent.wait_until_it_says("ranks started hosts=1")
            began_s = time.monotonic()
            wait_until("agents had time to look", lambda: time.monotonic() - began_s > LOOKED_S)
            idle = psutil.Process(worker_pids(root)["pi-worker-1"])
            frozen = [idle, *idle.children(recursive=True)]
            for process in frozen:
                process.send_signal(signal.SIGSTOP)
            try:
                agent.wait_until_it_says("pi-worker-1 is lost")
                (tmp_path / "go").touch()
                code, _, said = agent.end()
            finally:
                for process in frozen:
                    process.send_signal(signal.SIGCONT)

    assert code == 0, said
    assert "; nothing of the program ran there" in said
    assert "verdict=SUCCEEDED" in said.splitlines()[-1]
