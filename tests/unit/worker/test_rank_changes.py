"""What a launcher is told of its ranks on a host, from one look to the next."""

from __future__ import annotations

from mpi_agent.job_processes import JobProcess
from mpi_agent.process_table import ProcessKey
from mpi_agent.ssh.worker_words import Line, Presence, RankGone
from mpi_agent.worker.process_ends import ProcessEnd
from mpi_agent.worker.rank_changes import RankChanges


def a_rank(pid: int, rank: int, *, leads: bool = True, is_orphan: bool = False) -> JobProcess:
    """Return a live process of a rank."""
    return JobProcess(
        pid=pid,
        started_at_s=pid / 10,
        run_id="a",
        rank=rank,
        local_rank=None,
        leads_rank=leads,
        is_orphan=is_orphan,
    )


DAEMON = JobProcess(
    pid=1, started_at_s=0.1, run_id="a", rank=None, local_rank=None, leads_rank=False
)
FIRST, SECOND = a_rank(10, 0), a_rank(11, 1)


class Host:
    """What a host's looks show, and what is told of them."""

    def __init__(self) -> None:
        self.changes = RankChanges()
        self.ends: dict[ProcessKey, ProcessEnd] = {}

    def end(self, process: JobProcess, **how: int) -> None:
        """Let a process end."""
        self.ends[process.key] = ProcessEnd(**how)

    def look(self, *processes: JobProcess, daemons: int = 1) -> tuple[Line, ...]:
        """Return what is told after a look that shows some live processes."""
        return self.changes.looked(processes, daemons=daemons, end_of=self.ends.get)


def test_nothing_is_told_of_a_host_on_which_nothing_has_begun() -> None:
    """Its launcher knows that."""
    assert Host().look(daemons=0) == ()


def test_daemons_and_ranks_are_told_when_they_come_and_not_again() -> None:
    """A rank's children are not counted."""
    host = Host()

    assert host.look(DAEMON) == (Presence(daemons=1, ranks=0),)
    assert host.look(DAEMON, FIRST, SECOND, a_rank(12, 1, leads=False)) == (
        Presence(daemons=1, ranks=2),
    )
    assert host.look(DAEMON, FIRST, SECOND) == ()


def test_a_rank_that_ended_is_told_with_its_code_before_the_count() -> None:
    """However it ended, as far as somebody saw it."""
    host = Host()
    host.look(DAEMON, FIRST, SECOND)
    host.end(FIRST, code=7)

    assert host.look(DAEMON, SECOND) == (
        RankGone(rank=0, code=7, signal=None),
        Presence(daemons=1, ranks=1),
    )
    host.end(SECOND)
    assert host.look(daemons=0) == (
        RankGone(rank=1, code=None, signal=None),
        Presence(daemons=0, ranks=0),
    )


def test_an_end_that_was_heard_is_told_once() -> None:
    """The next look tells the count alone."""
    host = Host()
    host.look(DAEMON, FIRST)

    assert host.changes.ended(FIRST.key, ProcessEnd(signal=9)) == (
        RankGone(rank=0, code=None, signal=9),
    )
    assert host.changes.ended(FIRST.key, ProcessEnd(signal=9)) == ()
    assert host.look(DAEMON) == (Presence(daemons=1, ranks=0),)


def test_a_rank_that_looks_show_no_more_and_that_has_not_ended_is_still_there() -> None:
    """It wrote its title over its environment, and its daemon is gone."""
    host = Host()
    host.look(DAEMON, FIRST)

    assert host.look(daemons=0) == (Presence(daemons=0, ranks=1),)


def test_what_a_rank_leaves_behind_is_no_rank() -> None:
    """Neither while it lives nor when it ends."""
    host = Host()
    left = a_rank(20, 0, is_orphan=True)
    host.look(DAEMON, FIRST)
    host.end(FIRST, code=0)

    assert host.look(DAEMON, left)[-1] == Presence(daemons=1, ranks=0)
    host.end(left, code=0)
    assert host.look(DAEMON) == ()


def test_a_rank_whose_daemon_is_gone_is_still_a_rank() -> None:
    """MPICH's go on computing."""
    host = Host()
    host.look(DAEMON, FIRST)

    orphan = a_rank(10, 0, is_orphan=True)
    assert host.look(orphan, daemons=0) == (Presence(daemons=0, ranks=1),)


def test_two_ranks_of_one_number_are_two() -> None:
    """What MPI_Comm_spawn starts counts anew."""
    host = Host()

    assert host.look(DAEMON, FIRST, a_rank(30, 0)) == (Presence(daemons=1, ranks=2),)


def test_a_launcher_that_comes_back_is_told_what_is_there_now() -> None:
    """It may have missed the last change; one that heard of nothing has missed nothing."""
    host = Host()
    assert host.changes.presence(is_asked=True) == ()
    host.look(DAEMON, FIRST)
    host.end(FIRST, code=0)
    host.look(daemons=0)

    assert host.changes.presence() == ()
    assert host.changes.presence(is_asked=True) == (Presence(daemons=0, ranks=0),)
