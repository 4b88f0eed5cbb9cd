"""The program's streams run through the agent unchanged: pipes, terminals, readers that go."""

from __future__ import annotations

import array
import asyncio
import fcntl
import hashlib
import os
import random
import signal
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

from mpi_agent.run.streams import ChildEnds, ProgramStreams
from tests.supervised import Running, Wanted, in_python, outer_terminal, supervised
from tests.waiting import wait_until
from tests.worlds import in_own_etc

pytestmark = pytest.mark.integration

_MIB = 1 << 20
_SOON_S = 10.0
"""Ten times and more what it takes alone; whoever waited would wait for ever."""


def python(script: str) -> Wanted:
    """Return a program in Python."""
    return Wanted(argv=in_python(script))


def start_by_sh(line: str) -> Wanted:
    """Return a program of the shell."""
    return Wanted(argv=("/bin/sh", "-c", line))


def read_all(running: Running) -> bytes:
    """Return everything that comes out, to the end."""
    assert running.popen.stdout is not None
    return running.popen.stdout.read()


def test_output_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    """64 MiB of anything, beside something else on the other stream."""
    content = random.Random(7).randbytes(64 * _MIB)
    (tmp_path / "content").write_bytes(content)
    program = start_by_sh('cat "$HERE/content"; echo bye >&2')

    with supervised(program, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        out = read_all(running)
        report = running.report()
        assert running.popen.stderr is not None
        err = running.popen.stderr.read()

    assert hashlib.sha256(out).digest() == hashlib.sha256(content).digest()
    assert err == b"bye\n"
    assert report.total_bytes == len(content) + 4
    assert ("STDERR", "bye") in report.lines
    assert (report.code, report.new_files, report.left) == (0, 0, 0)


def test_the_order_stays_where_both_streams_are_one_file(tmp_path: Path) -> None:
    """Errors stand where they happened."""
    script = "for n in range(20000): os.write(1 + n % 2, b'%d\\n' % n)"

    with supervised(
        python(script), tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        out = read_all(running)
        report = running.report()

    assert out == b"".join(b"%d\n" % number for number in range(20_000))
    assert {stream for stream, _ in report.lines} == {"MERGED"}


def test_each_piece_of_a_progress_bar_comes_when_it_was_written(tmp_path: Path) -> None:
    """The program waits for an answer to each; that reaches it by a pipe that nobody copies."""
    script = """
for step in range(200):
    os.write(1, b"\\r%d %%" % step)
    assert os.read(0, 100) == b"seen %d" % step
"""
    with supervised(
        python(script), tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.popen.stdout is not None
        assert running.popen.stdin is not None
        number, answer = running.popen.stdout.fileno(), running.popen.stdin.fileno()
        took_s = []
        for step in range(200):
            expected = b"\r%d %%" % step
            assert os.read(number, 100) == expected
            asked_s = time.monotonic()
            os.write(answer, b"seen %d" % step)
            took_s.append(time.monotonic() - asked_s)
        report = running.report()

    assert report.code == 0
    assert report.lines == (("STDOUT", "199 %"),)
    assert sorted(took_s)[100] < _SOON_S / 100


@pytest.mark.parametrize("kind", ["file", "pipe", "nothing"])
def test_standard_input_is_handed_on_as_it_is(kind: str, tmp_path: Path) -> None:
    """The same file, not a copy: Open MPI 5 hangs on a pipe that nobody closes."""
    (tmp_path / "input").write_bytes(b"from a file")
    script = "print(os.fstat(0).st_ino, sys.stdin.read())"

    with (
        (tmp_path / "input").open("rb") as file,
        supervised(
            python(script),
            tmp_path,
            stdin={"file": file.fileno(), "pipe": subprocess.PIPE}.get(kind),
            stdout=subprocess.PIPE,
        ) as running,
    ):
        inode = Path(f"/proc/{running.pid}/fd/0").stat().st_ino
        if running.popen.stdin is not None:
            running.popen.stdin.write(b"from a pipe")
            running.popen.stdin.close()
        said = read_all(running).decode().strip()
        running.report()

    expected = {"file": " from a file", "pipe": " from a pipe", "nothing": ""}
    assert said == f"{inode}{expected[kind]}"


def test_a_program_whose_reader_is_gone_notices_at_its_next_write(tmp_path: Path) -> None:
    """As it would without us; and the agent goes on."""
    script = """
note("up", "up")
while not os.path.exists(f"{HERE}/gone"): time.sleep(0.02)
try:
    os.write(1, b"anybody there?")
except BrokenPipeError:
    sys.exit(5)
"""
    with supervised(python(script), tmp_path, stdout=subprocess.PIPE) as running:
        running.wait_for_line("up", "up")
        assert running.popen.stdout is not None
        running.popen.stdout.close()
        pipe = os.readlink(f"/proc/{running.program_pid}/fd/1")
        wait_until("nobody reads the program's output", lambda: not is_held(running.pid, pipe))
        (tmp_path / "gone").touch()
        report = running.report()

    assert report.code == 5
    assert report.new_files == 0


def test_a_named_pipe_may_find_another_reader(tmp_path: Path) -> None:
    """As runtimes and log shippers do that are begun again: between two writes nobody notices."""
    script = """
os.write(1, b"one")
while not os.path.exists(f"{HERE}/back"): time.sleep(0.02)
os.write(1, b"two")
"""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "fifo", os.O_WRONLY)
    with supervised(python(script), tmp_path, stdout=writer) as running:
        os.close(writer)
        wait_until("one came", lambda: waiting_bytes(reader) == 3)
        assert os.read(reader, 100) == b"one"
        os.close(reader)
        reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        (tmp_path / "back").touch()
        report = running.report()
        content = os.read(reader, 100)
    os.close(reader)

    assert report.code == 0
    assert content == b"two"


def is_held(pid: int, name: str) -> bool:
    """Return whether a process has a file open."""
    directory = Path(f"/proc/{pid}/fd")
    return any(os.readlink(path) == name for path in directory.iterdir() if path.is_symlink())


def test_a_program_that_floods_a_reader_who_goes_ends_by_pipe(tmp_path: Path) -> None:
    """`yes | head` ends."""
    with supervised(Wanted(argv=("/usr/bin/yes",)), tmp_path, stdout=subprocess.PIPE) as running:
        assert running.popen.stdout is not None
        os.read(running.popen.stdout.fileno(), 100)
        running.popen.stdout.close()
        report = running.report()

    assert report.signal == signal.SIGPIPE
    assert report.stopped_by is None


def test_a_full_disk_is_said_once_and_the_program_goes_on(tmp_path: Path) -> None:
    """What it said last is still known."""
    script = "for n in range(1000): os.write(1, b'step %d\\n' % n); time.sleep(0.0001)"

    with (
        Path("/dev/full").open("wb") as full,
        supervised(python(script), tmp_path, stdout=full) as (running),
    ):
        report = running.report()

    assert report.code == 0
    assert [note for note in report.notes if "No space left" in note] == list(report.notes)
    assert len(report.notes) == 1
    assert report.lines[-1] == ("STDOUT", "step 999")


def test_a_reader_who_does_not_read_holds_up_no_signal(tmp_path: Path) -> None:
    """And the agent ends, and says that output was dropped."""
    script = """
signal.signal(signal.SIGTERM, lambda *_: (note("got", "TERM"), os._exit(3)))
note("up", "up")
while True: os.write(1, b"x" * 65536)
"""
    with supervised(python(script), tmp_path, stdout=subprocess.PIPE) as running:
        running.wait_for_line("up", "up")
        assert running.popen.stdout is not None
        pipe = running.popen.stdout.fileno()
        wait_until("the pipe is full", lambda: waiting_bytes(pipe) >= 65536)
        began_s = time.monotonic()
        running.signal(signal.SIGTERM)
        running.wait_for_line("got", "TERM")
        report = running.report()
        took_s = time.monotonic() - began_s

    assert (report.code, report.stopped_by) == (3, "SIGTERM")
    assert took_s < _SOON_S
    assert any("nobody read the program's output" in note for note in report.notes)
    assert report.lines


def waiting_bytes(pipe: int) -> int:
    """Return how much is in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_a_slow_reader_gets_everything(tmp_path: Path) -> None:
    """Also what was still on its way when the program ended."""
    script = "os.write(1, b'y' * 600_000); note('ended', 'yes')"

    with supervised(python(script), tmp_path, stdout=subprocess.PIPE) as running:
        running.wait_for_line("ended", "yes")
        wait_until("the program is gone", lambda: not Path(f"/proc/{running.program_pid}").exists())
        out = read_all(running)
        running.report()

    assert out == b"y" * 600_000


def test_a_child_of_the_program_that_holds_its_output_is_not_waited_for(tmp_path: Path) -> None:
    """It is ended with the rest of the program's session, and what it said is passed on."""
    line = "(trap '' TERM; setsid sh -c 'echo from the child; exec sleep 60') & sleep 0.3; exit 4"

    with supervised(start_by_sh(line), tmp_path, stdout=subprocess.PIPE) as running:
        began_s = time.monotonic()
        out = read_all(running)
        report = running.report()

    assert out == b"from the child\n"
    assert (report.code, report.left, report.new_files) == (4, 0, 0)
    assert time.monotonic() - began_s < _SOON_S


def test_somebody_out_of_reach_who_holds_the_pipe_is_waited_for_one_second() -> None:
    """Such as a process of another account, which we may not end."""
    held: list[int] = []

    def start(ends: ChildEnds) -> None:
        assert ends.stdout is not None
        os.write(ends.stdout, b"last words\n")
        held.append(os.dup(ends.stdout))

    async def run(sink: int) -> float:
        streams = ProgramStreams(stdout=sink, stderr=sink)
        streams.start(start, note=lambda _: None)
        began_s = time.monotonic()
        await streams.finish()
        return time.monotonic() - began_s

    source, sink = os.pipe()
    took_s = asyncio.run(run(sink))

    assert os.read(source, 100) == b"last words\n"
    assert 0.9 < took_s < _SOON_S
    with pytest.raises(BrokenPipeError):
        os.write(held[0], b"too late")
    for number in (source, sink, *held):
        os.close(number)


def test_a_stop_bounds_how_long_a_slow_reader_is_waited_for() -> None:
    """He reads all the time, and whoever told us to stop kills us meanwhile."""
    notes: list[str] = []
    is_over = threading.Event()

    async def run(sink: int) -> float:
        streams = ProgramStreams(stdout=sink, stderr=sink)
        streams.start(lambda ends: os.write(ends.stdout or -1, b"z" * 600_000), note=notes.append)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        loop.call_later(0.5, lambda: streams.hurry(loop.time() + 1.0))
        await streams.finish()
        return loop.time() - began_s

    def read_slowly(source: int) -> None:
        while not is_over.wait(0.02) and os.read(source, 1000):
            pass

    source, sink = os.pipe()
    reader = threading.Thread(target=read_slowly, args=(source,))
    reader.start()
    took_s = asyncio.run(run(sink))
    is_over.set()
    reader.join()
    for number in (source, sink):
        os.close(number)

    assert 1.4 < took_s < _SOON_S
    (note,) = notes
    assert note.startswith("there is no time to pass on all of the program's output")


def test_a_stop_that_comes_when_the_program_has_ended_hurries_its_output(tmp_path: Path) -> None:
    """Nobody reads it; else the agent would wait for thirty seconds and be killed."""
    script = "os.write(1, b'y' * 600_000); sys.exit(6)"

    with supervised(python(script), tmp_path, stdout=subprocess.PIPE) as running:
        wait_until("the program is gone", lambda: not Path(f"/proc/{running.program_pid}").exists())
        began_s = time.monotonic()
        running.signal(signal.SIGTERM)
        report = running.report()
        took_s = time.monotonic() - began_s

    assert took_s < _SOON_S
    assert (report.code, report.stopped_by) == (6, None)
    assert any("rest is dropped" in note for note in report.notes)


@pytest.mark.parametrize("closed", ["1", "2", "both"])
def test_streams_that_were_closed_at_the_start_lose_what_is_written_there_alone(
    closed: str, tmp_path: Path
) -> None:
    """As `>&-` does: what the program says is still known, and goes to no other file of ours."""
    line = "echo out; echo err >&2; exit 3"
    closing = {"1": 'exec "$@" >&-', "2": 'exec "$@" 2>&-', "both": 'exec "$@" >&- 2>&-'}[closed]

    with supervised(
        start_by_sh(line),
        tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        entrance=("/bin/sh", "-c", closing, "sh"),
    ) as running:
        out = read_all(running)
        report = running.report()
        assert running.popen.stderr is not None
        err = running.popen.stderr.read()

    assert (out, err) == {"1": (b"", b"err\n"), "2": (b"out\n", b""), "both": (b"", b"")}[closed]
    assert (report.code, report.left, report.new_files) == (3, 0, 0)
    assert (report.notes, report.told) == ((), ())
    assert sorted(report.text.split()) == ["err", "out"]


def test_a_program_that_closes_its_output_early_runs_on(tmp_path: Path) -> None:
    """Its end is the process's, not the stream's."""
    line = "echo bye; exec >&- 2>&-; sleep 0.3; exit 6"

    with supervised(start_by_sh(line), tmp_path, stdout=subprocess.PIPE) as running:
        assert read_all(running) == b"bye\n"
        report = running.report()

    assert report.code == 6


def test_what_is_tapped_is_what_comes(tmp_path: Path) -> None:
    """Each piece with its stream, from a thread of its own."""
    seen: list[tuple[bytes, str, bool]] = []

    async def run(sink: int) -> tuple[int, float, float]:
        streams = ProgramStreams(
            stdout=sink,
            stderr=sink,
            tap=lambda chunk, stream: seen.append(
                (chunk, stream.name, threading.current_thread() is threading.main_thread())
            ),
        )
        began_s = streams.last_output_at_s
        streams.start(lambda ends: os.write(ends.stdout or -1, b"hello\n"), note=lambda _: None)
        await streams.finish()
        return streams.output.total_bytes, began_s, streams.last_output_at_s

    with (tmp_path / "out").open("wb") as out:
        total, began_s, last_s = asyncio.run(run(out.fileno()))

    assert seen == [(b"hello\n", "MERGED", False)]
    assert total == 6
    assert last_s > began_s


def test_nothing_stays_open_when_the_program_cannot_be_started() -> None:
    """The error is the caller's."""

    def refuse(_: ChildEnds) -> None:
        raise FileNotFoundError

    async def run() -> None:
        with pytest.raises(FileNotFoundError):
            ProgramStreams().start(refuse, note=lambda _: None)

    before = os.listdir("/proc/self/fd")
    asyncio.run(run())

    assert os.listdir("/proc/self/fd") == before


_TELLS_ITS_SIZE = """
import shutil
def tell(*_):
    print("size", *os.get_terminal_size(1), flush=True)
signal.signal(signal.SIGWINCH, tell)
print(os.isatty(0), os.isatty(1), os.isatty(2), os.tcgetpgrp(1) == os.getpgrp(), flush=True)
tell()
sys.stdin.readline()
"""


def test_a_program_on_a_terminal_has_one_of_the_same_size_which_follows(tmp_path: Path) -> None:
    """In whose foreground it is."""
    with (
        outer_terminal(33, 101) as outer,
        supervised(python(_TELLS_ITS_SIZE), tmp_path, terminal=outer) as running,
    ):
        assert "True True True True\r\nsize 101 33\r\n" in outer.read_until("size 101 33\r\n")
        outer.resize(40, 120)
        outer.read_until("size 120 40\r\n")
        outer.type("\n")
        report = running.report()

    assert (report.code, report.new_files, report.left) == (0, 0, 0)
    assert ("MERGED", "size 120 40") in report.lines


def test_a_terminal_shows_what_is_typed_and_what_is_said_once(tmp_path: Path) -> None:
    """Nothing is echoed or turned twice; an end of file is one for the program."""
    script = """
print("ready", flush=True)
for line in sys.stdin: print("got", line.strip(), flush=True)
print("over")
"""
    with (
        outer_terminal() as outer,
        supervised(python(script), tmp_path, terminal=outer) as running,
    ):
        shown = outer.read_until("ready\r\n")
        outer.type("one\n")
        shown += outer.read_until("got one\r\n")
        outer.type("two\n\x04")
        shown += outer.read_until("over\r\n")
        report = running.report()

    assert shown == "ready\r\none\r\ngot one\r\ntwo\r\ngot two\r\nover\r\n"
    assert report.code == 0


def test_ctrl_c_reaches_the_program_once(tmp_path: Path) -> None:
    """It comes to the agent, which passes it on."""
    script = """
def took(*_):
    note("signals", "INT")
    signal.setitimer(signal.ITIMER_REAL, 0.3)
signal.signal(signal.SIGINT, took)
signal.signal(signal.SIGALRM, lambda *_: sys.exit(9))
print("ready", flush=True)
while True: signal.pause()
"""
    with (
        outer_terminal() as outer,
        supervised(python(script), tmp_path, terminal=outer) as running,
    ):
        outer.read_until("ready\r\n")
        outer.type("\x03")
        report = running.report()
        signals = running.lines_of("signals")

    assert signals == ["INT"]
    assert (report.code, report.stopped_by) == (9, "SIGINT")


def test_the_outer_terminal_is_left_as_it_was_even_by_an_agent_that_was_killed(
    tmp_path: Path,
) -> None:
    """A shell after it still echoes."""
    with outer_terminal() as outer:
        before = termios.tcgetattr(outer.slave)
        with supervised(python("sys.stdin.read()"), tmp_path, terminal=outer) as running:
            during = running.program_pid and termios.tcgetattr(outer.slave)
            running.signal(signal.SIGKILL)
            running.popen.wait()
        after = termios.tcgetattr(outer.slave)

    assert before == during == after


@pytest.mark.parametrize(
    ("redirected", "expected"),
    [
        ("stdout", "True False True STDERR"),
        ("stderr", "True True False STDOUT"),
        ("stdin", "False True True MERGED"),
    ],
)
def test_only_what_is_a_terminal_is_one_for_the_program(
    redirected: str, expected: str, tmp_path: Path
) -> None:
    """A log of one stream has no escape sequences, and bars still show on the other."""
    script = """
note("ttys", " ".join(str(os.isatty(number)) for number in range(3)))
os.write(2 if os.isatty(2) else 1, b"shown\\n")
"""
    with (
        outer_terminal() as outer,
        (tmp_path / "file").open("wb+") as file,
        supervised(
            python(script),
            tmp_path,
            stdin=file if redirected == "stdin" else None,
            stdout=file if redirected == "stdout" else None,
            stderr=file if redirected == "stderr" else None,
            terminal=outer,
        ) as running,
    ):
        outer.read_until("shown\r\n")
        report = running.report()
        ttys = running.lines_of("ttys")

    assert f"{ttys[0]} {report.lines[-1][0]}" == expected
    assert report.new_files == 0


def test_without_terminals_the_program_writes_to_pipes_and_that_is_said(tmp_path: Path) -> None:
    """As in a container without a device for them."""
    script = 'note("ttys", str([os.isatty(number) for number in range(3)]))\nprint("shown")'
    no_terminals = "mount --bind /dev/null /dev/ptmx && mount --bind /dev/null /dev/pts/ptmx"
    with (
        outer_terminal() as outer,
        supervised(
            python(script),
            tmp_path,
            terminal=outer,
            entrance=(*in_own_etc(), "sh", "-c", f'{no_terminals} && exec "$@"', "sh"),
        ) as running,
    ):
        outer.read_until("shown\r\n")
        report = running.report()
        ttys = running.lines_of("ttys")

    assert ttys == ["[True, False, False]"]
    assert [note for note in report.notes if "cannot give the program a terminal" in note]
    assert (report.code, report.new_files) == (0, 0)
