"""What a real worker tells its launcher of a real mpirun's ranks, and what it does to them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from mpi_agent.ssh.worker_protocol import parse_line, render_call, render_line
from mpi_agent.ssh.worker_words import (
    Call,
    Farewell,
    LauncherId,
    Line,
    Measure,
    Over,
    PassSignal,
    Presence,
    RankGone,
    Restarting,
    Signalled,
    Swept,
    Usage,
    Verb,
    Watching,
)
from mpi_agent.variable_names import RUN_ID_VARIABLE
from tests.stacks import STACK_NAMES, MpiStack, require_stack
from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    RunningWorker,
    require_program,
    running_worker,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

RUN_ID = "0badcafe.1badcafe.2badcafe.1"
HOST = "pi-worker-0"
OBEYS = """#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
trap 'echo saved >>"$0.$rank"' USR1
trap 'kill $!; exit 7' USR2
echo "pid $$" >>"$0.$rank"
while :; do sleep 0.2 & wait; done
"""
_Kind = TypeVar("_Kind", bound=Line)


class Watch:
    """A launcher's conversation with a worker."""

    def __init__(self, worker: RunningWorker) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(worker.state / "worker.sock"))
        self._lines = self._socket.makefile("rb")
        call = Call(
            verb=Verb.WATCH, launcher=LauncherId(name="pi-launcher", container="a"), run_id=RUN_ID
        )
        self._socket.sendall(render_call(call))
        self.watching = self.hear(Watching)

    def say(self, line: Line) -> None:
        """Say a line."""
        self._socket.sendall(render_line(line))

    def hear(self, kind: type[_Kind]) -> _Kind:
        """Return the next line of a kind; others are passed over."""
        while raw := self._lines.readline():
            line = parse_line(raw)
            if isinstance(line, kind):
                return line
        raise AssertionError(f"the worker never said {kind.__name__}")

    def hear_of_both_ranks(self) -> Presence:
        """Return what is told once both ranks are there, with a daemon or two."""
        while (presence := self.hear(Presence)).ranks != 2:
            pass
        assert presence.daemons in (1, 2)
        return presence

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()


@pytest.fixture
def watch(worker: RunningWorker) -> Iterator[Watch]:
    """Give a conversation that holds the run on the worker."""
    one = Watch(worker)
    yield one
    one.close()


@pytest.fixture
def worker(root: Path, keys: JobKeys) -> Iterator[RunningWorker]:
    """Give a worker that is ready."""
    require_program("ssh")
    with running_worker(keys, root, name=HOST) as one:
        yield one


@contextlib.contextmanager
def running_mpirun(
    stack: MpiStack, root: Path, keys: JobKeys, worker: RunningWorker
) -> Iterator[tuple[psutil.Process, ...]]:
    """Start two ranks on the worker; provide their shells in order of ranks."""
    script = root / "program"
    script.write_text(OBEYS)
    script.chmod(0o755)
    client = root / "client"
    client.write_text(f'#!/bin/sh\nexec ssh -F {write_ssh_config(keys, root, (worker,))} "$@"\n')
    client.chmod(0o755)
    words = (*mpirun_words(stack, root, client), "-np", "2", str(script))
    environ = {**os.environ, RUN_ID_VARIABLE: RUN_ID}
    with subprocess.Popen(words, env=environ, stdin=subprocess.DEVNULL) as mpirun:
        try:
            files = [Path(f"{script}.{rank}") for rank in (0, 1)]
            wait_until("both ranks run", lambda: all(one.exists() for one in files), limit_s=60.0)
            wait_until("both say so", lambda: all("\n" in one.read_text() for one in files))
            yield tuple(psutil.Process(int(one.read_text().split()[1])) for one in files)
        finally:
            mpirun.kill()


def mpirun_words(stack: MpiStack, root: Path, client: Path) -> tuple[str, ...]:
    """Return how an mpirun is told of the worker and of the way to it."""
    if stack.is_hydra:
        (root / "hosts").write_text(f"{HOST}:2\n")
        bootstrap = "bootstrap" if stack.name == "intelmpi" else "launcher"
        how = (f"-{bootstrap}", "ssh", f"-{bootstrap}-exec", str(client))
        return (str(stack.mpirun), *how, "-f", str(root / "hosts"), "-ppn", "2")
    (root / "hosts").write_text(f"{HOST} slots=2\n")
    agent = (
        ("--mca", "plm_rsh_agent") if stack.name == "openmpi4" else ("--prtemca", "plm_ssh_agent")
    )
    more = ("--allow-run-as-root", "--bind-to", "none", "--hostfile", str(root / "hosts"))
    return (str(stack.mpirun), *more, *agent, str(client))


@pytest.mark.parametrize("name", STACK_NAMES)
def test_a_launcher_hears_of_its_ranks_tells_them_and_measures_them(
    name: str, root: Path, keys: JobKeys, worker: RunningWorker, watch: Watch
) -> None:
    """Whichever MPI started them: two that are there, one that ended by a code of its own."""
    with running_mpirun(require_stack(name), root, keys, worker) as ranks:
        present = watch.hear_of_both_ranks()
        assert watch.watching.container
        watch.say(PassSignal(signal_name="SIGUSR1"))
        assert watch.hear(Signalled) == Signalled(ranks=present.ranks)
        for rank in (0, 1):
            wait_until("it has saved", lambda r=rank: "saved" in said(root, r))  # type: ignore[misc]
        watch.say(Measure())
        usage = watch.hear(Usage)
        assert usage.rank_numbers == (0, 1)

        ranks[1].send_signal(signal.SIGUSR2)

        gone = watch.hear(RankGone)
        assert (gone.rank, gone.signal) == (1, None)
        assert gone.code in (7, None)


def said(root: Path, rank: int) -> str:
    """Return what a rank wrote."""
    return (root / f"program.{rank}").read_text()


@pytest.mark.parametrize("ending", [Over, Restarting])
def test_what_is_left_of_a_run_is_ended_counted_and_said_in_the_log(
    ending: type[Over | Restarting], root: Path, keys: JobKeys, worker: RunningWorker, watch: Watch
) -> None:
    """The log of a worker survives its launcher's."""
    with running_mpirun(require_stack("openmpi4"), root, keys, worker) as ranks:
        watch.hear_of_both_ranks()
        watch.say(ending(exit_code=201, summary="workers lost: pi-worker-3 lost after 2 h 14 min"))

        swept = watch.hear(Swept)
        assert swept.ended >= len(ranks)
        assert swept.left == 0
        watch.hear(Farewell)
        assert not any(rank.is_running() for rank in ranks)
    then = "; it is begun again" if ending is Restarting else ""
    assert (
        f"a run ended run_id={RUN_ID} code=201{then}:"
        " workers lost: pi-worker-3 lost after 2 h 14 min" in worker.log.read_text()
    )


def test_nothing_false_is_told_after_a_worker_was_frozen(
    root: Path, keys: JobKeys, worker: RunningWorker, watch: Watch
) -> None:
    """What is told afterwards is what is there."""
    with running_mpirun(require_stack("openmpi4"), root, keys, worker) as ranks:
        watch.hear_of_both_ranks()
        worker.popen.send_signal(signal.SIGSTOP)
        watch.say(Measure())
        ranks[0].send_signal(signal.SIGUSR1)
        wait_until("the rank goes on", lambda: "saved" in said(root, 0))
        worker.popen.send_signal(signal.SIGCONT)

        heard = watch.hear(Line)
        assert isinstance(heard, Usage)
        ranks[1].kill()
        gone = watch.hear(Line)
        assert isinstance(gone, RankGone)
        assert gone.rank == 1
