"""One supervised program by itself: a process, so that streams, terminals and signals are real.

`python -m tests.supervised` reads what is wanted from a file of JSON, supervises, and writes a
report beside it. `supervised` is the other side of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mpi_agent.children import Children
from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.topics import Family
from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import Event, Noted, ProgramStarted
from mpi_agent.process_table import every_stat
from mpi_agent.run.signals import SignalInbox
from mpi_agent.run.stopping import StopTerms, Told
from mpi_agent.run.streams import ProgramStreams
from mpi_agent.run.supervise import Supervised, supervise
from tests.waiting import wait_until
from tests.workers import LIMIT_S

__all__ = [
    "OuterTerminal",
    "Report",
    "Running",
    "Wanted",
    "in_python",
    "outer_terminal",
    "supervised",
]

Streams = int | IO[bytes] | None


_START_IN_PYTHON = """
import os, signal, sys, time
HERE = os.environ["HERE"]

def note(name, text):
    with open(f"{HERE}/{name}", "a") as file:
        print(text, file=file, flush=True)
"""


def in_python(script: str) -> tuple[str, ...]:
    """Return the argv of a program that can `note` a line in a file of its directory, `HERE`."""
    return (sys.executable, "-c", _START_IN_PYTHON + script)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is run, and how.

    Attributes:
        tell: whether ranks can be told directly: no, yes, late (never, that is) or fail. Those who
            are told are the processes that called themselves ranks.
        alarm: comes once the file `alarm` is there.
    """

    argv: tuple[str, ...]
    grace_s: float = 20.0
    stop_signal: str = "SIGTERM"
    tell: str = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How it went.

    Attributes:
        left: processes that still descend from the agent, zombies too.
        new_files: how many more files are open than before.
    """

    code: int | None
    signal: int | None
    stopped_by: str | None
    alarm: str | None
    mpirun_was_told: bool
    ranks_were_told: bool
    lines: tuple[tuple[str, str], ...]
    total_bytes: int
    notes: tuple[str, ...]
    told: tuple[str, ...]
    left: int
    new_files: int

    @property
    def text(self) -> str:
        """What was kept of the output."""
        return "".join(f"{line}\n" for _, line in self.lines)


class Running:
    """A supervised program; its files are in `directory`."""

    def __init__(self, popen: subprocess.Popen[bytes], directory: Path) -> None:
        self.popen = popen
        self.directory = directory

    @property
    def pid(self) -> int:
        """The process id of the agent."""
        return self.popen.pid

    @property
    def program_pid(self) -> int:
        """The process id of the program."""
        return int(self._wait_for("program"))

    def signal(self, number: signal.Signals) -> None:
        """Send the agent a signal."""
        self.popen.send_signal(number)

    def wait_for_rank(self, name: str = "rank") -> int:
        """Return the process id of a rank that is up."""
        return int(self._wait_for(f"ranks/{name}"))

    def wait_for_line(self, name: str, line: str) -> None:
        """Return once a file that the program writes has a line."""
        wait_until(f"{line} in {name}", lambda: line in self.lines_of(name))

    def lines_of(self, name: str) -> list[str]:
        """Return the lines of a file that the program writes."""
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def raise_alarm(self) -> None:
        """Have the alarm come back."""
        (self.directory / "alarm").touch()

    def report(self) -> Report:
        """Wait for the end; return how it went."""
        assert self.popen.wait(LIMIT_S) == 0
        values: dict[str, Any] = json.loads((self.directory / "report").read_text())
        lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
        lists["lines"] = tuple((stream, text) for stream, text in values["lines"])
        return Report(**{**values, **lists})

    def _wait_for(self, name: str) -> str:
        path = self.directory / name
        wait_until(f"{name} is written", lambda: path.exists() and path.read_text() != "")
        return path.read_text()


@contextlib.contextmanager
def supervised(
    wanted: Wanted,
    directory: Path,
    *,
    stdin: Streams = None,
    stdout: Streams = None,
    stderr: Streams = None,
    terminal: OuterTerminal | None = None,
    entrance: tuple[str, ...] = (),
) -> Iterator[Running]:
    """Provide a supervised program, in whose environment `HERE` is the directory.

    Args:
        stdin, stdout, stderr: the terminal where nothing is said, or nothing where there is none.
        terminal: is the controlling one, too.
        entrance: put before the agent's command line.
    """
    usual = subprocess.DEVNULL if terminal is None else terminal.slave
    (directory / "ranks").mkdir()
    (directory / "wanted").write_text(json.dumps(dataclasses.asdict(wanted)))
    popen = subprocess.Popen(
        [*entrance, sys.executable, "-m", "tests.supervised", str(directory)],
        stdin=usual if stdin is None else stdin,
        stdout=usual if stdout is None else stdout,
        stderr=usual if stderr is None else stderr,
        start_new_session=True,
        preexec_fn=None if terminal is None else terminal.become_controlling,
    )
    try:
        yield Running(popen, directory)
    finally:
        popen.kill()
        popen.wait()
        for pipe in (popen.stdin, popen.stdout, popen.stderr):
            if pipe is not None:
                pipe.close()


class OuterTerminal:
    """A terminal as a user has one: `master` is his side, `slave` the agent's."""

    def __init__(self, rows: int, columns: int) -> None:
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, as a user does who drags a corner."""
        termios.tcsetwinsize(self.master, (rows, columns))

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self.master, text.encode())

    def read_until(self, expected: str) -> str:
        """Return what is shown, up to and with the words that are expected."""
        shown = ""
        os.set_blocking(self.master, False)

        def is_there() -> bool:
            nonlocal shown
            with contextlib.suppress(BlockingIOError):
                shown += os.read(self.master, 1 << 16).decode(errors="replace")
            return expected in shown

        wait_until(f"{expected!r} is shown", is_there)
        return shown

    def become_controlling(self) -> None:
        """Make it the controlling terminal of this session; between fork and exec."""
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def close(self) -> None:
        """Close both sides."""
        for number in (self.master, self.slave):
            os.close(number)


@contextlib.contextmanager
def outer_terminal(rows: int = 24, columns: int = 80) -> Iterator[OuterTerminal]:
    """Provide a terminal."""
    terminal = OuterTerminal(rows, columns)
    try:
        yield terminal
    finally:
        terminal.close()


def _plan(wanted: Wanted) -> LaunchPlan:
    return LaunchPlan(
        executable=wanted.argv[0],
        argv=wanted.argv,
        variables=(),
        removed_variables=(),
        hostfile_path="",
        hostfile_text="",
        np=1,
        choices=(),
        notes=(),
    )


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class _Supervision:
    def __init__(self, directory: Path, wanted: Wanted) -> None:
        self._directory = directory
        self._wanted = wanted
        self._notes: list[str] = []
        self._told: list[str] = []

    async def run(self) -> None:
        with Children() as children, SignalInbox() as inbox:
            before = _open_files()
            went = await supervise(
                _plan(self._wanted),
                environ=dict(os.environ, HERE=str(self._directory)),
                host_count=1,
                children=children,
                inbox=inbox,
                emit=self._emit,
                terms=StopTerms(
                    grace_s=self._wanted.grace_s,
                    stop_signal=signal.Signals[self._wanted.stop_signal],
                    family=Family.OPEN_MPI,
                ),
                streams=ProgramStreams(),
                tell_ranks=self._tell,
                alarm=self._alarm,
            )
            report = self._report(went, _open_files() - before)
        (self._directory / "report").write_text(json.dumps(dataclasses.asdict(report)))

    def _emit(self, event: Event) -> None:
        if isinstance(event, ProgramStarted):
            (self._directory / "program").write_text(str(event.pid))
        if isinstance(event, Noted):
            self._notes.append(event.text)

    async def _tell(self, number: signal.Signals) -> Told:
        self._told.append(number.name)
        if self._wanted.tell == "fail":
            raise ConnectionError("nobody answers")
        if self._wanted.tell == "late":
            await asyncio.sleep(3600)
        if self._wanted.tell == "no":
            return Told()
        ranks = tuple((self._directory / "ranks").iterdir())
        for path in ranks:
            os.kill(int(path.read_text()), number)
        return Told(everywhere=True, ranks=len(ranks))

    async def _alarm(self) -> Alarm:
        while not (self._directory / "alarm").exists():
            await asyncio.sleep(0.02)
        return Alarm(kind=AlarmKind.WORKERS_LOST, why="pi-worker-3 is lost")

    def _report(self, went: Supervised, new_files: int) -> Report:
        return Report(
            code=went.process_exit.code,
            signal=went.process_exit.signal,
            stopped_by=went.stopped_by.name if went.stopped_by is not None else None,
            alarm=went.alarm.why if went.alarm is not None else None,
            mpirun_was_told=went.mpirun_was_told,
            ranks_were_told=went.ranks_were_told,
            lines=tuple((line.stream.name, line.text) for line in went.output.lines),
            total_bytes=went.output.total_bytes,
            notes=tuple(self._notes),
            told=tuple(self._told),
            left=sum(stat.parent == os.getpid() for stat in every_stat()),
            new_files=new_files,
        )


if __name__ == "__main__":
    here = Path(sys.argv[1])
    asked = json.loads((here / "wanted").read_text())
    asyncio.run(_Supervision(here, Wanted(**{**asked, "argv": tuple(asked["argv"])})).run())
