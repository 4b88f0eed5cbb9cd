"""Which processes on a host belong to a run, from what the host's kernel says of all of them.

A rank carries the run's id, which is passed by name. Its daemon does not where a plain sshd started
it: it is known as the daemon above such a rank, or, before there is one, as a daemon that was
dialled from where we dial, within this run's life. Whatever descends from a process of a run is of
that run too, so that a program which wrote over its environment is found.

Source: proc(5), Linux man-pages 6.03, "/proc/[pid]/stat"; times there are in USER_HZ, which is 100
on every architecture that MPI images are built for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpi_agent.mpi_processes import DAEMON_NAMES, RANK_VARIABLES
from mpi_agent.run.host_scripts import ENVIRONMENT_MARK, Target
from mpi_agent.variable_names import RUN_ID_VARIABLE

__all__ = ["HostListing", "HostProcess", "RunOnHost", "read_listing", "run_on_host"]

_TICKS_PER_S = 100
_STAT = re.compile(r"(\d+) \((.*)\) (\S) (.*)")
_VARIABLE = re.compile(rf"/proc/(\d+){re.escape(ENVIRONMENT_MARK)}(\w+)=(.*)")
_RANK = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """One live process of a host.

    Attributes:
        group: of the process; its leader's pid.
        cpu_s: with that of its children that have ended.
        started_ticks: after the machine's start.
        run_id: as its environment says; empty for none.
        rank: as its environment says.
        dialled_from: the address from which its ssh session came; empty for none.
    """

    pid: int
    parent: int
    group: int
    name: str
    cpu_s: float
    started_ticks: int
    run_id: str = ""
    rank: int | None = None
    dialled_from: str = ""

    @property
    def is_daemon(self) -> bool:
        """Whether it is what launchers start on a host."""
        return self.name in DAEMON_NAMES

    @property
    def starts_ranks(self) -> bool:
        """Whether it is the launcher's daemon, and not one that a rank started for itself."""
        return self.is_daemon and self.rank is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostListing:
    """The live processes of a host.

    Attributes:
        dialled_from: the address from which we asked.
        now_ticks: when the youngest of them began, which is about now.
    """

    processes: tuple[HostProcess, ...]
    dialled_from: str = ""
    now_ticks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnHost:
    """What of a run is on a host.

    Attributes:
        daemons: the launcher's.
        leaders: the topmost process of each rank.
        members: everything, daemons and ranks and what they started.
        rank_of: the rank that a member belongs to, by its pid; none for daemons.
    """

    daemons: tuple[HostProcess, ...]
    leaders: tuple[HostProcess, ...]
    members: tuple[HostProcess, ...]
    rank_of: Mapping[int, int]

    @property
    def rank_targets(self) -> tuple[Target, ...]:
        """What a signal for the ranks goes to."""
        return tuple(
            _target(leader, is_group=leader.group == leader.pid) for leader in self.leaders
        )

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every process, each by itself."""
        return tuple(_target(member, is_group=False) for member in self.members)

    def cpu_by_rank(self) -> tuple[tuple[int, float], ...]:
        """Return each rank with what it used until now, in the order of ranks."""
        sums: dict[int, float] = {}
        for member in self.members:
            rank = self.rank_of.get(member.pid)
            if rank is not None:
                sums[rank] = sums.get(rank, 0.0) + member.cpu_s
        return tuple(sorted(sums.items()))


def read_listing(answer: str) -> HostListing:
    """Return what a host printed for `host_scripts.list_line`; other lines say nothing."""
    variables: dict[int, dict[str, str]] = {}
    found: list[HostProcess] = []
    dialled_from = ""
    for line in answer.splitlines():
        if match := _VARIABLE.fullmatch(line):
            variables.setdefault(int(match[1]), {}).setdefault(match[2], match[3])
        elif match := _STAT.fullmatch(line):
            found += _process(match, variables.get(int(match[1]), {}))
        elif line.startswith("self="):
            dialled_from = _client_in(line.removeprefix("self="))
    return HostListing(
        processes=tuple(found),
        dialled_from=dialled_from,
        now_ticks=max((process.started_ticks for process in found), default=0),
    )


def run_on_host(
    listing: HostListing,
    is_of_run: Callable[[str], bool],
    *,
    began_before_s: float | None = None,
) -> RunOnHost:
    """Return what is there of the runs whose ids fit.

    Args:
        began_before_s: daemons without any rank that were dialled from our own address count as
            well, as long as they are no older than this; None where they do not.
    """
    children: dict[int, list[HostProcess]] = {}
    for process in listing.processes:
        children.setdefault(process.parent, []).append(process)
    roots = [p for p in listing.processes if p.run_id and is_of_run(p.run_id)]
    for daemon in (process for process in listing.processes if process.is_daemon):
        if ids := _ids_below(daemon, children):
            is_ours = all(is_of_run(run_id) for run_id in ids)
        else:
            is_ours = _is_dialled_by_us(daemon, listing, began_before_s)
        roots += [daemon] * is_ours
    return _with_descendants(roots, children, is_of_run)


def _with_descendants(
    roots: list[HostProcess],
    children: Mapping[int, list[HostProcess]],
    is_of_run: Callable[[str], bool],
) -> RunOnHost:
    """Return the roots and what descends from them, but for what is of another run."""
    members: dict[int, HostProcess] = {}
    waiting = list(roots)
    for process in waiting:  # which grows until the last leaf was looked at
        if process.pid not in members:
            members[process.pid] = process
            below = children.get(process.pid, ())
            waiting += [c for c in below if not c.run_id or is_of_run(c.run_id)]
    rank_of: dict[int, int] = {}
    leaders: list[HostProcess] = []
    for process in members.values():
        rank, above = _rank_of(process, members), members.get(process.parent)
        if rank is not None:
            rank_of[process.pid] = rank
        if _leads(process, above, rank, _rank_of(above, members)):
            leaders.append(process)
    daemons = tuple(m for m in members.values() if m.starts_ranks)
    return RunOnHost(
        daemons=daemons,
        leaders=tuple(leaders),
        members=tuple(members.values()),
        rank_of=rank_of,
    )


def _leads(
    process: HostProcess, above: HostProcess | None, rank: int | None, rank_above: int | None
) -> bool:
    """Return whether a process is the topmost one of its rank.

    What a daemon started counts as a rank though nothing says which: it may have wiped its
    environment, or belong to another account. An ssh there starts further daemons.
    """
    if process.starts_ranks:
        return False
    if rank is not None and rank != rank_above:
        return True
    is_below_daemon = above is not None and above.starts_ranks
    return is_below_daemon and rank is None and process.name != "ssh"


def _rank_of(process: HostProcess | None, members: Mapping[int, HostProcess]) -> int | None:
    """Return the rank that a process says, or the nearest one above it in the run."""
    seen: set[int] = set()
    while process is not None and process.pid not in seen:
        if process.rank is not None:
            return process.rank
        seen.add(process.pid)
        process = members.get(process.parent)
    return None


def _ids_below(top: HostProcess, children: Mapping[int, list[HostProcess]]) -> set[str]:
    """Return the run ids of a process and of all that descends from it."""
    seen: dict[int, HostProcess] = {}
    waiting = [top]
    for process in waiting:
        if process.pid not in seen:
            seen[process.pid] = process
            waiting += children.get(process.pid, ())
    return {process.run_id for process in seen.values() if process.run_id}


def _is_dialled_by_us(
    daemon: HostProcess, listing: HostListing, began_before_s: float | None
) -> bool:
    if began_before_s is None or not daemon.dialled_from:
        return False
    age_s = (listing.now_ticks - daemon.started_ticks) / _TICKS_PER_S
    return daemon.dialled_from == listing.dialled_from and age_s <= began_before_s


def _process(match: re.Match[str], variables: Mapping[str, str]) -> list[HostProcess]:
    """Return the process of a line of /proc/[pid]/stat, none for one that has ended."""
    fields = match[4].split()
    numbers = [fields[i] for i in (0, 1, 10, 11, 12, 13, 18)] if len(fields) > 18 else []
    if match[3] in "ZX" or not numbers or not all(number.isdigit() for number in numbers):
        return []
    parent, group, *ticks, started = (int(number) for number in numbers)
    ranks = (variables.get(name, "") for name in RANK_VARIABLES)
    return [
        HostProcess(
            pid=int(match[1]),
            parent=parent,
            group=group,
            name=match[2],
            cpu_s=sum(ticks) / _TICKS_PER_S,
            started_ticks=started,
            run_id=variables.get(RUN_ID_VARIABLE, ""),
            rank=next((int(rank) for rank in ranks if _RANK.fullmatch(rank)), None),
            dialled_from=_client_in(variables.get("SSH_CONNECTION", "")),
        )
    ]


def _client_in(connection: str) -> str:
    """Return the client's address in a value of SSH_CONNECTION.

    Source: ssh(1) of OpenSSH 9.2: client address and port, server address and port.
    """
    return connection.partition(" ")[0]


def _target(process: HostProcess, *, is_group: bool) -> Target:
    return Target(pid=process.pid, started_ticks=process.started_ticks, is_group=is_group)
