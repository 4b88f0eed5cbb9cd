"""How dear it is to find out that everybody is ready, when everybody is.

Compared are what jobs do today: the operator's base image asks for one name after the other;
start-up scripts try one ssh login after the other, or many at a time.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.farm import light_farm, write_hostfile
from benchmarks.measure import Cost, Record, Run, arguments, numbers, recording
from benchmarks.names import name_server
from benchmarks.namespaces import JOB_KEY, enter_own_namespaces

_NAMES = "cut -d' ' -f1 {}"
_NSLOOKUP = "nslookup one by one"
_AGENT, _SSH = "mpi-agent wait", "ssh, 64 at a time"
_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to wait, for the hosts of a hostfile; the slow ones are not asked to do them all."""

    argv: Callable[[Path], tuple[str, ...]]
    most_hosts: int = 1000


def _shell(script: str) -> Callable[[Path], tuple[str, ...]]:
    return lambda hostfile: ("sh", "-euc", script.format(_NAMES.format(hostfile)))


def _cases(agent: list[str]) -> dict[str, Case]:
    options = f"--ssh-key {JOB_KEY} --timeout 10m".split()
    return {
        _NSLOOKUP: Case(
            argv=_shell("for host in $({}); do nslookup $host >/dev/null; done"), most_hosts=256
        ),
        "ssh one by one": Case(
            argv=_shell("for host in $({}); do ssh -o ConnectTimeout=3 $host true; done"),
            most_hosts=256,
        ),
        _SSH: Case(argv=_shell("{} | xargs -P 64 -I HOST ssh HOST true")),
        "the same, curve25519": Case(
            argv=_shell("{} | xargs -P 64 -I HOST ssh -o KexAlgorithms=curve25519-sha256 HOST true")
        ),
        _AGENT: Case(argv=lambda hostfile: (*agent, "wait", "--hostfile", str(hostfile), *options)),
    }


def main() -> None:
    """Measure every case at every size, case after case, and all of it again."""
    parser = arguments(__doc__ or "", repeat=3)
    parser.add_argument("--sizes", type=numbers, default="8,64,256,1000", help="numbers of hosts")
    given = parser.parse_args()
    enter_own_namespaces()
    cases = _cases(given.agent)
    missing = () if shutil.which("nslookup") else (_NSLOOKUP,)
    for name in {*given.without, *missing}:
        print(f"left out: {name}", file=sys.stderr)
        del cases[name]
    headings = ("hosts", "case", "wall s", "client CPU s", "ms CPU a host", "peak MB", "open files")
    figures: dict[tuple[int, str], list[Cost]] = {}
    with (
        name_server() as names,
        light_farm(max(given.sizes)) as farm,
        recording(given.json, *headings) as record,
    ):
        names.publish(farm)
        try:
            for _ in range(given.repeat):
                for size in given.sizes:
                    hostfile = write_hostfile(tuple(farm)[:size])
                    for name, case in cases.items():
                        if size <= case.most_hosts:
                            cost = _measure(name, case.argv(hostfile), record, size)
                            figures.setdefault((size, name), []).append(cost)
        finally:
            _tabulate(figures, record)
            _judge(figures, record)


def _measure(name: str, argv: tuple[str, ...], record: Record, size: int) -> Cost:
    cost = Run(argv).finish_well(limit_s=_LIMIT_S, count_files=name == _AGENT)
    record.run(hosts=size, case=name, wall_s=cost.wall_s, cpu_s=cost.cpu_s, rss_mb=cost.rss_mb)
    return cost


def _tabulate(figures: dict[tuple[int, str], list[Cost]], record: Record) -> None:
    for (size, name), costs in sorted(figures.items(), key=lambda item: item[0][0]):
        cpu_s = statistics.median(cost.cpu_s for cost in costs)
        record.row(
            str(size),
            name,
            f"{statistics.median(cost.wall_s for cost in costs):.2f}",
            f"{cpu_s:.2f}",
            f"{1000 * cpu_s / size:.1f}",
            *_peaks(name, costs),
        )


def _peaks(name: str, costs: list[Cost]) -> tuple[str, str]:
    """Return the peaks of the agent, which is one process; of many they would say nothing."""
    if name != _AGENT:
        return "-", "-"
    most_files = max(cost.most_files for cost in costs)
    return f"{max(cost.rss_mb for cost in costs):.0f}", str(most_files)


def _judge(figures: dict[tuple[int, str], list[Cost]], record: Record) -> None:
    """Say what the agent's waiting costs beside ssh, and how it grows."""

    def median(size: int, name: str, figure: str) -> float:
        return statistics.median(float(getattr(cost, figure)) for cost in figures[size, name])

    for size in sorted({size for size, name in figures if name == _AGENT}):
        if (size, _SSH) in figures:
            for figure, most in (("cpu_s", 1 / 10), ("wall_s", 1 / 3)):
                ratio = median(size, _AGENT, figure) / median(size, _SSH, figure)
                target = most if size == 256 else None
                record.verdict(f"{_AGENT} / {_SSH}, {size} hosts, {figure}", ratio, target)
    if {(256, _AGENT), (1000, _AGENT)} <= figures.keys():
        for figure in ("cpu_s", "wall_s"):
            growth = median(1000, _AGENT, figure) / 1000 / (median(256, _AGENT, figure) / 256)
            record.verdict(f"{_AGENT}, {figure} a host, 1000 hosts / 256 hosts", growth, 1.1)
        largest_mb = max(cost.rss_mb for cost in figures[1000, _AGENT])
        record.verdict(f"{_AGENT}, 1000 hosts, peak MB", largest_mb, 100)


if __name__ == "__main__":
    main()
