"""Which processes belong to a run, told from real ones; and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.job_processes import (
    JobProcess,
    find_job_processes,
    rank_usage,
    signal_ranks,
    usage_by_rank,
)
from mpi_agent.process_signals import Ended, end_processes
from mpi_agent.variable_names import RUN_ID_VARIABLE
from tests.bounded_root import STRANGER, said_without_cap_kill
from tests.stacks import STACK_NAMES, require_stack
from tests.waiting import wait_until
from tests.workers import LIMIT_S, require_program

pytestmark = pytest.mark.integration

LONG = "sleep 600; true"
OPEN_MPI = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "3", "OMPI_COMM_WORLD_RANK": "3"}
HYDRA = {"PMI_RANK": "3", "MPI_LOCALRANKID": "1"}

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts a shell with a clean environment; all below it end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def starts(script: str, **variables: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            ["sh", "-c", script],
            env={"PATH": os.environ["PATH"], **variables},
            start_new_session=True,
        )
        started.append(child)
        return child

    yield starts
    for child in started:
        for process in reversed(found()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def found(run_id: str | None = None) -> tuple[JobProcess, ...]:
    """Return the processes of runs below the tests', or those of one run."""
    processes = find_job_processes(below=os.getpid()).processes
    return tuple(p for p in processes if run_id in (None, p.run_id))


def pids() -> tuple[int, ...]:
    """Return the pids of all processes of runs below the tests'."""
    return tuple(process.pid for process in found())


def found_when(count: int) -> tuple[JobProcess, ...]:
    """Return the processes of runs as soon as there are so many."""
    wait_until(f"{count} processes of runs", lambda: len(found()) == count)
    return found()


def a_daemon(*ranks: str) -> str:
    """Return a script that starts one rank for each script, each in a process group of its own."""
    lines = (
        f"PMI_RANK={number} MPI_LOCALRANKID={number} setsid sh -c {shlex.quote(script)} &"
        for number, script in enumerate(ranks)
    )
    return f"{' '.join(lines)} wait"


@pytest.mark.parametrize("variables", [OPEN_MPI, HYDRA], ids=["Open MPI", "Hydra"])
def test_a_rank_is_known_by_the_variables_of_its_launcher(
    start: Start, variables: dict[str, str]
) -> None:
    """Without a run's id too; its children are of the same rank and do not lead it."""
    shell = start(LONG, **variables)

    first, second = found_when(2)

    assert (first.pid, first.rank, first.local_rank, first.run_id) == (shell.pid, 3, 1, None)
    assert (second.rank, second.local_rank) == (3, 1)
    assert (first.leads_rank, second.leads_rank) == (True, False)


def test_daemons_are_of_the_run_and_of_no_rank(start: Start) -> None:
    """They carry the run's id and hand it to the ranks."""
    daemon = start(a_daemon(LONG, LONG), **{RUN_ID_VARIABLE: "run-1"})

    processes = found_when(5)

    assert {process.run_id for process in processes} == {"run-1"}
    assert [p.pid for p in processes if p.rank is None] == [daemon.pid]
    assert sorted(p.rank for p in processes if p.leads_rank and p.rank is not None) == [0, 1]


def test_what_a_rank_starts_is_of_the_rank_without_any_variable(start: Start) -> None:
    """As is a program that wrote its title over its environment."""
    start("env -i sleep 600; true", **{**OPEN_MPI, RUN_ID_VARIABLE: "run-1"})

    _, bare = found_when(2)

    assert (bare.run_id, bare.rank, bare.leads_rank) == ("run-1", 3, False)


def test_sessions_without_an_id_and_a_rank_are_nobodys(start: Start) -> None:
    """A shell that somebody opened by hand stays; two runs are told apart."""
    start(LONG, USER="somebody", OMPI_COMM_WORLD_RANK="", PMI_RANK="none")
    start(LONG, **{RUN_ID_VARIABLE: "run-1"})
    start(LONG, **{RUN_ID_VARIABLE: "run-2"})

    found_when(4)

    assert [len(found(run_id)) for run_id in ("run-1", "run-2", "run-3")] == [2, 2, 0]


def test_a_number_that_no_rank_can_have_is_none(start: Start) -> None:
    """Anybody may set any variable; Python refuses to read more than 4,300 digits."""
    start(LONG, OMPI_COMM_WORLD_RANK="1" * 5000, PMIX_RANK="\u0661", PMI_RANK="3")

    first, _ = found_when(2)

    assert (first.rank, first.local_rank) == (3, None)


def test_an_id_that_is_too_long_is_not_that_of_another_run(start: Start) -> None:
    """Nobody could begin that run, and nothing of it may be ended for another one."""
    longest = "r" * 128
    start(LONG, **{RUN_ID_VARIABLE: longest})
    start(LONG, **{RUN_ID_VARIABLE: longest + "r"})
    start(LONG, **{RUN_ID_VARIABLE: longest + "s"})

    found_when(6)

    assert len(found(longest)) == 2


def test_zombies_are_not_found(start: Start) -> None:
    """They have ended; nobody has asked yet."""
    rank = start(LONG, **OPEN_MPI)
    found_when(2)
    os.killpg(rank.pid, signal.SIGKILL)

    assert found_when(0) == ()
    assert rank.returncode is None


def test_processes_of_others_are_counted_when_their_environment_is_closed_to_us(
    start: Start,
) -> None:
    """A sidecar under another account must say so."""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    start(LONG, **OPEN_MPI)
    found_when(2)
    program = (
        "import os; from mpi_agent.job_processes import find_job_processes;"
        " os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        f" found = find_job_processes(below={os.getpid()});"
        " print(found.unreadable >= 2, len(found.processes))"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )

    assert said.stdout.split() == ["True", "0"]


def test_processes_that_the_kernel_hides_are_not_there(start: Start) -> None:
    """With hidepid=1 they are listed, and nothing of them can be read."""
    if os.getuid() != 0:
        pytest.skip("only root can mount /proc anew")
    require_program("unshare")
    start(LONG, **OPEN_MPI)
    found_when(2)
    program = (
        "import os; from mpi_agent.job_processes import find_job_processes;"
        " from mpi_agent.process_table import stat_of;"
        " os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        " print(len(find_job_processes().processes), stat_of(1), stat_of(os.getpid()).pid > 0)"
    )
    mounts = 'mount -t proc -o hidepid=1 proc /proc || exit 77; exec "$0" -c "$1"'
    argv = ("unshare", "--mount", "sh", "-c", mounts, sys.executable, program)

    said = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    if said.returncode == 77:
        pytest.skip("this container may not mount /proc")
    assert said.stdout.split() == ["0", "None", "True"], said.stderr


def test_a_signal_reaches_each_rank_behind_its_shell_and_no_daemon(
    start: Start, tmp_path: Path
) -> None:
    """A shell around the program would keep it; the daemon must live to report the end."""
    writes = 'trap "echo got >$0; exit" USR1; echo up >$0.up; while :; do sleep 0.05; done'
    marks = [tmp_path / "0", tmp_path / "1"]
    daemon = start(
        a_daemon(*(f"sh -c {shlex.quote(writes)} {mark}; true" for mark in marks)),
        **{RUN_ID_VARIABLE: "run-1"},
    )
    for mark in marks:
        wait_until("the rank is up", mark.with_name(f"{mark.name}.up").exists)

    assert signal_ranks(found("run-1"), signal.SIGUSR1) == 2

    for mark in marks:
        wait_until("the program got the signal", mark.exists)
    wait_until("the daemon saw its ranks end", lambda: daemon.poll() is not None)
    assert daemon.returncode == 0


def test_a_rank_in_the_group_of_its_daemon_is_signalled_alone(start: Start) -> None:
    """The group is not its own."""
    start(f"PMI_RANK=0 {LONG.partition(';')[0]} & wait; sleep 600", **{RUN_ID_VARIABLE: "run-1"})
    found_when(2)

    assert signal_ranks(found(), signal.SIGTERM) == 1

    wait_until("the rank is gone", lambda: all(p.rank is None for p in found()))
    assert len(found_when(2)) == 2


def test_a_pid_that_somebody_else_got_is_left_alone(start: Start) -> None:
    """The start tells it."""
    start(LONG, **OPEN_MPI)
    processes = tuple(replace(p, started_at_s=p.started_at_s - 1) for p in found_when(2))

    assert signal_ranks(processes, signal.SIGKILL) == 0
    assert [rank_usage(process) for process in processes] == [None, None]
    assert len(found_when(2)) == 2


def ended(grace_s: float) -> Ended:
    """Return how all processes of runs below the tests' went."""
    return asyncio.run(end_processes(pids, grace_s=grace_s))


def test_processes_that_heed_term_are_not_killed(start: Start) -> None:
    """Nor is the grace period waited for."""
    start(a_daemon(LONG, LONG), **{RUN_ID_VARIABLE: "run-1"})
    found_when(5)

    assert ended(grace_s=LIMIT_S) == Ended(count=5, killed=0)
    assert found() == ()


def test_processes_that_ignore_term_are_killed_after_the_grace_period(start: Start) -> None:
    """A shell hands that down to what it starts."""
    start(f'trap "" TERM; {LONG}', **OPEN_MPI)
    start(LONG, **HYDRA)
    found_when(4)

    assert ended(grace_s=0.3) == Ended(count=4, killed=2)
    assert found() == ()


def test_what_appears_during_the_grace_period_ends_too(start: Start) -> None:
    """A rank may start something when it is told to end."""
    start(f"trap {shlex.quote(f'{LONG} & exit')} TERM; sleep 600 & wait", **OPEN_MPI)
    found_when(2)

    assert ended(grace_s=LIMIT_S).killed == 0
    assert found() == ()


def test_what_may_not_be_signalled_is_left_and_not_killed() -> None:
    """Whoever asks must know that it is still there."""
    script = f"""
import asyncio, os, subprocess, sys
from mpi_agent.process_signals import end_processes

def start(script):
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    child.stdout.readline()
    return child

ours = start("import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True);"
             " time.sleep(15)")
stranger = start("{STRANGER} print(flush=True); time.sleep(15)")
print(asyncio.run(end_processes(lambda: [ours.pid, stranger.pid], grace_s=0.1)))
"""
    assert said_without_cap_kill(script) == f"{Ended(count=2, killed=1, left=1)}\n"


def test_nothing_to_end_takes_no_time() -> None:
    """As on most workers after most runs."""
    assert ended(grace_s=LIMIT_S) == Ended(count=0, killed=0)


def test_a_rank_used_what_its_shell_and_its_program_used(start: Start) -> None:
    """By rank, the shell first."""
    start("while :; do :; done & wait", **OPEN_MPI)
    start(LONG, **HYDRA | {"PMI_RANK": "1"})
    found_when(4)
    wait_until("the busy rank took CPU time", lambda: usage_by_rank(found())[1].cpu_s > 0.1)

    idle, busy = usage_by_rank(found())

    assert (idle.rank, busy.rank, busy.local_rank) == (1, 3, 1)
    assert busy.pid in [process.pid for process in found() if process.leads_rank]
    assert idle.cpu_s < busy.cpu_s
    leader = next(usage for p in found() if p.leads_rank and (usage := rank_usage(p)))
    assert 0 < leader.memory_bytes < busy.memory_bytes


@pytest.mark.parametrize("name", STACK_NAMES)
def test_every_launcher_tells_its_ranks_their_numbers(name: str) -> None:
    """And makes each lead a process group, behind which its shell cannot keep a signal."""
    stack = require_stack(name)
    require_program("setsid")
    root = () if stack.is_hydra else ("--allow-run-as-root", "--oversubscribe")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PRTE_", "PMI"))}
    argv = (str(stack.mpirun), *root, "-np", "2", "sh", "-c", LONG)
    with subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL) as mpirun:
        ranks = found_when(4)
        groups = {os.getpgid(process.pid) for process in ranks}
        leaders = {process.pid for process in ranks if process.leads_rank}
        local = sorted((p.rank, p.local_rank) for p in ranks if p.leads_rank)
        signal_ranks(ranks, signal.SIGTERM)
        mpirun.wait(timeout=LIMIT_S)

    assert local == [(0, 0), (1, 1)]
    assert groups == leaders
