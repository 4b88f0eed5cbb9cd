"""What a launcher that comes back is told again."""

from __future__ import annotations

from mpi_agent.ssh.worker_words import (
    Draining,
    Farewell,
    GraceOver,
    Line,
    OutOfMemory,
    Presence,
    RankGone,
)
from mpi_agent.worker.untold import Untold

GONE = RankGone(rank=3, code=7, signal=None)
KILLS = OutOfMemory(kills=1, used_bytes=None, limit_bytes=None)


def told(*lines: Line) -> Untold:
    """Return what was told until now."""
    untold = Untold()
    for line in lines:
        untold.told(line)
    return untold


def test_what_happened_is_told_again_in_order_to_a_launcher_that_comes_back() -> None:
    """Its connection may have been broken when it was said."""
    assert told(KILLS, GONE, GraceOver()).again() == (KILLS, GONE, GraceOver())


def test_what_is_true_at_a_moment_is_not_told_again() -> None:
    """It is told anew, as it is then."""
    draining = Draining(signal_name="SIGTERM", grace_s=1.0, ranks=1)

    assert told(Presence(daemons=1, ranks=2), draining, Farewell()).again() == ()


def test_two_words_of_the_launcher_mean_that_it_has_heard() -> None:
    """One may have been on its way already; what was said later is told again."""
    untold = told(GONE)

    untold.heard()
    untold.told(KILLS)
    assert untold.again() == (GONE, KILLS)
    untold.heard()
    untold.told(GraceOver())
    untold.heard()
    assert untold.again() == (GraceOver(),)


def test_words_count_anew_on_a_new_connection() -> None:
    """What was told again may be lost again."""
    untold = told(GONE)
    untold.heard()
    untold.again()
    untold.heard()

    assert untold.again() == (GONE,)


def test_there_is_an_end_to_what_is_kept() -> None:
    """The latest is."""
    untold = told(*(RankGone(rank=rank, code=0, signal=None) for rank in range(5000)))

    lines = untold.again()
    assert len(lines) == 4096
    assert lines[-1] == RankGone(rank=4999, code=0, signal=None)
