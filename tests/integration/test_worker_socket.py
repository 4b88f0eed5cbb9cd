"""The socket of a worker's agent: who reaches it, and what becomes of whoever talks nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.errors import SettingsError
from mpi_agent.job.events import Noted
from mpi_agent.job.worker_events import LauncherGone
from mpi_agent.ssh.worker_protocol import LONGEST_LINE_BYTES, render_call
from mpi_agent.ssh.worker_words import Alive, Call, Cleaned, Refused, Verb
from mpi_agent.state import open_state_directory
from mpi_agent.worker.local_socket import listen_at
from tests.served_control import PI, Served, run, serve_and, serving, until

pytestmark = pytest.mark.integration

NOBODY = 65534


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"GET /status HTTP/1.1\r\n", "is not JSON"),
        (b'{"verb":"stop"}\n', "there is no verb 'stop'"),
        (b'{"verb":"watch","run_id":"a"}\n', "watch needs a launcher and a run_id"),
        (b"\x00\xff\n", "is not JSON"),
        (b"\n", "is not JSON"),
        (b"[" * 60000 + b"\n", "is not JSON"),
        (b"x" * (3 * LONGEST_LINE_BYTES), "the line is too long"),
        (b"x" * (3 * LONGEST_LINE_BYTES) + b"\n", "the line is too long"),
    ],
)
def test_garbage_is_refused_in_one_line(tmp_path: Path, raw: bytes, why: str) -> None:
    """And the worker is there for the next one."""

    async def talk(served: Served) -> None:
        caller = await served.connect()
        caller.writer.write(raw)
        (refused,) = await caller.hear_all()

        assert isinstance(refused, Refused)
        assert why in refused.why
        assert await served.ask_clean(PI) == [Cleaned(ended=0, killed=0)]
        await caller.hang_up()

    serve_and(talk, tmp_path / "state")


def test_garbage_in_a_watch_ends_the_conversation_and_not_the_ranks(tmp_path: Path) -> None:
    """Its launcher may come back; a line of a kind that is not known is passed over."""

    async def watch(served: Served) -> None:
        caller = await served.watch()
        caller.writer.write(b'{"kind":"weather"}\n{"kind":"alive"}\n{"kind":"over"}\n')

        assert await caller.hear_all() == [Alive(), Refused(why="Over lacks exit_code")]
        assert served.ending.asked == []
        assert len(served.events(LauncherGone)) == 1
        await served.watch()

    serve_and(watch, tmp_path / "state")


def test_whoever_says_nothing_is_refused_after_a_while(tmp_path: Path) -> None:
    """So is whoever never ends his line."""

    async def wait() -> None:
        async with serving(tmp_path / "state", call_limit_s=0.1) as served:
            silent, slow = await served.connect(), await served.connect()
            slow.writer.write(b'{"verb"')

            for caller in (silent, slow):
                assert await caller.hear_all() == [Refused(why="no call within 0.1 s")]

    run(wait())


def test_whoever_hangs_up_without_a_word_does_no_harm(tmp_path: Path) -> None:
    """A port scanner of the file system."""

    async def hang_up(served: Served) -> None:
        for _ in range(5):
            await (await served.connect()).hang_up()

        assert await served.ask_clean(PI) == [Cleaned(ended=0, killed=0)]
        assert served.told.events == []

    serve_and(hang_up, tmp_path / "state")


def test_a_status_that_fails_is_told_and_ends_nothing(tmp_path: Path) -> None:
    """No question may end the ranks on this worker."""

    async def ask() -> None:
        async with serving(tmp_path / "state", status=lambda: str(1 // 0)) as served:
            caller = await served.call(Call(verb=Verb.STATUS))

            assert await caller.hear_all() == [Refused(why="internal error")]
            (note,) = served.events(Noted)
            assert "ZeroDivisionError" in note.text
            await served.watch()

    run(ask())


def test_fifty_launchers_are_answered_at_a_time(tmp_path: Path) -> None:
    """And the next few; beyond that they are refused in words, until somebody leaves."""

    async def crowd(served: Served) -> None:
        callers = await asyncio.gather(*(served.watch(f"run-{i}") for i in range(64)))
        for caller in callers:
            caller.send(Alive())
        assert [await caller.hear() for caller in callers] == [Alive()] * 64

        (refused,) = await served.ask_clean(PI)
        assert refused == Refused(why="64 others are speaking to this worker")
        await callers[0].hang_up()
        await until("it is noticed", lambda: bool(served.events(LauncherGone)))

        await until_admitted(served)

    async def until_admitted(served: Served) -> None:
        async with asyncio.timeout(10):
            while isinstance((await served.ask_clean(PI))[0], Refused):
                await asyncio.sleep(0.01)

    serve_and(crowd, tmp_path / "state")


def test_the_socket_is_for_this_account_alone(tmp_path: Path) -> None:
    """Also in a directory that others may look into."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o755)

    async def look(served: Served) -> None:
        found = served.socket.lstat()

        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert [path.name for path in directory.iterdir()] == ["worker.sock"]

    serve_and(look, directory)
    assert list(directory.iterdir()) == []


def test_a_socket_has_its_mode_before_it_has_a_name(tmp_path: Path) -> None:
    """The kernel gives the name the mode of the socket, so there is no moment between."""
    with socket.socket(socket.AF_UNIX) as listening:
        os.fchmod(listening.fileno(), 0o600)
        listening.bind(str(tmp_path / "s"))

        assert stat.S_IMODE((tmp_path / "s").lstat().st_mode) == 0o600


def test_another_account_is_refused_even_where_the_modes_let_it_in(tmp_path: Path) -> None:
    """The kernel tells who is calling."""
    python = a_python_of_anybody()

    async def told_to_nobody(served: Served) -> bytes:
        child = await asyncio.create_subprocess_exec(
            *(python, "-I", "-S", "-c", _CALL, str(served.socket)),
            user=NOBODY,
            cwd="/",
            stdout=asyncio.subprocess.PIPE,
        )
        return (await child.communicate())[0]

    async def call(served: Served) -> None:
        open_the_way_to(served.socket)
        assert await told_to_nobody(served) == b"Permission denied"
        served.socket.chmod(0o666)

        assert await told_to_nobody(served) == (
            b'{"kind":"refused","why":"this worker belongs to another account"}\n'
        )

    serve_and(call, tmp_path / "state")


_CALL = """
import socket, sys
c = socket.socket(socket.AF_UNIX)
try:
    c.connect(sys.argv[1])
    sys.stdout.write(c.makefile().read())
except OSError as error:
    sys.stdout.write(error.strerror)
"""


def a_python_of_anybody() -> str:
    """Return an interpreter that every account can run; skip where there is none."""
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if (
                subprocess.run([python, "-c", ""], user=NOBODY, cwd="/", check=False).returncode
                == 0
            ):
                return python
    pytest.skip("no Python that every account can run")


def open_the_way_to(path: Path) -> None:
    """Let everybody reach a file below a test's private directories."""
    for directory in path.parents:
        if directory.lstat().st_mode & 0o005 != 0o005:
            directory.chmod(0o755)


def test_the_socket_of_a_dead_worker_is_replaced(tmp_path: Path) -> None:
    """So is its mark of a run, which no process outlived."""
    state = open_state_directory(str(tmp_path / "state"))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(state.file("worker.sock")))
        dead.listen()
    state.write("run", "1\n")

    async def ask(served: Served) -> None:
        assert not served.mark.exists()
        assert await served.ask_clean(PI) == [Cleaned(ended=0, killed=0)]

    serve_and(ask, tmp_path / "state")


def test_a_worker_that_is_alive_keeps_its_socket(tmp_path: Path) -> None:
    """The second one is refused, also when the queue of the first is full."""
    state = open_state_directory(str(tmp_path / "state"))
    with listen_at(state, "worker.sock") as listening:
        listening.listen(0)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(state.file("worker.sock")))
            with pytest.raises(SettingsError, match="another worker does"):
                listen_at(state, "worker.sock")


@pytest.mark.parametrize("length", [90, 105, 150, 300])
def test_a_state_directory_with_a_long_path_has_a_socket_too(tmp_path: Path, length: int) -> None:
    """Longer than the kernel takes for a socket's address."""
    directory = tmp_path / ("s" * 40)
    while len(str(directory)) < length - 41:
        directory /= "s" * 40
    directory /= "s" * max(1, length - 1 - len(str(directory)))
    directory.parent.mkdir(parents=True)

    async def ask(served: Served) -> None:
        assert stat.S_IMODE(served.socket.lstat().st_mode) == 0o600
        with near(directory) as short, socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(caller, f"{short}/worker.sock")
            await loop.sock_sendall(caller, render_call(Call(verb=Verb.STATUS)))
            assert await loop.sock_recv(caller, 100) == b'{ "ready": true}\n'

    serve_and(ask, directory)
    assert list(directory.iterdir()) == []


@contextlib.contextmanager
def near(directory: Path) -> Iterator[str]:
    """Provide a short path to a directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
