"""The lines that plain hosts are asked to run, by the shells and tools that images have."""

from __future__ import annotations

import asyncio
import mmap
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.run.host_listing import RunOnHost, read_listing, run_on_host
from mpi_agent.run.host_scripts import (
    CLEANED_MARK,
    Target,
    clean_line,
    end_line,
    list_line,
    remove_line,
    segments_line,
    signal_line,
)
from mpi_agent.run.host_segments import read_segments, stale_segments
from mpi_agent.run.own_ranks import OwnRanks
from mpi_agent.run_id import RunId
from tests.waiting import wait_until
from tests.workers import LIMIT_S, require_program

pytestmark = pytest.mark.integration

RUN = RunId(job="0" * 8, container="1" * 8, launch=os.urandom(4).hex(), attempt=1)
IGNORES_TERM = "trap '' TERM; while :; do sleep 0.1; done"
APPLETS = ("cat", "grep", "ls", "rm", "sleep", "tr")


class Shell:
    """A way to run a line: a shell in place of /bin/sh, and where its tools are."""

    def __init__(self, words: tuple[str, ...], path: str) -> None:
        self._words = words
        self._path = path

    def run(self, line: str, **environ: str) -> str:
        """Return what the line prints; it must say nothing on its standard error."""
        before, sh, script = line.partition("/bin/sh ")
        assert (before, sh) == ("", "/bin/sh ")
        ended = subprocess.run(
            [*self._words, *shlex.split(script)],
            env={"PATH": self._path, **environ},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.stderr == ""
        return ended.stdout

    def run_of(self, run_id: RunId) -> RunOnHost:
        """Return what of a run is on this machine."""
        return run_on_host(read_listing(self.run(list_line())), str(run_id).__eq__)


@pytest.fixture(params=["dash", "bash", "busybox", "grep that knows no zero bytes"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """Give each shell; that of busybox with the tools of busybox."""
    kind: str = request.param
    if kind == "busybox":
        busybox = require_program("busybox")
        for applet in APPLETS:
            (tmp_path / applet).symlink_to(busybox)
        return Shell((busybox, "sh"), str(tmp_path))
    if kind in ("dash", "bash"):
        return Shell((require_program(kind),), os.environ["PATH"])
    grep = tmp_path / "grep"
    grep.write_text(
        f'#!/bin/sh\ncase "$1" in -z*) exit 2;; esac\nexec {require_program("grep")} "$@"\n'
    )
    grep.chmod(0o755)
    return Shell((require_program("dash"),), f"{tmp_path}:{os.environ['PATH']}")


@pytest.fixture
def ranks() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Give two ranks: one is a shell around its program, one ignores TERM."""
    started = [
        subprocess.Popen(
            ["sh", "-c", script],
            env={
                "PATH": os.environ["PATH"],
                "LINES": "one\ntwo",
                "MPI_AGENT_RUN_ID": str(RUN),
                "PMI_RANK": str(number),
            },
            start_new_session=True,
        )
        for number, script in enumerate(("sleep 600; true", IGNORES_TERM))
    ]
    try:
        yield started
    finally:
        for popen in started:
            if popen.poll() is None:
                os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()


def wait_for_children(shell: Shell) -> RunOnHost:
    """Return the run once each rank has started what it starts."""
    wait_until("all are there", lambda: len(shell.run_of(RUN).members) >= 4)
    return shell.run_of(RUN)


def test_processes_of_a_run_are_found(shell: Shell, ranks: list[subprocess.Popen[bytes]]) -> None:
    """With their ranks, and what they started; and none of another run."""
    run = wait_for_children(shell)

    assert sorted(top.pid for top in run.leaders) == sorted(popen.pid for popen in ranks)
    assert [rank for rank, _ in run.cpu_by_rank()] == [0, 1]
    assert shell.run_of(RunId(job="f" * 8, container="f" * 8, launch="f" * 8, attempt=1)) == (
        RunOnHost(daemons=(), leaders=(), members=(), rank_of={})
    )


def test_a_signal_goes_to_the_group_of_each_rank(
    shell: Shell, ranks: list[subprocess.Popen[bytes]]
) -> None:
    """So a shell around the program does not keep it."""
    run = wait_for_children(shell)

    answer = shell.run(signal_line(run.rank_targets, "USR1"))

    assert "sent=2\n" in answer
    assert [popen.wait(LIMIT_S) for popen in ranks] == [-signal.SIGUSR1] * 2
    assert "sent=0\n" in shell.run(signal_line(run.rank_targets, "USR1"))


def test_processes_end_by_term_and_those_that_ignore_it_by_kill(
    shell: Shell, ranks: list[subprocess.Popen[bytes]]
) -> None:
    """A pid that is somebody else's by now is spared."""
    run = wait_for_children(shell)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        reused = Target(pid=bystander.pid, started_ticks=1)

        answer = shell.run(end_line([*run.targets, reused], grace_s=0.5))

        is_spared = bystander.poll() is None
        bystander.kill()
    assert is_spared
    assert [popen.wait(LIMIT_S) for popen in ranks] == [-signal.SIGTERM, -signal.SIGKILL]
    assert f"killed={ranks[1].pid}\n" in answer
    assert f"killed={ranks[0].pid}\n" not in answer
    wait_until("its last sleep is over", lambda: not shell.run_of(RUN).members)


def test_segments_of_a_run_are_removed_once_nobody_has_them_open(shell: Shell) -> None:
    """One that is open somewhere is in use."""
    name = f"mpich_shm_{os.urandom(4).hex()}"
    stale, used = f"{name}_0", f"{name}_1"
    paths = [Path("/dev/shm") / each for each in (stale, used)]
    try:
        with paths[1].open("w+b") as mine, paths[0].open("wb"):
            before = read_segments(shell.run(segments_line()))
            os.ftruncate(mine.fileno(), 4096)
            mapped = mmap.mmap(mine.fileno(), 4096)
        now = read_segments(shell.run(segments_line()))

        answer = shell.run(remove_line(stale_segments([stale, used], now)))

        mapped.close()
        assert before.used({os.getpid()}) >= {stale, used}
        assert answer.count("removed=1\n") == 1
        assert [path.exists() for path in paths] == [False, True]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def test_an_agents_answer_comes_back_and_silence_where_there_is_none(
    shell: Shell, tmp_path: Path
) -> None:
    """The program gets its call as one word, whatever the shell makes of quotes."""
    line = clean_line(RUN)
    call = tmp_path / "a worker-call"
    call.write_text('printf "%s" "$#:$1:$2"\n')

    assert CLEANED_MARK not in shell.run(line)
    assert CLEANED_MARK not in shell.run(line, MPI_AGENT_WORKER_CALL=f"{call}-that-is-gone")
    answer = shell.run(line, MPI_AGENT_WORKER_CALL=str(call))
    assert f'{CLEANED_MARK}2:clean:{{"verb":"clean","run_id":"{RUN}"}}\n' in answer


def test_ranks_of_the_launchers_own_container_are_told_and_ended_without_ssh(
    ranks: list[subprocess.Popen[bytes]],
) -> None:
    """They descend from the launcher; what is left of a run is found wherever it is."""
    own = OwnRanks("pi-launcher", RUN)
    wait_until("both are there", lambda: own.presence().ranks == 2)

    assert [rank.rank for rank in own.measure().ranks] == [0, 1]
    assert own.pass_signal(signal.SIGCONT).ranks == 2
    swept = asyncio.run(own.end())

    assert swept.left == 0
    assert swept.ended >= 2
    assert [popen.wait(LIMIT_S) for popen in ranks] == [-signal.SIGTERM, -signal.SIGKILL]
    assert own.presence().had_ranks
