"""Every byte of a fast program comes out where ssh is OpenSSH's own and stdout is a pipe.

OpenSSH makes the stdout that it is given non-blocking, for its caller too. Open MPI 5 gives it its
own, and drops what a full pipe does not take.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.container import own_account
from mpi_agent.setting_words import Backend
from mpi_agent.ssh.installed import apart_command, write_client
from mpi_agent.state import StateDirectory
from tests.farm import Farm, FarmOptions
from tests.farm_launch import LAUNCH_LIMIT_S, agent_words, farm_of, launcher_environ
from tests.stacks import MpiStack, require_stack
from tests.workers import LIMIT_S, require_program

pytestmark = pytest.mark.integration

LINE_BYTES, LINES, RANKS = 9906, 2100, 2
WRITES_MUCH = f"import os\nfor _ in range({LINES}): os.write(1, b'x' * {LINE_BYTES - 1} + b'\\n')"
ALL_BYTES = LINE_BYTES * LINES * RANKS
"""41 MB"""
PLAIN_SSH = ("mpirun", "--prtemca", "plm_ssh_agent", "ssh")
_READER_BEGINS_AFTER_S = 3.0
_ANY_PIPE = """\
import fcntl, os, sys
flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (1, 2)]
for fd in (1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, flags[fd - 1] | os.O_NONBLOCK)
os.write(1, b"out"); os.write(2, " ".join(sys.argv[1:]).encode())
"""


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide two workers with an sshd of their image, dialled by OpenSSH's client."""
    with farm_of(2, FarmOptions()) as farm:
        yield farm


def bytes_that_come(words: tuple[str, ...]) -> tuple[int, int, str]:
    """Return the code, how much came through a pipe that is read late, and what was said."""
    with subprocess.Popen(
        words,
        env=launcher_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        try:
            assert agent.stdout is not None
            time.sleep(_READER_BEGINS_AFTER_S)  # the slow reader; nothing is waited for
            count = 0
            while block := os.read(agent.stdout.fileno(), 65536):
                count += len(block)
            _, said = agent.communicate(timeout=LAUNCH_LIMIT_S)
        finally:
            agent.kill()
    return agent.returncode, count, said.decode(errors="replace")


def words_of(
    farm: Farm, mpi: MpiStack, *options: str, line: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return a launch of two ranks, one on each worker, that write much."""
    hosts = ",".join(f"{worker.name}:1" for worker in farm.workers)
    agent = agent_words(farm, mpi, "--hosts", hosts, "--ssh", "openssh", *options)
    return (*farm.launcher.enter, *agent, *line, sys.executable, "-c", WRITES_MUCH)


@pytest.mark.parametrize("options", [(), ("--exec",), ("--no-defaults",)], ids=" ".join)
def test_open_mpi_5_loses_no_byte(farm: Farm, options: tuple[str, ...]) -> None:
    """Supervised or not, three times each."""
    words = words_of(farm, require_stack("openmpi5"), *options)

    for _ in range(3):
        code, count, said = bytes_that_come(words)

        assert (code, count) == (0, ALL_BYTES), said


def test_by_an_ssh_that_shares_its_stdout_it_does(farm: Farm) -> None:
    """Else the test above would show nothing; mpirun then ends with 0 all the same."""
    words = words_of(farm, require_stack("openmpi5"), "--exec", line=PLAIN_SSH)

    counts = [bytes_that_come(words)[1] for _ in range(2)]

    assert min(counts) < ALL_BYTES, counts


class Client:
    """The file that launchers call for OpenSSH's client, with a program of the test in its place.

    The program makes its streams non-blocking, as OpenSSH does, and tells its arguments on stderr.
    """

    def __init__(self, directory: Path) -> None:
        state = StateDirectory(directory)
        write_client(Backend.OPENSSH, own_account(), state)
        (directory / "ssh_client").chmod(0o600)  # as on a volume where nothing can be executed
        programs = directory / "programs"
        programs.mkdir()
        (programs / "ssh").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(_ANY_PIPE)} "$@"\n'
        )
        (programs / "ssh").chmod(0o700)
        self._words = (*apart_command(state).split(" "), "pi-worker-0", "a b")
        self._environ = {"PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, *, stdout: int, stderr: int) -> int:
        """Run it to its end; return its code."""
        return subprocess.run(
            self._words,
            env=self._environ,
            stdout=stdout,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        ).returncode


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Provide one."""
    require_program("sh")
    return Client(tmp_path)


def test_pipes_of_the_caller_stay_as_they_are(client: Client) -> None:
    """Both of them, and the client writes to them all the same."""
    (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()

    code = client.run(stdout=out_w, stderr=err_w)

    assert code == 0
    assert os.get_blocking(out_w)
    assert os.get_blocking(err_w)
    for fd in (out_w, err_w):
        os.close(fd)
    assert os.read(out_r, 100) == b"out"
    assert os.read(err_r, 100) == b"-x pi-worker-0 a b"
    for fd in (out_r, err_r):
        os.close(fd)


def test_a_pipe_that_nobody_reads_does_not_hold_the_client_up(client: Client) -> None:
    """It is told by its own write, and not while the shell opens the pipe again."""
    reading, writing = os.pipe()
    os.close(reading)

    code = client.run(stdout=writing, stderr=subprocess.DEVNULL)

    os.close(writing)
    assert code != 0


def test_files_and_sockets_are_left_alone(client: Client, tmp_path: Path) -> None:
    """A file is neither cut nor begun anew, and a socket cannot be opened again."""
    log = tmp_path / "log"
    log.write_text("before ")
    ours, its = socket.socketpair()
    with ours, its, log.open("ab") as file:
        code = client.run(stdout=file.fileno(), stderr=its.fileno())

        assert code == 0
        assert ours.recv(100) == b"-x pi-worker-0 a b"
    assert log.read_text() == "before out"
