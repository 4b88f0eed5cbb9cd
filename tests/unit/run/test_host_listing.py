"""What of a host's processes belongs to a run, by the kernel's tables as text."""

from __future__ import annotations

from mpi_agent.run.host_listing import RunOnHost, read_listing, run_on_host
from mpi_agent.run_id import RunId

RUN = str(RunId(job="a" * 8, container="b" * 8, launch="c" * 8, attempt=1))
OTHER = str(RunId(job="a" * 8, container="b" * 8, launch="d" * 8, attempt=1))
US, SOMEBODY = "10.0.0.1 40000 10.0.0.2 22", "10.0.0.9 40000 10.0.0.2 22"


def stat(
    pid: int,
    parent: int,
    name: str = "app",
    *,
    group: int | None = None,
    state: str = "S",
    ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
    started: int = 100,
) -> str:
    """Return a line of /proc/[pid]/stat."""
    used = " ".join(str(number) for number in ticks)
    front = f"{pid} ({name}) {state} {parent} {pid if group is None else group}"
    return f"{front} 1 0 -1 0 0 0 0 0 {used} 20 0 1 0 {started} 1000 10 0"


def environ(pid: int, **variables: str) -> str:
    """Return what is said of a process's environment."""
    return "\n".join(f"/proc/{pid}/environ:{name}={value}" for name, value in variables.items())


def rank(pid: int, number: int, run_id: str = RUN) -> str:
    """Return what says that a process is a rank."""
    return environ(pid, MPI_AGENT_RUN_ID=run_id, OMPI_COMM_WORLD_RANK=str(number))


def found(*lines: str, self_is: str = US, began_before_s: float | None = None) -> RunOnHost:
    """Return what of the run is in a listing."""
    listing = read_listing("\n".join([f"self={self_is}", *lines]))
    return run_on_host(listing, RUN.__eq__, began_before_s=began_before_s)


def pids(processes: tuple[object, ...]) -> list[int]:
    """Return the pids, sorted."""
    return sorted(process.pid for process in processes)  # type: ignore[attr-defined]


def test_ranks_and_the_daemon_above_them_are_of_the_run() -> None:
    """A plain sshd started the daemon, so it carries no id."""
    run = found(
        rank(20, 0),
        rank(21, 1),
        stat(1, 0, "sshd"),
        stat(10, 1, "orted"),
        stat(20, 10),
        stat(21, 10),
    )

    assert pids(run.daemons) == [10]
    assert pids(run.leaders) == [20, 21]
    assert pids(run.members) == [10, 20, 21]


def test_both_daemons_of_intel_mpi_are_found() -> None:
    """One starts the other; the kernel keeps 15 bytes of a name."""
    run = found(
        rank(20, 0), stat(9, 1, "hydra_bstrap_pr"), stat(10, 9, "hydra_pmi_proxy"), stat(20, 10)
    )

    assert pids(run.daemons) == [9, 10]
    assert pids(run.leaders) == [20]


def test_what_a_rank_started_is_of_its_rank_whatever_its_environment_says() -> None:
    """A shell around the program leads it; a program may wipe its environment."""
    run = found(
        rank(20, 3), stat(20, 1, "sh"), stat(30, 20, "app", ticks=(100, 50, 30, 20)), stat(40, 30)
    )

    assert pids(run.leaders) == [20]
    assert run.cpu_by_rank() == ((3, 2.0),)


def test_processes_of_another_run_are_left_alone_with_their_daemon() -> None:
    """Two launches may share a host."""
    run = found(
        rank(20, 0),
        rank(21, 0, OTHER),
        stat(10, 1, "orted"),
        stat(20, 10),
        stat(11, 1, "orted"),
        stat(21, 11),
    )

    assert pids(run.members) == [10, 20]


def test_a_run_that_a_rank_launched_is_not_of_this_one() -> None:
    """It has an id of its own, and descends from the rank."""
    run = found(rank(20, 0), rank(30, 0, OTHER), stat(20, 1), stat(30, 20))

    assert pids(run.members) == [20]


def test_a_daemon_without_ranks_counts_where_we_dialled_it_within_the_run() -> None:
    """So a start that hangs is seen, and swept."""
    mine = (environ(10, SSH_CONNECTION=US), stat(10, 1, "prted", started=9_000))
    now = stat(50, 1, "cat", started=10_000)

    assert pids(found(*mine, now, began_before_s=15).daemons) == [10]
    assert pids(found(*mine, now, began_before_s=5).daemons) == []
    assert pids(found(*mine, now).daemons) == []
    assert pids(found(*mine, now, began_before_s=15, self_is=SOMEBODY).daemons) == []


def test_a_daemon_that_somebody_else_dialled_is_not_ours_however_young() -> None:
    """Another launcher's job on the same host has only begun."""
    theirs = (environ(10, SSH_CONNECTION=SOMEBODY), stat(10, 1, "prted"))

    assert pids(found(*theirs, began_before_s=100).members) == []


def test_what_a_daemon_started_is_a_rank_though_nothing_says_so() -> None:
    """The list of variables may be the user's own; an ssh there starts the next daemon."""
    run = found(
        environ(10, SSH_CONNECTION=US),
        stat(10, 1, "orted"),
        stat(20, 10, "app", group=20),
        stat(21, 10, "ssh"),
        began_before_s=100,
    )

    assert pids(run.leaders) == [20]
    assert run.cpu_by_rank() == ()
    assert [target.word for target in run.rank_targets] == ["20:100:-20"]


def test_a_shell_of_the_run_around_its_daemon_is_no_rank() -> None:
    """An sshd that takes the id gives it to the shell, too."""
    run = found(
        environ(9, MPI_AGENT_RUN_ID=RUN),
        environ(10, MPI_AGENT_RUN_ID=RUN),
        stat(9, 1, "sh"),
        stat(10, 9, "orted"),
    )

    assert pids(run.leaders) == []
    assert pids(run.members) == [9, 10]


def test_a_rank_is_signalled_as_a_group_only_where_it_leads_one() -> None:
    """Else the group is somebody else's as well."""
    run = found(rank(20, 0), rank(21, 1), stat(20, 1, group=20), stat(21, 1, group=7))

    assert [target.word for target in run.rank_targets] == ["20:100:-20", "21:100:21"]


def test_what_has_ended_is_not_there() -> None:
    """A zombie uses nothing, and takes no signal."""
    assert pids(found(rank(20, 0), stat(20, 1, state="Z")).members) == []


def test_names_with_blanks_and_parentheses_and_odd_lines_are_understood() -> None:
    """A program may call itself anything."""
    run = found(rank(20, 0), "no line of ours", "/proc/x/environ:A=", stat(20, 1, "a) S 1 (b"))

    assert [process.name for process in run.members] == ["a) S 1 (b"]


def test_a_rank_that_is_no_number_is_none() -> None:
    """Anybody may set any value."""
    run = found(environ(20, MPI_AGENT_RUN_ID=RUN, PMI_RANK="9" * 5000), stat(20, 1))

    assert run.cpu_by_rank() == ()
    assert pids(run.members) == [20]


def test_processes_in_a_ring_end_the_search_all_the_same() -> None:
    """A pid may be used anew while the tables are read."""
    run = found(rank(20, 0), stat(20, 21), stat(21, 20))

    assert pids(run.members) == [20, 21]
