"""What it costs that a program's output runs through the agent.

The same program writes into the same kind of pipe, with the agent in front of it and without. It
is called like a launcher of its own, so that the agent runs it as it stands and no mpirun is in
between. Time is taken at the reader, from the first byte to the last, so that the agent's own start
is not in it; its CPU is, and is taken from a run that says nothing. A line tells when it was
written, and the reader when it came.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import CommandFailedError, Record, arguments, clean_environment, recording

_GIB = 1 << 30
_READ_BYTES = 1 << 20
_LINE = "0123456789" * 7 + "012345678"
_FLOOD = f"""#!/bin/sh
yes {_LINE} | head -c "$SIZE"
"""
_LINES = """#!{python}
import os, time
for number in range(int(os.environ["COUNT"])):
    time.sleep(0.001)
    os.write(1, b"%d\\n" % time.monotonic_ns())
"""
_NAME = "horovodrun"
"""of the program: one that the agent knows to start its ranks itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run took; CPU with all its children."""

    wall_s: float
    cpu_s: float


def main() -> None:
    """Measure each pair in turn, again and again."""
    parser = arguments(__doc__ or "", repeat=5)
    parser.add_argument("--size", type=int, default=_GIB, help="bytes of output")
    parser.add_argument("--lines", type=int, default=2000, help="single lines, one a millisecond")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as root,
        recording(given.json, "what", "case", "wall s", "CPU s", "median ms", "99 % ms") as record,
    ):
        flood, lines = (
            _program(Path(root), name, text)
            for name, text in (("flood", _FLOOD), ("lines", _LINES.format(python=sys.executable)))
        )
        agent = (*given.agent, "launch", "--hosts", "localhost", "--state-dir", f"{root}/state")
        _measure_flood((*agent, "--"), flood, given.size, given.repeat, record)
        _measure_lines((*agent, "--"), lines, given.lines, given.repeat, record)


def _measure_flood(
    agent: tuple[str, ...], program: str, size: int, repeat: int, record: Record
) -> None:
    cases = {
        "plain pipe": ((program,), size),
        "mpi-agent launch": ((*agent, program), size),
        "mpi-agent launch, silent": ((*agent, program), 0),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in cases}
    for _ in range(repeat):
        for name, (argv, bytes_) in cases.items():
            cost = _flooded(argv, bytes_)
            costs[name].append(cost)
            record.run(case=name, bytes=bytes_, wall_s=cost.wall_s, cpu_s=cost.cpu_s)
    medians = {
        name: Cost(
            wall_s=statistics.median(cost.wall_s for cost in runs),
            cpu_s=statistics.median(cost.cpu_s for cost in runs),
        )
        for name, runs in costs.items()
    }
    for name, cost in medians.items():
        record.row(f"{size} bytes", name, f"{cost.wall_s:.2f}", f"{cost.cpu_s:.2f}", "-", "-")
    plain, through, silent = medians.values()
    added_s = through.cpu_s - silent.cpu_s - plain.cpu_s
    record.verdict("mpi-agent launch / plain pipe, wall_s", through.wall_s / plain.wall_s)
    record.verdict("CPU that the agent adds, s a GiB", added_s * _GIB / size)
    record.verdict("bytes a second through the agent, in GiB", size / _GIB / through.wall_s)


def _measure_lines(
    agent: tuple[str, ...], program: str, count: int, repeat: int, record: Record
) -> None:
    cases = {"plain pipe": (program,), "mpi-agent launch": (*agent, program)}
    took_ms: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeat):
        for name, argv in cases.items():
            took_ms[name] += (one_run := _lines_timed(argv, count))
            record.run(case=name, lines=count, median_ms=statistics.median(one_run))
    medians = {}
    for name, all_ms in took_ms.items():
        medians[name] = statistics.median(all_ms)
        late_ms = statistics.quantiles(all_ms, n=100)[-1]
        record.row("single lines", name, "-", "-", f"{medians[name]:.3f}", f"{late_ms:.3f}")
    plain, through = medians.values()
    record.verdict("mpi-agent launch - plain pipe, median ms a line", through - plain)


def _flooded(argv: Sequence[str], size: int) -> Cost:
    """Return the cost of that many bytes; the time of none is 0."""
    run = _start(argv, SIZE=str(size))
    assert run.stdout is not None
    left, began_s, ended_s = size, 0.0, 0.0
    while chunk := os.read(run.stdout.fileno(), _READ_BYTES):
        ended_s = time.monotonic()
        began_s = began_s or ended_s
        left -= len(chunk)
    cpu_s = _finish(run, argv)
    if left:
        raise CommandFailedError(f"{left} of {size} bytes did not come")
    return Cost(wall_s=ended_s - began_s, cpu_s=cpu_s)


def _lines_timed(argv: Sequence[str], count: int) -> list[float]:
    """Return how long each line was on its way, in ms."""
    run = _start(argv, COUNT=str(count))
    assert run.stdout is not None
    took_ms = []
    while chunk := os.read(run.stdout.fileno(), _READ_BYTES):
        now_ns = time.monotonic_ns()
        took_ms += [(now_ns - int(line)) / 1e6 for line in chunk.splitlines()]
    _finish(run, argv)
    if len(took_ms) != count:
        raise CommandFailedError(f"{len(took_ms)} of {count} lines came")
    return took_ms


def _start(argv: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=clean_environment() | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )


def _finish(run: subprocess.Popen[bytes], argv: Sequence[str]) -> float:
    """Wait for the end; return the CPU that the command and its children used."""
    assert run.stdout is not None
    run.stdout.close()
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise CommandFailedError(f"{' '.join(argv)}\nexit code {run.returncode}")
    return usage.ru_utime + usage.ru_stime


def _program(root: Path, name: str, text: str) -> str:
    """Return a program that was written."""
    directory = root / name
    directory.mkdir()
    path = directory / _NAME
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


if __name__ == "__main__":
    main()
