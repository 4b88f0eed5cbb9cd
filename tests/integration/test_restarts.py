"""Programs that are begun again: what they see, when they are not, and what workers hear of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.agents import running_agent, running_hosts
from tests.waiting import wait_until
from tests.workers import make_job_keys, open_directory

pytestmark = pytest.mark.integration

_LOSES_ITS_DAEMON_ONCE = """\
import os, pathlib, signal, sys, time
count = os.environ["MPI_AGENT_RESTART_COUNT"]
rank = os.environ["OMPI_COMM_WORLD_RANK"]
told = " ".join((count, os.environ["MPI_AGENT_MAX_RESTARTS"], os.environ["MPI_AGENT_RUN_ID"]))
pathlib.Path(f"{count}-{rank}").write_text(told)
while len(list(pathlib.Path(".").glob(f"{count}-*"))) < 2:
    time.sleep(0.05)
if count == "0":
    if rank == "1":
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
time.sleep(1)
"""
_LEAVES_ONE_THAT_IGNORES_TERM = """\
import os, pathlib, subprocess, sys, time
ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=1)"
left = subprocess.Popen(
    [sys.executable, "-c", ignoring + "; time.sleep(60)"],
    start_new_session=True,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
)
left.stdout.read(1)
pathlib.Path("left-" + os.environ["MPI_AGENT_RESTART_COUNT"]).write_text(str(left.pid))
time.sleep(1)
sys.exit(7)
"""


def local_words(program: str, *options: str) -> list[str]:
    """Return a local job."""
    servers = ("--ssh", "builtin", "--sshd", "builtin", "--restart-delay", "1s")
    return [
        *(sys.executable, "-m", "mpi_agent", "local", *servers, *options),
        *("--", sys.executable, "-c", program),
    ]


def test_a_program_whose_daemon_was_killed_is_begun_again_and_sees_it(tmp_path: Path) -> None:
    """Both attempts know their number, how many may follow, and an id of their own."""
    done = subprocess.run(
        local_words(_LOSES_ITS_DAEMON_ONCE, "--workers", "2", "--max-restarts", "2"),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    seen = [(tmp_path / f"{count}-{rank}").read_text() for count in "01" for rank in "01"]
    (first, first_too, second, second_too) = (told.split() for told in seen)
    assert first == first_too
    assert second == second_too
    assert (first[:2], second[:2]) == (["0", "2"], ["1", "2"])
    assert first[2].endswith(".1")
    assert second[2] == f"{first[2][:-1]}2"
    assert "restarting in 1 s: " in done.stderr
    assert "verdict=SUCCEEDED" in done.stderr.splitlines()[-1]


def test_a_stop_while_hosts_are_swept_ends_it_soon_and_nothing_is_begun_again(
    tmp_path: Path,
) -> None:
    """The program has ended, so its own code is the one that counts."""
    options = ("--workers", "1", "--max-restarts", "3", "--restart-on", "program-failed")
    with running_agent(
        "env", "-C", str(tmp_path), *local_words(_LEAVES_ONE_THAT_IGNORES_TERM, *options)
    ) as agent:
        wait_until("the rank has left one", (tmp_path / "left-0").exists)
        launcher = psutil.Process(agent.popen.pid)
        wait_until(
            "mpirun is gone",
            lambda: not any("prterun" in child.name() for child in launcher.children()),
        )

        code, _, said = agent.end(signal_number=signal.SIGTERM)

    assert code == 7, said
    assert "not restarting: we were told to stop" in said
    assert not (tmp_path / "left-1").exists()
    left = int((tmp_path / "left-0").read_text())
    wait_until("nothing is left", lambda: not psutil.pid_exists(left))


def test_workers_hear_that_the_job_is_over_when_the_next_attempt_does_not_come_about() -> None:
    """They had heard that it is begun again, and would wait for it."""
    with open_directory() as root:
        keys = make_job_keys(root / "mount")
        with running_hosts(keys, root, "pi-worker-0", "pi-worker-1") as job:
            pids = worker_pids(root)
            options = (
                *("--hosts", "pi-worker-0:1,pi-worker-1:1", "--timeout", "8s"),
                *("--max-restarts", "1", "--restart-delay", "1s", "--worker-timeout", "3s"),
            )
            words = (*job.words("launch"), *options, "--", "sleep", "60")
            with running_agent(*words) as agent:
                agent.wait_until_it_says("ranks started")
                kill_tree(pids["pi-worker-1"])
                code, _, said = agent.end()

            log = (root / "pi-worker-0.log").read_text()

    assert code == 200, said
    assert re.search(r"attempt 1 was over: .*pi-worker-1 ", said), said
    overs = [line for line in log.splitlines() if "exit_code=" in line or "code=" in line]
    assert "200" in overs[-1], overs


def worker_pids(root: Path) -> dict[str, int]:
    """Return the process of each worker, by its state directory."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "worker" in words and any(str(root) in word for word in words):
            found[words[words.index("--worker-name") + 1]] = process.pid
    return found


def kill_tree(pid: int) -> None:
    """Kill a worker with all that it started, as the end of its container would."""
    worker = psutil.Process(pid)
    for process in (worker, *worker.children(recursive=True)):
        os.kill(process.pid, signal.SIGKILL)
