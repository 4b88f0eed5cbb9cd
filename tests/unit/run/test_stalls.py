"""Silence: who is busy, who is idle, what is said of it and when it ends the program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import Event, RanksStalled
from mpi_agent.job.run_reports import HostUsage, RankCpu
from mpi_agent.run.rank_activity import activity_between
from mpi_agent.run.stalls import stalled
from mpi_agent.setting_words import StallAction
from tests.fakes import VirtualTimeLoop, run_in_virtual_time

HOSTS = ("w-0", "w-1")
TIMEOUT_S = 600.0


def usage(host: str, **cpu_s: float) -> HostUsage:
    """Return what ranks used, given as `r3=1.5`."""
    ranks = (RankCpu(rank=int(name[1:]), cpu_s=used) for name, used in cpu_s.items())
    return HostUsage(host=host, ranks=tuple(ranks))


def said(*after: HostUsage, hosts: tuple[str, ...] = HOSTS) -> str:
    """Return the sentence about ranks that had used nothing 100 s ago."""
    before = [usage(h.host, **{f"r{r.rank}": 0.0 for r in h.ranks}) for h in after]
    return activity_between(before, after, hosts=hosts, took_s=100.0).sentence


def test_busy_and_idle_ranks_are_told_apart_and_the_idle_ones_named_with_their_host() -> None:
    """Those who wait burn their CPU; the one they wait for is what people look for."""
    assert said(usage("w-0", r0=100, r1=99), usage("w-1", r2=98, r3=0.2)) == (
        "ranks 0-2 are busy, rank 3 on w-1 is idle"
    )
    assert said(usage("w-0", r0=0, r1=0), usage("w-1", r2=90, r3=0, r4=90, r5=90)) == (
        "ranks 2,4-5 are busy, ranks 0-1 on w-0 are idle, rank 3 on w-1 is idle"
    )


def test_all_busy_and_all_idle_are_said_in_few_words() -> None:
    """However many there are."""
    assert said(usage("w-0", r0=9, r1=9), usage("w-1", r2=9)) == "all 3 ranks are busy"
    assert said(usage("w-0", r0=0, r1=0), usage("w-1", r2=0)) == "all 3 ranks are idle"


def test_many_idle_ranks_are_folded() -> None:
    """One line is for people."""
    many = {f"r{rank}": 0.0 for rank in range(1, 20)}
    assert said(usage("w-0", r0=90), usage("w-1", **many)) == (
        "rank 0 is busy, ranks 1-19 are idle"
    )


def test_hosts_that_do_not_tell_are_counted_and_make_no_stall() -> None:
    """What nobody knows ends no program."""
    before = after = (usage("w-0", r0=1.0),)
    activity = activity_between(before, after, hosts=HOSTS, took_s=10.0)

    assert activity.sentence == "rank 0 on w-0 is idle, 1 host does not tell"
    assert not activity.is_stalled
    assert said(hosts=()) == "no host tells what its ranks do"


def test_a_rank_that_was_not_there_before_is_busy() -> None:
    """It has just begun."""
    activity = activity_between(
        [usage("w-0", r0=5.0)], [usage("w-0", r0=0.0, r1=0.0)], hosts=["w-0"], took_s=10.0
    )

    assert activity.busy == (0, 1)


def watched(
    cpu_s: Callable[[int, float], float],
    *,
    output_at_s: Callable[[float], float] = lambda _: 0.0,
    action: StallAction = StallAction.REPORT,
    timeout_s: float | None = TIMEOUT_S,
    for_s: float = 7200.0,
    mute: str = "",
) -> tuple[Alarm | None, list[tuple[float, str]], int]:
    """Return the alarm, what was reported when, and how often ranks were measured.

    Args:
        cpu_s: what ranks 0 and 1, each on a host, have used at a time.
        output_at_s: when something was written last, at a time.
    """
    told, measures = list[tuple[float, str]](), list[float]()

    async def watch(loop: VirtualTimeLoop) -> Alarm | None:
        async def measure() -> tuple[HostUsage, ...]:
            measures.append(loop.time())
            now = [usage(h, **{f"r{n}": cpu_s(n, loop.time())}) for n, h in enumerate(HOSTS)]
            return tuple(host for host in now if host.host != mute)

        def emit(event: Event) -> None:
            assert isinstance(event, RanksStalled)
            assert event.ends_program == (action is StallAction.END and "all" in event.why)
            assert event.is_stalled == ("idle" in event.why)
            told.append((round(event.silent_s), event.why))

        work = stalled(
            lambda: output_at_s(loop.time()),
            measure,
            hosts=HOSTS,
            timeout_s=timeout_s,
            action=action,
            emit=emit,
        )
        alarm = asyncio.create_task(work)
        done, _ = await asyncio.wait({alarm}, timeout=for_s)
        alarm.cancel()
        return alarm.result() if done else None

    return run_in_virtual_time(watch), told, len(measures)


def idle(_: int, __: float) -> float:
    """Use nothing."""
    return 1.0


def busy(_: int, at_s: float) -> float:
    """Use all there is."""
    return at_s


def test_idle_ranks_are_reported_once_and_go_on() -> None:
    """Reporting is the default."""
    alarm, told, _ = watched(idle)

    assert alarm is None
    assert told == [(600, "all 2 ranks are idle")]


def test_idle_ranks_are_ended_where_that_is_asked_for() -> None:
    """Code 203."""
    alarm, told, _ = watched(idle, action=StallAction.END)

    assert alarm == Alarm(
        kind=AlarmKind.RANKS_STALLED,
        why="nothing was written for 600 s and all 2 ranks are idle",
    )
    assert told == [(600, "all 2 ranks are idle")]


def test_busy_ranks_are_reported_and_never_ended() -> None:
    """Healthy ones compute for hours in silence."""
    alarm, told, _ = watched(busy, action=StallAction.REPORT)
    assert (alarm, told) == (None, [(600, "all 2 ranks are busy")])

    def one(rank: int, at_s: float) -> float:
        return at_s if rank == 0 else 0.0

    assert watched(one, action=StallAction.END)[:2] == (
        None,
        [(600, "rank 0 is busy, rank 1 on w-1 is idle")],
    )


def test_it_is_said_again_when_the_last_busy_rank_is_idle_too() -> None:
    """And then it may end."""

    def first_busy(rank: int, at_s: float) -> float:
        return min(at_s, 1000.0) if rank == 0 else 0.0

    alarm, told, _ = watched(first_busy, action=StallAction.END)

    assert alarm is not None
    assert [why for _, why in told] == [
        "rank 0 is busy, rank 1 on w-1 is idle",
        "all 2 ranks are idle",
    ]


def test_ranks_that_wait_busily_for_one_that_is_idle_only_now_are_said_to_be_stalled() -> None:
    """What was said of busy ranks was no stall."""

    def last_idle(rank: int, at_s: float) -> float:
        return at_s if rank == 0 else min(at_s, 1000.0)

    assert watched(last_idle)[1] == [
        (600, "all 2 ranks are busy"),
        (1500, "rank 0 is busy, rank 1 on w-1 is idle"),
    ]


def test_a_host_that_does_not_tell_keeps_the_program_alive() -> None:
    """Its ranks may be busy."""
    alarm, told, _ = watched(idle, action=StallAction.END, mute="w-1")

    assert alarm is None
    assert told == [(600, "rank 0 on w-0 is idle, 1 host does not tell")]


def test_a_program_that_writes_now_and_then_is_not_even_measured() -> None:
    """Asking costs."""
    alarm, told, measures = watched(idle, output_at_s=lambda at_s: at_s // 100 * 100)

    assert (alarm, told, measures) == (None, [], 0)


def test_output_makes_it_all_begin_anew() -> None:
    """A second silence is reported too."""
    _, told, _ = watched(idle, output_at_s=lambda at_s: 0.0 if at_s < 1000 else 1000.0)

    assert told == [(600, "all 2 ranks are idle"), (600, "all 2 ranks are idle")]


def test_without_a_timeout_nothing_is_measured() -> None:
    """It is off by default."""
    assert watched(idle, timeout_s=None) == (None, [], 0)
