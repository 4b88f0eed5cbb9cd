"""How long after the last worker is ready the wait ends; all others are ready from the start.

Late is either the port (the name is known, nobody listens yet) or the name (sshd is up, nobody
can know where). Compared is the loop people write, `until ssh HOST true; do sleep 1; done`, over
the late host alone: its best case, because it has already been through all others.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.farm import NamespaceHost, light_farm, namespace_hosts, write_hostfile
from benchmarks.measure import Record, Run, arguments, numbers, recording
from benchmarks.names import NameServer, name_server, worker_name
from benchmarks.namespaces import JOB_KEY, enter_own_namespaces

_AGENT, _LOOP = "mpi-agent wait", "ssh, sleep 1"
_FIRST_S, _PER_HOST_S, _SPREAD_S = 4.0, 0.03, 2.0
"""When the worker appears: well after the others are through, never in step with a loop."""
_PROMISED_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the last worker may be late to.

    Attributes:
        elsewhere: a host of its own, whose port opens when we say so.
    """

    names: NameServer
    farm: dict[str, str]
    elsewhere: NamespaceHost


def main() -> None:
    """Measure each kind of lateness at each size, the agent and the loop in turn."""
    parser = arguments(__doc__ or "", repeat=7)
    parser.add_argument("--sizes", type=numbers, default="8,64,256,1000", help="numbers of hosts")
    parser.add_argument("--late", default="port,name", help="what is late: port, name or both")
    given = parser.parse_args()
    enter_own_namespaces()
    cases = [case for case in (_AGENT, _LOOP) if case not in given.without]
    headings = ("late", "hosts", "case", "median s", "worst s")
    with (
        name_server() as names,
        light_farm(max(given.sizes)) as farm,
        namespace_hosts("late") as (elsewhere,),
        recording(given.json, *headings) as record,
    ):
        place = _Place(names=names, farm=farm, elsewhere=elsewhere)
        for late in given.late.split(","):
            for size in given.sizes:
                delays_s: dict[str, list[float]] = {case: [] for case in cases}
                for _ in range(given.repeat):
                    for case in cases:
                        delay_s = _delay(case, _argv(case, given.agent, size), late, size, place)
                        delays_s[case].append(delay_s)
                        record.run(late=late, hosts=size, case=case, delay_s=delay_s)
                _tabulate(late, size, delays_s, record)


def _delay(case: str, argv: tuple[str, ...], late: str, size: int, place: _Place) -> float:
    """Return the seconds from the first moment at which a login works to the end of the wait."""
    appear = _make_late(late, size, place)
    run = Run(argv)
    others_s = size * _PER_HOST_S if case == _AGENT else 0.0
    time.sleep(_FIRST_S + others_s + _SPREAD_S * random.random())
    appeared_at_s = appear()
    try:
        return run.finish_well().ended_at_s - appeared_at_s
    finally:
        place.elsewhere.stop_sshd()


def _make_late(late: str, size: int, place: _Place) -> Callable[[], float]:
    """Hide the last worker; return what makes it appear and tells when a login began to work."""
    ready = dict(list(place.farm.items())[: size - 1])
    last = worker_name(size - 1)
    if late == "name":
        place.names.publish(ready)
        return lambda: place.names.publish(ready | {last: place.farm[last]})
    place.names.publish(ready | {last: place.elsewhere.address})
    return place.elsewhere.start_sshd


def _argv(case: str, agent: list[str], size: int) -> tuple[str, ...]:
    if case == _LOOP:
        loop = "until ssh -o ConnectTimeout=3 $0 true; do sleep 1; done"
        return ("sh", "-c", loop, worker_name(size - 1))
    hostfile = write_hostfile(tuple(map(worker_name, range(size))))
    options = f"--hostfile {hostfile} --ssh-key {JOB_KEY} --timeout 10m"
    return (*agent, "wait", *options.split())


def _tabulate(late: str, size: int, delays_s: dict[str, list[float]], record: Record) -> None:
    medians_s = {case: statistics.median(values) for case, values in delays_s.items()}
    for case, values in delays_s.items():
        record.row(late, str(size), case, f"{medians_s[case]:.3f}", f"{max(values):.3f}")
    if _AGENT in delays_s:
        worst_s = max(delays_s[_AGENT])
        # a name that is missing is asked for at most twice a second, so DNS sets that pace
        target_s = _PROMISED_S if late == "port" else None
        record.verdict(f"{_AGENT}, {late}, {size} hosts, worst s", worst_s, target_s)
    if len(medians_s) > 1:
        ratio = medians_s[_AGENT] / medians_s[_LOOP]
        record.verdict(f"{_AGENT} / {_LOOP}, {late}, {size} hosts", ratio)


if __name__ == "__main__":
    main()
