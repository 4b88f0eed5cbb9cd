"""A run on hosts without our agent: real launchers over plain sshd, asked and ended over ssh."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.stack import detect_stack
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_protocol import parse_line, render_call
from mpi_agent.ssh.worker_words import Call, LauncherId, Verb, Watching
from tests.builders import a_host_list, a_launch_request
from tests.farm import Farm, FarmHost, FarmOptions, Server
from tests.farm_launch import AGENTS, ALL_STACKS, farm_of, launcher_environ, rank_program
from tests.plain_errands import Errands, running_errands
from tests.plain_runs import a_run_id, running_mpirun
from tests.stacks import MpiStack, require_stack
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

RUN = a_run_id()
SLEEPS = ("sleep", "300")
_PRINTS_SIGNALS = "trap 'echo got USR1' USR1; echo ready; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide two workers with a plain sshd."""
    with farm_of(2, FarmOptions(server=Server.SSHD)) as running:
        yield running


def processes_of(host: FarmHost, *names: str) -> list[psutil.Process]:
    """Return the processes on a host that have one of these names."""
    namespace = os.readlink(f"/proc/{host.pid}/ns/pid_for_children")
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            is_there = os.readlink(f"/proc/{process.pid}/ns/pid") == namespace
        except OSError:
            continue
        if is_there and process.info["name"] in names:
            found.append(process)
    return found


def everything_on(farm: Farm) -> list[str]:
    """Return what of launchers and their programs is on the workers."""
    names = ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "sleep", "hydra_bstrap_pr")
    return [p.info["name"] for worker in farm.workers for p in processes_of(worker, *names)]


def wait_for_ranks(errands: Errands, count: int) -> None:
    """Wait until so many ranks are on each host."""
    wait_until(
        f"{count} ranks are on each host",
        lambda: [host["ranks"] for host in errands.ask("presence")] == [count, count],
    )


@ALL_STACKS
def test_ranks_and_daemons_are_counted_and_measured(farm: Farm, name: str) -> None:
    """By what the hosts' kernels say; each MPI has its own daemon and its own variables."""
    mpi = require_stack(name)
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, "sh", "-c", "while :; do :; done"),
    ):
        wait_for_ranks(errands, 2)

        presence = errands.ask("presence")
        wait_until("they used their CPU", lambda: least_cpu_s(errands) > 0.2)
        ranks = [[rank["rank"] for rank in host["ranks"]] for host in errands.ask("measure")]

        assert [host["daemons"] > 0 for host in presence] == [True, True]
        assert ranks == [[0, 1], [2, 3]]
        errands.ask("end")


def least_cpu_s(errands: Errands) -> float:
    """Return what the idlest rank has used."""
    used: list[float] = [r["cpu_s"] for host in errands.ask("measure") for r in host["ranks"]]
    return min(used, default=0.0)


@ALL_STACKS
def test_a_signal_reaches_every_rank_and_no_daemon(farm: Farm, name: str) -> None:
    """Directly, whatever mpirun would make of it."""
    mpi = require_stack(name)
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, "sh", "-c", _PRINTS_SIGNALS) as run,
    ):
        wait_until("all ranks listen", lambda: run.said.count("ready") == 4)

        passed = errands.ask("signal", "SIGUSR1")

        assert [host["ranks"] for host in passed] == [2, 2]
        wait_until("all ranks got it", lambda: run.said.count("got USR1") == 4)
        assert run.popen.poll() is None
        assert [host["daemons"] > 0 for host in errands.ask("presence")] == [True, True]
        errands.ask("end")


@ALL_STACKS
def test_nothing_is_left_where_mpirun_was_killed(farm: Farm, name: str) -> None:
    """Ranks that ignore TERM and their daemons are ended as well."""
    mpi = require_stack(name)
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, "sh", "-c", "trap '' TERM HUP; sleep 300; sleep 301") as run,
    ):
        wait_for_ranks(errands, 2)
        run.popen.kill()
        run.popen.wait()

        swept = errands.ask("end")

        assert all(host["answered"] and host["left"] == 0 for host in swept)
        assert everything_on(farm) == []
        assert errands.ask("end") == [
            {**host, "ended": 0, "killed": 0, "segments": 0} for host in swept
        ]


@ALL_STACKS
def test_shared_memory_of_ranks_that_are_ended_does_not_stay(farm: Farm, name: str) -> None:
    """The next attempt needs it; what others have there is theirs."""
    mpi = require_stack(name)
    for worker in farm.workers:
        assert worker.run("touch", "/dev/shm/mpich_shm_of_others_0").returncode == 0
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, *rank_program(mpi, farm.root, "--meet", "--hold")) as run,
    ):
        wait_until("all ranks have met", lambda: run.said.count('"world"') == 4, limit_s=60)
        run.popen.send_signal(signal.SIGSTOP)  # so that it does not tidy up either

        swept = errands.ask("end")

        assert all(host["left"] == 0 for host in swept)
        for worker in farm.workers:
            left = worker.run("ls", "/dev/shm").stdout.split()
            assert left == ["mpich_shm_of_others_0"]
        if name == "mpich5":
            assert [host["segments"] for host in swept] == [1, 1]


@ALL_STACKS
def test_the_next_attempt_ends_what_a_dead_launcher_left(farm: Farm, name: str) -> None:
    """Another container of the same job, or an earlier attempt; nobody else's run."""
    mpi = require_stack(name)
    next_pod = a_run_id(container="c-2")
    with (
        running_errands(farm, next_pod) as of_next_pod,
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, *SLEEPS) as run,
    ):
        wait_for_ranks(errands, 2)
        run.popen.send_signal(signal.SIGSTOP)  # a launcher that hangs, so that its daemons stay

        assert [host["ended"] for host in errands.ask("end former")] == [0, 0]
        swept = of_next_pod.ask("end former")

        assert all(host["ended"] >= 3 and host["left"] == 0 for host in swept)
        assert everything_on(farm) == []


@contextlib.contextmanager
def launcher_of(farm: Farm, run_id: RunId) -> Iterator[None]:
    """Hold a run on the first worker, as a launcher does that is connected to its agent."""
    launcher = LauncherId(name="pi-launcher-x7k2p", container="c-1")
    call = render_call(Call(verb=Verb.WATCH, launcher=launcher, run_id=str(run_id)))
    ssh = ("ssh", "-F", str(farm.ssh_config), farm.workers[0].name)
    with subprocess.Popen(
        [*farm.launcher.enter, *ssh, '/bin/sh "$MPI_AGENT_WORKER_CALL" watch'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=launcher_environ(),
    ) as popen:
        assert popen.stdin is not None
        assert popen.stdout is not None
        popen.stdin.write(call)
        popen.stdin.flush()
        assert isinstance(parse_line(popen.stdout.readline()), Watching)
        yield


def test_an_agent_ends_former_runs_but_none_whose_launcher_is_connected() -> None:
    """A pod that is told to end has its own time; one that died before it spoke is ended."""
    mpi = require_stack("openmpi4")
    next_pod = a_run_id(container="c-2")
    with (
        farm_of(1, AGENTS) as farm,
        running_errands(farm, next_pod) as of_next_pod,
        running_mpirun(farm, mpi, RUN, *SLEEPS),
    ):
        wait_until("the ranks are there", lambda: everything_on(farm).count("sleep") == 2)

        with launcher_of(farm, RUN):
            (spared,) = of_next_pod.ask("end former")
            assert (spared["answered"], spared["ended"], spared["left"]) == (True, 0, 0)
            assert everything_on(farm).count("sleep") == 2

        (swept,) = of_next_pod.ask("end former")
        assert (swept["ended"] >= 2, swept["left"]) == (True, 0)
        wait_until("nothing is left", lambda: everything_on(farm) == [])


def test_an_agent_ends_a_former_run_that_no_launcher_spoke_of() -> None:
    """The launcher was killed in the first moments of its launch."""
    mpi = require_stack("openmpi4")
    next_pod = a_run_id(container="c-2")
    with (
        farm_of(1, AGENTS) as farm,
        running_errands(farm, RUN) as errands,
        running_errands(farm, next_pod) as of_next_pod,
        running_mpirun(farm, mpi, RUN, *SLEEPS),
    ):
        wait_until("the ranks are there", lambda: everything_on(farm).count("sleep") == 2)

        assert [host["ended"] for host in errands.ask("end former")] == [0]
        (swept,) = of_next_pod.ask("end former")

        assert (swept["ended"] >= 2, swept["left"]) == (True, 0)
        wait_until("nothing is left", lambda: everything_on(farm) == [])


@contextlib.contextmanager
def silent_daemon(farm: Farm, worker: FarmHost, mpi: MpiStack) -> Iterator[None]:
    """Have something else started on a worker than the daemon, which says nothing and stays."""
    script = farm.root / "silent_daemon"
    script.write_text("#!/bin/sh\nexec sleep 300\n")
    script.chmod(0o755)
    path = os.path.realpath(daemon_of(mpi))
    assert worker.run("mount", "--bind", str(script), path).returncode == 0
    try:
        yield
    finally:
        assert worker.run("umount", path).returncode == 0


def daemon_of(mpi: MpiStack) -> str:
    """Return the path of what the launcher starts on a host."""
    stack = detect_stack(str(mpi.mpirun), called_as=None, search_path=())
    daemon = build_plan(a_launch_request(), a_host_list(), stack).daemon
    assert daemon is not None
    found = shutil.which(daemon)
    assert found is not None
    return found


@ALL_STACKS
def test_a_daemon_that_never_calls_back_is_named(farm: Farm, name: str) -> None:
    """All launchers wait for it for ever."""
    mpi = require_stack(name)
    silent = farm.workers[1]
    with (
        silent_daemon(farm, silent, mpi),
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, *SLEEPS) as run,
    ):
        family = "hydra" if mpi.is_hydra else "open mpi"

        why = errands.ask("deadline", "8", "4", family)

        assert run.popen.poll() is None, run.said
        assert why.startswith("no rank was seen 8 s after mpirun's start: ") or mpi.is_hydra
        assert f"{silent.name}: no daemon" in why
        run.popen.kill()
        errands.ask("end")


@pytest.mark.parametrize("name", ["mpich4", "mpich5"])
def test_a_host_that_cannot_run_the_program_is_named(farm: Farm, name: str) -> None:
    """MPICH waits for ever for its ranks, and so do all others."""
    program = "/run/only_on_the_first"
    assert farm.workers[0].run("cp", "/bin/sleep", program).returncode == 0
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, require_stack(name), RUN, program, "300") as run,
    ):
        why = errands.ask("deadline", "6", "4", "hydra")

        missing = f"{farm.workers[1].name}: no daemon"
        assert run.popen.poll() is None, run.said
        assert why == f"ranks were missing 6 s after mpirun's start: {missing}"
        run.popen.kill()
        errands.ask("end")


@ALL_STACKS
def test_ranks_that_are_done_on_one_host_are_no_late_start(farm: Farm, name: str) -> None:
    """However soon; a program without MPI may go on elsewhere for hours."""
    mpi = require_stack(name)
    text = 'case "$PMI_RANK$OMPI_COMM_WORLD_RANK" in 0|1) sleep 0.5;; *) while :; do :; done;; esac'
    with (
        running_errands(farm, RUN) as errands,
        running_mpirun(farm, mpi, RUN, "sh", "-c", text),
    ):
        family = "hydra" if mpi.is_hydra else "open mpi"

        assert errands.ask("deadline", "5", "4", family) is None
        errands.ask("end")
