"""`mpi-agent launch --exec`: the agent waits, then its process is mpirun's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import Job, running_agent, running_hosts
from tests.integration.test_worker_mpirun import open_mpi_4
from tests.workers import free_address, make_job_keys, open_directory

pytestmark = pytest.mark.integration

PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}
"""ignored by every Python, and not meant for what comes after it"""

HOST, DOWN = "w-0.pi", "w-9.pi"


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    """Provide a job with one worker that is ready and one host on which nobody listens."""
    with open_directory() as root:
        keys = make_job_keys(root / "mount")
        with running_hosts(keys, root, HOST, down=(DOWN,)) as made:
            yield made


def ignored_in(mask: str) -> set[int]:
    """Return the signals of a mask in /proc/PID/status."""
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def ignored_here() -> set[int]:
    """Return the signals that the tests ignore: a shell or make may have asked them to."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return ignored_in(next(line.split()[1] for line in lines if line.startswith("SigIgn")))


def launch(job: Job, program: str, *options: str) -> tuple[str, ...]:
    """Return a launch of a shell that stands for mpirun: it runs once, here."""
    words = ("--hosts", f"{HOST}:2", "--exec", *options, "--", "sh", "-c", f"{program} # mpirun")
    return (*job.words("launch"), *words)


def test_the_process_becomes_the_program_and_finds_all_that_a_launch_gives_it(job: Job) -> None:
    """Same pid, the plan's environment and files, its own exit code; no ending is told."""
    program = 'echo "$$ $MPI_AGENT_NP"; cat "$MPI_AGENT_HOSTFILE"; ls "$0"; exit 7'
    state = job.root / "launcher"
    with running_agent(*launch(job, program), str(state)) as agent:
        code, out, err = agent.end()

    first, second, *files = out.splitlines()
    assert code == 7, err
    assert first == f"{agent.popen.pid} 2"
    assert second == f"{HOST} slots=2"
    assert {"hostfile", "job_key", "known_hosts", "ssh_config"} <= set(files)
    assert "becoming sh (--exec), which nobody supervises; no ending is told; np=2" in err
    assert "verdict=" not in err


def test_the_program_finds_signals_children_and_files_as_after_a_shell(job: Job) -> None:
    """Nothing is ignored or blocked, nothing runs beside it, nothing is left open."""
    program = (
        "grep -E '^(SigIgn|SigBlk|SigCgt|Threads)' /proc/$$/status; "
        "cat /proc/$$/task/$$/children; echo; ls /proc/$$/fd"
    )
    with running_agent(*launch(job, program, "--http-port", str(free_address()[1]))) as agent:
        code, out, err = agent.end()

    assert code == 0, err
    assert "cannot serve HTTP" not in err
    values = dict(line.split(":\t") for line in out.splitlines() if ":\t" in line)
    children, *descriptors = [line for line in out.splitlines() if ":\t" not in line]
    assert values["Threads"] == "1"
    assert not ignored_in(values["SigIgn"]) & PYTHONS_OWN
    assert ignored_in(values["SigIgn"]) <= ignored_here()
    assert int(values["SigBlk"], 16) == 0
    assert len(children.split()) <= 1  # the cat itself
    assert set(descriptors) <= {"0", "1", "2"}


def test_a_stop_signal_before_it_is_the_agents_and_after_it_the_programs(job: Job) -> None:
    """143 with a word of the agent, then whatever the program makes of it."""
    waiting = (*job.words("launch"), "--hosts", DOWN, "--exec", "--", "sh", "-c", "mpirun")
    with running_agent(*waiting) as agent:
        agent.wait_until_it_says("waiting for hosts=1")
        before = agent.end(signal_number=signal.SIGTERM)
    program = "trap 'exit 9' TERM; echo is-'up' >&2; while :; do sleep 0.05; done"
    with running_agent(*launch(job, program)) as agent:
        agent.wait_until_it_says("is-up")
        after = agent.end(signal_number=signal.SIGTERM)

    assert before[0] == 143
    assert "told to stop by SIGTERM" in before[2]
    assert after[0] == 9


def test_a_program_that_is_missing_is_told_as_a_launch_tells_it(job: Job) -> None:
    """127, in one sentence."""
    words = ("--hosts", HOST, "--exec", "--", "horovodrun", "./train")
    with running_agent(*job.words("launch"), *words) as agent:
        code, _, err = agent.end()

    assert code == 127
    assert 'cannot run "horovodrun": there is no such program' in err


def test_a_real_mpirun_runs_ranks_after_it(job: Job) -> None:
    """Over ssh, with our configuration."""
    mpirun = open_mpi_4()[0]
    words = ("--hosts", f"{HOST}:2", "--mpi", str(mpirun), "--exec", "--", "hostname")
    with running_agent(*job.words("launch"), *words) as agent:
        code, out, err = agent.end()

    assert code == 0, err
    assert len(out.splitlines()) == 2
