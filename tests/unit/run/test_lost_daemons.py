"""Daemons that are gone while their ranks go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.run_reports import HostPresence
from mpi_agent.run.lost_daemons import DaemonWatch, daemon_lost
from tests.fakes import VirtualTimeLoop, run_in_virtual_time


def there(host: str = "w-1", *, daemons: int, ranks: int) -> HostPresence:
    """Return what of the run is on a host that had ranks."""
    return HostPresence(host=host, daemons=daemons, ranks=ranks, had_ranks=True)


WELL, ORPHANED, OVER = (
    there(daemons=1, ranks=2),
    there(daemons=0, ranks=2),
    there(daemons=0, ranks=0),
)


def alarm_of(
    look: Callable[[float], tuple[HostPresence, ...]], *, grace_s: float | None = 3.0
) -> tuple[Alarm | None, float]:
    """Return the alarm of an hour, None for none, and when it came.

    Args:
        look: returns what is where at a time since the program's start.
    """

    async def watch(loop: VirtualTimeLoop) -> tuple[Alarm | None, float]:
        alarm = asyncio.create_task(daemon_lost(lambda: look(loop.time()), grace_s=grace_s))
        done, _ = await asyncio.wait({alarm}, timeout=3600.0)
        at_s = loop.time()
        alarm.cancel()
        return (alarm.result() if done else None), at_s

    return run_in_virtual_time(watch)


def test_ranks_may_outlive_their_daemon_for_the_grace_and_no_longer() -> None:
    """Hydra would let them go on for ever."""
    alarm, at_s = alarm_of(
        lambda s: (there("w-0", daemons=1, ranks=2), WELL if s < 60 else ORPHANED)
    )

    assert alarm == Alarm(
        kind=AlarmKind.WORKERS_LOST,
        why="the MPI daemon on w-1 is gone and its ranks go on",
        losses=(
            HostLoss(
                host="w-1",
                why="its MPI daemon is gone and its ranks go on",
                after_s=63.0,
                noticed_after_s=3.0,
            ),
        ),
    )
    assert at_s == 63.0


def test_hosts_that_lost_theirs_at_one_moment_are_told_together() -> None:
    """With their names folded."""
    lost = (there("w-0", daemons=0, ranks=1), there("w-1", daemons=0, ranks=1))

    alarm, _ = alarm_of(
        lambda s: lost if s >= 9 else tuple(there(h.host, daemons=2, ranks=1) for h in lost)
    )

    assert alarm is not None
    assert alarm.why == "the MPI daemons on w-[0-1] are gone and their ranks go on"
    assert [loss.host for loss in alarm.losses] == ["w-0", "w-1"]


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda s: ORPHANED if s < 62.5 else OVER, id="an orderly end"),
        pytest.param(lambda s: ORPHANED if s % 3 else WELL, id="one that comes back"),
        pytest.param(lambda _: OVER, id="ended"),
        pytest.param(lambda _: WELL, id="well"),
    ],
)
def test_what_is_no_loss_rings_no_alarm(then: Callable[[float], HostPresence]) -> None:
    """A healthy program must never be ended for it."""
    assert alarm_of(lambda s: (WELL if s < 60 else then(s),))[0] is None


def test_a_daemon_that_was_never_seen_is_not_missed() -> None:
    """Whatever starts the ranks there may be none that the agent knows."""
    assert alarm_of(lambda _: (ORPHANED,))[0] is None


def test_without_a_grace_daemons_are_not_looked_after() -> None:
    """`--worker-timeout 0`: never end the program for a worker."""
    assert alarm_of(lambda s: (WELL if s < 1 else ORPHANED,), grace_s=None)[0] is None


def test_a_host_that_cannot_tell_for_a_while_begins_anew() -> None:
    """What it tells then is news."""
    watch = DaemonWatch(grace_s=3.0)

    assert watch.take((WELL,), at_s=0.0) == {}
    assert watch.take((ORPHANED,), at_s=1.0) == {}
    assert watch.take((), at_s=4.0) == {}
    assert watch.take((ORPHANED,), at_s=5.0) == {}
    assert watch.take((ORPHANED,), at_s=8.0) == {"w-1": 5.0}
