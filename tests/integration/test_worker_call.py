"""The program that sessions call: real processes between a caller's streams and a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mpi_agent import worker_call
from mpi_agent.job.worker_events import LauncherGone
from mpi_agent.ssh.worker_protocol import render_call, render_line
from mpi_agent.ssh.worker_words import (
    Alive,
    Call,
    Cleaned,
    Draining,
    Farewell,
    Over,
    Refused,
    Swept,
    Verb,
    Watching,
)
from mpi_agent.state import StateDirectory, open_state_directory
from mpi_agent.worker.call_program import write_call_program
from mpi_agent.worker.ranks import RanksTold
from tests.served_control import PI, Caller, run, serving, until

pytestmark = pytest.mark.integration

CARRIER = (sys.executable, "-I", "-S", worker_call.__file__)
LIMIT_S = 20.0
STATUS = b'{ "ready": true}\n'
DRAINING = Draining(signal_name="SIGTERM", grace_s=30.0, ranks=1)
WATCH = render_call(Call(verb=Verb.WATCH, launcher=PI, run_id="a"))
CLEAN = render_call(Call(verb=Verb.CLEAN, launcher=PI))


class Called:
    """A program that was called, and how it ended."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        assert child.stdin is not None
        self.child = child
        self.lines = Caller(child.stdout, child.stdin)

    async def ended(self) -> int:
        """Return the exit code."""
        async with asyncio.timeout(LIMIT_S):
            return await self.child.wait()


@contextlib.asynccontextmanager
async def called(*argv: str | Path) -> AsyncIterator[Called]:
    """Run a program with pipes for its streams while the block runs."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield Called(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


async def answer(*argv: str | Path, stdin: bytes | None = b"") -> tuple[int | None, bytes, bytes]:
    """Run a program to its end; return code, stdout and stderr. None leaves its stdin open."""
    async with called(*argv) as it, asyncio.timeout(LIMIT_S):
        if stdin is not None:
            out, err = await it.child.communicate(stdin)
        else:
            assert it.child.stderr is not None
            out, err = await it.lines.reader.read(), await it.child.stderr.read()
            await it.child.wait()
        return it.child.returncode, out, err


def program_in(state: StateDirectory) -> str:
    """Return the program that sessions find in MPI_AGENT_WORKER_CALL."""
    return str(write_call_program(state))


@pytest.mark.parametrize("stdin", [b"", None, b"words nobody asked for\n"])
def test_status_is_answered_whatever_stdin_is(tmp_path: Path, stdin: bytes | None) -> None:
    """A session may have one that never ends."""

    async def ask() -> None:
        async with serving(tmp_path / "state") as served:
            told = await answer(program_in(served.state), "status", stdin=stdin)

            assert told == (0, STATUS, b"")

    run(ask())


@pytest.mark.parametrize("form", ["argument", "stdin that ends", "stdin that stays open"])
def test_clean_takes_its_call_from_the_command_or_from_stdin(tmp_path: Path, form: str) -> None:
    """One line either way."""

    async def ask() -> None:
        async with serving(tmp_path / "state") as served:
            argv = ["/bin/sh", program_in(served.state), "clean"]
            if form == "argument":
                argv.append(CLEAN.decode().strip())
            async with called(*argv) as it:
                if form != "argument":
                    it.lines.writer.write(CLEAN)
                if form == "stdin that ends":
                    it.lines.writer.write_eof()

                assert await it.lines.hear_all() == [Cleaned(ended=0, killed=0)]
                assert await it.ended() == 0

    run(ask())


def test_a_watch_carries_lines_both_ways_at_once(tmp_path: Path) -> None:
    """Until the worker says farewell."""

    async def watch() -> None:
        async with (
            serving(tmp_path / "state") as served,
            called(program_in(served.state), "watch") as it,
        ):
            it.lines.writer.write(WATCH)
            assert isinstance(await it.lines.hear(), Watching)
            served.control.tell_draining(DRAINING, RanksTold(("a",)))
            assert await it.lines.hear() == DRAINING
            it.lines.send(Alive())
            assert await it.lines.hear() == Alive()
            it.lines.send(Over(exit_code=0))

            swept, farewell = await it.lines.hear_all()
            assert swept == Swept(ended=2, killed=0, left=0, segments=0)
            assert farewell == Farewell()
            assert await it.ended() == 0

    run(watch())


def test_a_watch_that_is_refused_later_says_so_in_its_last_line_alone(tmp_path: Path) -> None:
    """Its first line told already that the worker took it, and the code goes by that one."""

    async def watch() -> None:
        async with (
            serving(tmp_path / "state") as served,
            called(program_in(served.state), "watch") as it,
        ):
            it.lines.writer.write(WATCH + b'{"kind":"over"}\n')

            first, last = await it.lines.hear_all()
            assert isinstance(first, Watching)
            assert isinstance(last, Refused)
            assert await it.ended() == 0

    run(watch())


@pytest.mark.parametrize("how", ["end of stdin", "nobody reads", "TERM", "KILL", "INT"])
def test_a_launcher_that_goes_away_is_noticed_at_once(tmp_path: Path, how: str) -> None:
    """Whichever of its ends breaks first; its ranks get their lease then."""

    async def watch() -> None:
        async with (
            serving(tmp_path / "state") as served,
            called(program_in(served.state), "watch") as it,
        ):
            it.lines.writer.write(WATCH)
            assert isinstance(await it.lines.hear(), Watching)
            break_it(it, how)

            await until("it is noticed", lambda: bool(served.events(LauncherGone)))
            code = await it.ended()
            assert it.child.stderr is not None
            assert (code, await it.child.stderr.read()) == (ENDS[how], b"")

    run(watch())


ENDS = {
    "end of stdin": 0,
    "nobody reads": 0,
    "TERM": -signal.SIGTERM,
    "KILL": -signal.SIGKILL,
    "INT": -signal.SIGINT,
}


def break_it(it: Called, how: str) -> None:
    """Break one end of a conversation."""
    if how == "end of stdin":
        it.lines.writer.write_eof()
    elif how == "nobody reads":
        it.child._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    else:
        it.child.send_signal(getattr(signal, f"SIG{how}"))


def test_no_worker_is_one_sentence_and_code_1(tmp_path: Path) -> None:
    """Neither a traceback nor an answer."""
    place = tmp_path / "worker.sock"

    code, out, err = run(answer(*CARRIER, place, "status"))

    sentence = (
        f'worker-call: cannot ask the worker\'s agent at "{place}": No such file or directory'
    )
    assert (code, out, err.decode()) == (1, b"", f"{sentence}\n")


def test_a_worker_that_says_nothing_is_one_sentence_and_code_1(tmp_path: Path) -> None:
    """As when it ends in this moment."""

    async def ask() -> None:
        server = await asyncio.start_unix_server(lambda _, w: w.close(), path=tmp_path / "s")
        async with server:
            for verb in ("status", "watch"):
                code, out, err = await answer(*CARRIER, tmp_path / "s", verb, stdin=None)

                assert (code, out) == (1, b"")
                assert err.endswith(b": it closed the connection without an answer\n")

    run(ask())


@pytest.mark.parametrize("verb", ["clean", "watch"])
def test_a_refusal_is_the_answer_and_code_1(tmp_path: Path, verb: str) -> None:
    """The launcher reads it, sh sees it."""

    async def ask() -> None:
        async with serving(tmp_path / "state") as served:
            code, out, err = await answer(program_in(served.state), verb, "nonsense", stdin=None)

            assert (code, err) == (1, b"")
            assert out == render_line(Refused(why="b'nonsense\\n' is not JSON"))

    run(ask())


@pytest.mark.parametrize("arguments", [(), ("stop",), ("status", "a", "b")])
def test_another_call_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Code 2, as for every command."""
    code, out, err = run(answer(*CARRIER, tmp_path / "s", *arguments))

    assert (code, out, err) == (2, b"", b"usage: worker-call status|clean|watch [CALL]\n")


def test_streams_that_were_closed_are_not_mistaken_for_the_socket(tmp_path: Path) -> None:
    """Else the first free number, 0, would be the socket itself."""

    async def ask() -> None:
        async with serving(tmp_path / "state") as served:
            script = '/bin/sh "$0" watch "$1" <&- 2>&-'
            argv = ("/bin/sh", "-c", script, program_in(served.state), WATCH.decode().strip())
            code, _, err = await answer(*argv, stdin=None)

            assert (code, err) == (0, b"")
            await until("it is noticed", lambda: bool(served.events(LauncherGone)))

    run(ask())


def test_an_answer_is_whole_when_nobody_waits_on_the_pipe(tmp_path: Path) -> None:
    """The other end of the pipe, as sshd makes it, may be set not to block."""
    long = '{"a":"' + "x" * 1_000_000 + '"}'

    async def ask() -> None:
        async with serving(tmp_path / "state", status=lambda: long) as served:
            reading, writing = os.pipe2(os.O_NONBLOCK)
            argv = (program_in(served.state), "status")
            child = await asyncio.create_subprocess_exec(*argv, stdout=writing)
            os.close(writing)
            os.set_blocking(reading, True)
            with os.fdopen(reading, "rb") as stream:
                told = await asyncio.to_thread(stream.read)

            assert await child.wait() == 0
            assert told.decode() == f"{long}\n"

    run(ask())


@pytest.mark.parametrize("name", ["plain", 'it\'s a $HOME "place"', "straße", "s" * 150])
def test_the_program_runs_from_anywhere_with_nothing_in_its_environment(
    tmp_path: Path, name: str
) -> None:
    """Itself, and where the place is mounted noexec through /bin/sh."""

    async def ask() -> None:
        async with serving(tmp_path / name) as served:
            program = program_in(served.state)
            for argv in ((program, "status"), ("/bin/sh", program, "status")):
                child = await asyncio.create_subprocess_exec(
                    *argv, cwd="/", env={}, stdout=asyncio.subprocess.PIPE
                )
                assert (await child.communicate())[0] == STATUS

            assert os.path.isabs(program)
            assert stat.S_IMODE(os.lstat(program).st_mode) == 0o700

    run(ask())


def test_the_program_works_where_nothing_can_be_executed(tmp_path: Path) -> None:
    """A volume that is mounted noexec."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,mode=0700", "none", str(mounted)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs to mount a file system")

    async def ask() -> None:
        async with serving(mounted) as served:
            program = program_in(served.state)
            assert not os.access(program, os.X_OK)

            assert await answer("/bin/sh", program, "status") == (0, STATUS, b"")

    try:
        run(ask())
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_relative_state_directory_becomes_an_absolute_program(tmp_path: Path) -> None:
    """A session starts in another directory."""
    state = open_state_directory(os.path.relpath(tmp_path))

    program = write_call_program(state)

    assert program.is_absolute()
    assert str(tmp_path / "worker.sock") in program.read_text()


def test_people_ask_with_the_command(tmp_path: Path) -> None:
    """`mpi-agent worker-call status` in a worker's container."""
    command = (sys.executable, "-m", "mpi_agent", "worker-call", "--state-dir")

    async def ask() -> None:
        async with serving(tmp_path / "state") as served:
            assert await answer(*command, served.state.path, "status") == (0, STATUS, b"")
            assert (await answer(*command, served.state.path, "clean", CLEAN.decode()))[1] == (
                render_line(Cleaned(ended=0, killed=0))
            )
            assert (await answer(*command, served.state.path, "stop"))[0] == 2
        code, _, err = await answer(*command, served.state.path, "status")
        assert code == 1
        assert b"No such file" in err

    run(ask())


def test_the_carrier_imports_nothing_of_ours_and_nothing_heavy() -> None:
    """It runs once a worker and a wait."""
    script = (
        f"import sys; sys.argv = ['x']; exec(open({worker_call.__file__!r}).read(), "
        "{'__name__': 'it'}); print(*sorted(sys.modules))"
    )
    told = subprocess.run(
        [*CARRIER[:3], "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )

    heavy = {"mpi_agent", "asyncio", "json", "re", "logging", "site", "typing", "threading"}
    assert not heavy & set(told.stdout.split())


def test_the_carrier_is_small_and_quick(tmp_path: Path) -> None:
    """About 10 MB, and 20 ms of a core; Python alone is the measure, with 8.5 MB and 5 ms."""
    alone = (*CARRIER[:3], "-c", "print(flush=True); input()")

    async def cost(*argv: str | Path) -> tuple[float, int]:
        async with called(*argv) as it:
            await it.lines.hear_raw()
            of_it = Path(f"/proc/{it.child.pid}")
            busy_ns = int((of_it / "schedstat").read_text().split()[0])
            memory = (of_it / "status").read_text()
        return busy_ns / 1e6, int(memory.split("VmRSS:")[1].split()[0])

    async def measure() -> None:
        async with serving(tmp_path / "state") as served:
            carrier = (*CARRIER, served.socket, "watch", WATCH.decode())
            pairs = [(await cost(*alone), await cost(*carrier)) for _ in range(10)]
        bare_ms, busy_ms = (min(cost[0] for cost in costs) for costs in zip(*pairs, strict=True))
        bare_kb, memory_kb = (max(cost[1] for cost in costs) for costs in zip(*pairs, strict=True))
        print(f"{busy_ms:.0f} ms of a core, Python alone {bare_ms:.0f} ms")
        print(f"{memory_kb} KB, Python alone {bare_kb} KB")

        assert busy_ms < 6 * bare_ms
        assert memory_kb < bare_kb + 4000

    run(measure())
