"""What a command costs, and how a series of such figures is written down.

CPU is that of the client: the command and everything it started and waited for (`wait4`). The
servers it talks to are children of the benchmark and never of the command, so they are not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
_SAMPLE_S = 0.01
_GRACE_S = 5.0
_LINES_SHOWN = 15
_VERSION_COMMANDS = {
    "OpenSSH": ("ssh", "-V"),
    "Open MPI (first in PATH)": ("mpirun", "--version"),
    "Open MPI (system)": ("/usr/bin/mpirun", "--version"),
    "dnsmasq": ("dnsmasq", "--version"),
    "nslookup": ("nslookup", "-version"),
    "commit": ("git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run of a command took.

    Attributes:
        exit_code: negative for a signal; None when the run was ended at its limit.
        ended_at_s: on the monotonic clock.
        rss_mb: of the largest process; never below ours, from which the kernel counts on.
        most_files: the most open files of the first process that were seen; 0 when not counted.
    """

    wall_s: float
    cpu_s: float
    rss_mb: float
    exit_code: int | None
    ended_at_s: float
    most_files: int = 0


class CommandFailedError(Exception):
    """A command that is being measured did not do its work, so its figures mean nothing."""


class Run:
    """A command that has been started; `finish` waits for it and tells its cost."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._argv = tuple(argv)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._started_at_s = time.monotonic()
        self._popen = subprocess.Popen(
            self._argv,
            env=clean_environment() | dict(environ or {}),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def finish(self, *, limit_s: float = 600.0, count_files: bool = False) -> Cost:
        """Wait for the end, or bring it about at the limit; return the cost."""
        pid = self._popen.pid
        most_files = self._wait(pid, limit_s, count_files)
        ended_at_s = time.monotonic()
        hung = ended_at_s - self._started_at_s >= limit_s
        if hung:
            self._stop(pid)
        _, status, usage = os.wait4(pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        return Cost(
            wall_s=ended_at_s - self._started_at_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            rss_mb=usage.ru_maxrss / 1024,
            exit_code=None if hung else self._popen.returncode,
            ended_at_s=ended_at_s,
            most_files=most_files,
        )

    def finish_well(self, *, limit_s: float = 600.0, count_files: bool = False) -> Cost:
        """Like `finish`.

        Raises:
            CommandFailedError: the exit code is not 0.
        """
        cost = self.finish(limit_s=limit_s, count_files=count_files)
        if cost.exit_code != 0:
            raise self.failure(f"exit code {cost.exit_code}")
        return cost

    def failure(self, why: str) -> CommandFailedError:
        """Return an error with the command and the last it said."""
        lines = self.output()[-_LINES_SHOWN:]
        return CommandFailedError("\n".join([shlex.join(self._argv)[:400], why, *lines]))

    def output(self) -> tuple[str, ...]:
        """Return the lines it printed, on either stream."""
        self._output.seek(0)
        return tuple(self._output.read().decode(errors="replace").splitlines())

    def _wait(self, pid: int, limit_s: float, count_files: bool) -> int:
        """Return the most open files seen until the end or the limit."""
        end = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(end, select.POLLIN)
        most = 0
        try:
            while (left_s := self._started_at_s + limit_s - time.monotonic()) > 0:
                if count_files:
                    with contextlib.suppress(OSError):
                        most = max(most, len(os.listdir(f"/proc/{pid}/fd")))
                if poll.poll(1000 * (min(left_s, _SAMPLE_S) if count_files else left_s)):
                    break
        finally:
            os.close(end)
        return most

    def _stop(self, pid: int) -> None:
        for wanted in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, wanted)
            deadline_s = time.monotonic() + _GRACE_S
            while time.monotonic() < deadline_s:
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return
                time.sleep(0.05)


def clean_environment() -> dict[str, str]:
    """Return our environment without what would change how the agent or an MPI behaves."""
    prefixes = ("MPI_AGENT_", "OMPI_", "PRTE_", "PMIX_", "HYDRA_", "I_MPI_")
    kept = {n: v for n, v in os.environ.items() if not n.startswith(prefixes)}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}:/usr/sbin"}


def arguments(description: str, *, repeat: int) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    agent = str(Path(sys.executable).with_name("mpi-agent"))
    parser.add_argument("--repeat", type=int, default=repeat, help="runs of each case")
    parser.add_argument(
        "--agent", type=shlex.split, default=agent, help="the agent, as a command line"
    )
    parser.add_argument("--without", action="append", default=[], help="a case left out")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `8,64,256`."""
    return tuple(int(number) for number in text.split(","))


def circumstances() -> dict[str, str]:
    """Return what a reader has to know of a run to repeat it."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "asyncssh": importlib.metadata.version("asyncssh"),
        **{name: version for name, argv in _VERSION_COMMANDS.items() if (version := _first(argv))},
    }


def _first(argv: tuple[str, ...]) -> str:
    """Return the first line a command prints; nothing where it is missing."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=clean_environment())
    except FileNotFoundError:
        return ""
    return (done.stdout + done.stderr).strip().partition("\n")[0]


class Record:
    """Collects the figures of one benchmark, prints them, and keeps them as JSON."""

    def __init__(self, headings: tuple[str, ...]) -> None:
        self._headings = headings
        self._rows: list[tuple[str, ...]] = []
        self._verdicts: list[str] = []
        self._runs: list[dict[str, object]] = []

    def run(self, **figures: object) -> None:
        """Keep a single run for the JSON, and say on stderr that it is done."""
        self._runs.append(figures)
        print(*(f"{n}={_short(v)}" for n, v in figures.items()), file=sys.stderr, flush=True)

    def row(self, *cells: str) -> None:
        """Add a line of the table."""
        self._rows.append(cells)

    def verdict(self, claim: str, value: float, most: float | None = None) -> None:
        """Add a ratio or a figure, with its target where it has one."""
        target = "" if most is None else f" (target: at most {most:g}) "
        target += "" if most is None else ("met" if value <= most else "MISSED")
        self._verdicts.append(f"{claim}: {value:.3g}{target}")

    def close(self, path: Path | None) -> None:
        """Print everything; write the JSON where a path is given."""
        about = circumstances()
        table = [self._headings, *self._rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(self._headings))]
        for row in table:
            print(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                ).rstrip()
            )
        print(*self._verdicts, *(f"{n}: {v}" for n, v in about.items()), sep="\n", flush=True)
        if path is not None:
            content = {
                "circumstances": about,
                "table": [dict(zip(self._headings, row, strict=True)) for row in self._rows],
                "verdicts": self._verdicts,
                "runs": self._runs,
            }
            path.write_text(json.dumps(content, indent=1) + "\n")


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def recording(path: Path | None, *headings: str) -> Iterator[Record]:
    """Give a record that is printed at the end, also after Ctrl-C, with what there is by then."""
    record = Record(headings)
    try:
        yield record
    finally:
        record.close(path)
