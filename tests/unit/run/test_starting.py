"""The start-up deadline: who is missing what, and that a healthy program never ends for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import RanksStarted
from mpi_agent.job.run_reports import HostPresence, HostUsage, RankCpu
from mpi_agent.run.missing_ranks import StartedHosts, StartTerms, default_limit_s
from mpi_agent.run.starting import start_too_late
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

HOSTS = ("w-0", "w-1", "w-2")
HYDRA = StartTerms(hosts=HOSTS, np=6)
OPEN_MPI = StartTerms(hosts=HOSTS, np=6, come_at_once=True)
HOUR_S = 3600.0


def on(host: str, *, daemons: int = 1, ranks: int = 0, had_ranks: bool = False) -> HostPresence:
    """Return what is on a host."""
    return HostPresence(host=host, daemons=daemons, ranks=ranks, had_ranks=had_ranks or ranks > 0)


def nothing_on(host: str) -> HostPresence:
    """Return that nothing of the run is there."""
    return on(host, daemons=0)


def missing(terms: StartTerms, *presence: HostPresence) -> str:
    """Return who is missing what, after one look; empty for nobody."""
    started = StartedHosts(terms)
    started.take(presence)
    return started.missing.sentence


def test_hosts_are_named_with_what_they_lack() -> None:
    """The one whose daemon is missing is most likely the cause, so it stands first."""
    assert missing(HYDRA, on("w-0"), nothing_on("w-1"), on("w-2")) == (
        "w-1: no daemon; w-[0,2]: daemon and no rank"
    )


@pytest.mark.parametrize("terms", [HYDRA, OPEN_MPI], ids=["hydra", "open-mpi"])
def test_nobody_is_missing_once_every_host_has_ranks_or_had(terms: StartTerms) -> None:
    """A rank may have ended before anybody looked."""
    seen = (on("w-0", ranks=2), on("w-1", ranks=1), nothing_on("w-2"))
    assert missing(terms, *seen[:2], on("w-2", daemons=0, had_ranks=True)) == ""


def test_hosts_of_which_nothing_is_known_count_as_started() -> None:
    """A healthy program must never be ended for what nobody knows."""
    assert missing(HYDRA, on("w-0", ranks=2), on("w-1", ranks=2)) == ""
    assert missing(HYDRA) == ""


def test_one_rank_of_open_mpi_tells_that_every_daemon_has_called_back() -> None:
    """It starts none before; ranks that are gone elsewhere had their time."""
    seen = (on("w-0", ranks=2), on("w-1"), nothing_on("w-2"))

    assert missing(OPEN_MPI, *seen) == ""
    assert missing(HYDRA, *seen) == "w-2: no daemon; w-1: daemon and no rank"


def test_nobody_is_missing_once_there_are_as_many_ranks_as_asked_for() -> None:
    """Some hosts may have none on purpose."""
    terms = StartTerms(hosts=HOSTS, np=2, may_idle=True)

    assert missing(terms, on("w-0", ranks=2), nothing_on("w-1"), nothing_on("w-2")) == ""


def test_idle_hosts_are_not_missing_and_a_proxy_that_waits_is() -> None:
    """Hydra starts a proxy only where there will be ranks."""
    terms = StartTerms(hosts=HOSTS, np=3, may_idle=True)

    assert missing(terms, on("w-0", ranks=2), nothing_on("w-1"), nothing_on("w-2")) == ""
    assert missing(terms, on("w-0", ranks=2), on("w-1"), nothing_on("w-2")) == (
        "w-1: daemon and no rank"
    )


def test_nothing_anywhere_is_missing_everywhere_also_where_hosts_may_idle() -> None:
    """Then nothing has started."""
    terms = StartTerms(hosts=HOSTS, np=2, may_idle=True)

    assert missing(terms, *map(nothing_on, HOSTS)) == "w-[0-2]: no daemon"


def test_a_host_without_anything_may_be_done_where_ranks_have_ended_already() -> None:
    """A program without MPI may be done on one host, and go on for hours on another."""
    started = StartedHosts(HYDRA)
    started.take([on("w-0", ranks=2), on("w-1", ranks=2), nothing_on("w-2")])
    assert started.missing.is_any

    started.take([on("w-0", ranks=1, had_ranks=True)])

    assert not started.missing.is_any


def test_what_a_host_said_before_does_not_count_once_it_does_not_answer() -> None:
    """It is not known any more."""
    started = StartedHosts(HYDRA)
    started.take([on("w-0", ranks=2), on("w-1", ranks=2), on("w-2")])
    assert started.missing.without_ranks == ("w-2",)

    started.take([], asked=("w-2",))

    assert not started.missing.is_any


def test_the_limit_grows_with_the_hosts() -> None:
    """Launchers dial them one by one."""
    assert default_limit_s(2) == 61.0
    assert default_limit_s(1000) == 560.0


class Hosts:
    """Hosts whose presence changes with time; plain ones are told of only when asked.

    Args:
        story: from when on a host shows something.
        busy_until_s: until when ranks use their CPU.
    """

    def __init__(
        self,
        *story: tuple[float, HostPresence],
        plain: tuple[str, ...] = (),
        deaf: str = "",
        busy_until_s: float = 0.0,
    ) -> None:
        self._story = story
        self._deaf = deaf
        self._busy_until_s = busy_until_s
        self.plain_names = plain
        self.asked: list[tuple[float, tuple[str, ...]]] = []

    def known_presence(self) -> tuple[HostPresence, ...]:
        """Return what agents tell now."""
        return self._now(set(HOSTS) - set(self.plain_names))

    async def presence(self, plain: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Return it with what plain hosts answer."""
        asked = self.plain_names if plain is None else tuple(plain)
        self.asked.append((asyncio.get_running_loop().time(), asked))
        await asyncio.sleep(0.1)
        return (*self.known_presence(), *self._now(set(asked) - {self._deaf}))

    async def measure(self) -> tuple[HostUsage, ...]:
        """Return what the ranks used, of which each host has one."""
        used_s = min(asyncio.get_running_loop().time(), self._busy_until_s)
        ranks = (RankCpu(rank=0, cpu_s=used_s),)
        there = self._now(set(HOSTS) - {self._deaf})
        return tuple(HostUsage(host=told.host, ranks=ranks * bool(told.ranks)) for told in there)

    def _now(self, names: set[str]) -> tuple[HostPresence, ...]:
        now_s = asyncio.get_running_loop().time()
        latest = {told.host: told for at_s, told in self._story if at_s <= now_s}
        return tuple(told for name, told in latest.items() if name in names)


def watched(
    hosts: Hosts, terms: StartTerms = HYDRA, *, limit_s: float | None = 60.0
) -> tuple[Alarm | None, float, list[RanksStarted]]:
    """Return the alarm of an hour, None for none; when it came; and what was told."""
    recorder = EventRecorder()

    async def watch(loop: VirtualTimeLoop) -> tuple[Alarm | None, float]:
        alarm = asyncio.create_task(start_too_late(hosts, terms, limit_s=limit_s, emit=recorder))
        done, _ = await asyncio.wait({alarm}, timeout=HOUR_S)
        at_s = loop.time()
        alarm.cancel()
        return (alarm.result() if done else None), at_s

    alarm, at_s = run_in_virtual_time(watch)
    return alarm, at_s, [e for e in recorder.events if isinstance(e, RanksStarted)]


def test_the_alarm_names_who_is_missing_once_the_time_is_over() -> None:
    """No rank was seen, so nothing was lost by ending it: code 200."""
    alarm, at_s, told = watched(Hosts((1.0, on("w-0")), (1.0, on("w-1")), (0.0, nothing_on("w-2"))))

    assert alarm == Alarm(
        kind=AlarmKind.START_TOO_LATE,
        why=(
            "no rank was seen 60 s after mpirun's start: "
            "w-2: no daemon; w-[0-1]: daemon and no rank"
        ),
        ranks_were_seen=False,
    )
    assert 60.0 <= at_s < 61.0
    assert told == []


TWO_OF_THREE = ((1.0, on("w-0", ranks=2)), (1.0, on("w-1", ranks=2)), (1.0, nothing_on("w-2")))


def test_the_alarm_says_that_ranks_were_seen() -> None:
    """Code 201: they may have done something."""
    alarm, _, _ = watched(Hosts(*TWO_OF_THREE))

    assert alarm is not None
    assert alarm.ranks_were_seen
    assert alarm.why == "ranks were missing 60 s after mpirun's start: w-2: no daemon"


def test_ranks_that_compute_are_not_ended_for_those_that_may_be_done() -> None:
    """A program without MPI may be done at once on one host, and go on elsewhere."""
    assert watched(Hosts(*TWO_OF_THREE, busy_until_s=HOUR_S))[0] is None


def test_ranks_that_compute_before_they_wait_are_ended_once_they_wait() -> None:
    """They load their data before they look for the others."""
    alarm, at_s, _ = watched(Hosts(*TWO_OF_THREE, busy_until_s=200.0))

    assert alarm is not None
    assert 200.0 < at_s < 240.0


def test_ranks_of_which_nobody_tells_what_they_do_are_not_ended() -> None:
    """They may compute."""
    assert watched(Hosts(*TWO_OF_THREE, deaf="w-1", plain=("w-1",)))[0] is None


def test_the_start_is_told_once_and_never_alarmed_about_afterwards() -> None:
    """Ranks that end before others are no late start."""
    story = [(5.0, on(name, ranks=2)) for name in HOSTS]
    ended = [(9.0, on(name, had_ranks=True)) for name in HOSTS]

    alarm, _, told = watched(Hosts(*story, *ended))

    assert alarm is None
    assert [(event.host_count, round(event.after_s)) for event in told] == [(3, 5)]


def test_plain_hosts_are_asked_ever_more_seldom_and_once_more_at_the_end() -> None:
    """Each ask is a login; only those are asked where no rank was seen yet."""
    hosts = Hosts(
        (0.0, on("w-0", ranks=2)),
        (3.0, on("w-1", ranks=2)),
        (0.0, on("w-2")),
        plain=HOSTS,
    )

    alarm, at_s, _ = watched(hosts)

    assert alarm is not None
    assert alarm.why.endswith("w-2: daemon and no rank")
    assert [names for _, names in hosts.asked[:3]] == [HOSTS, ("w-1", "w-2"), ("w-2",)]
    assert len(hosts.asked) < 8
    assert hosts.asked[-1][0] >= 60.0
    assert at_s < 66.0


def test_a_plain_host_that_does_not_answer_ends_nothing() -> None:
    """It may be lost; that is noticed elsewhere."""
    hosts = Hosts((0.0, on("w-0", ranks=2)), (0.0, on("w-1", ranks=2)), plain=("w-2",), deaf="w-2")

    assert watched(hosts)[0] is None


def test_a_limit_at_which_nothing_was_known_yet_ends_the_start_once_something_is() -> None:
    """A tenth of a second is over before any agent was heard."""
    alarm, at_s, told = watched(Hosts(*((0.5, on(name)) for name in HOSTS)), limit_s=0.1)

    assert alarm is not None
    assert alarm.why == "no rank was seen 0.1 s after mpirun's start: w-[0-2]: daemon and no rank"
    assert 0.5 <= at_s < 1.5
    assert told == []


def test_a_start_that_is_seen_only_after_the_limit_is_told_all_the_same() -> None:
    """Nothing was known by then, and all was there when something was."""
    alarm, _, told = watched(Hosts(*((0.5, on(name, ranks=2)) for name in HOSTS)), limit_s=0.1)

    assert alarm is None
    assert [event.host_count for event in told] == [3]


def test_a_start_whose_last_host_is_heard_only_after_the_limit_is_told() -> None:
    """It counted as started until then, and ranks may have come and gone there unseen."""
    two = ((1.0, on("w-0", ranks=2)), (1.0, on("w-1", ranks=2)))

    alarm, _, told = watched(Hosts(*two, (300.0, on("w-2", ranks=2))))
    assert (alarm, [round(event.after_s / 10) for event in told]) == (None, [30])

    assert watched(Hosts(*two, (300.0, nothing_on("w-2")))) == (None, HOUR_S, [])


def test_a_start_that_is_complete_after_a_doubt_is_told() -> None:
    """Ranks computed before the last host had its own."""
    alarm, _, told = watched(Hosts(*TWO_OF_THREE, (70.0, on("w-2", ranks=2)), busy_until_s=HOUR_S))

    assert alarm is None
    assert [round(event.after_s / 10) for event in told] == [7]


def test_without_a_limit_nothing_is_ended_and_asking_comes_to_an_end() -> None:
    """A limit of 0 says that too."""
    for limit_s in (None, 0.0):
        hosts = Hosts((0.0, on("w-2")), plain=("w-2",))

        assert watched(hosts, limit_s=limit_s)[0] is None
        assert 0 < len(hosts.asked) <= 8


@pytest.mark.parametrize("come_at_once", [False, True])
def test_only_hosts_with_ranks_are_counted_where_others_may_stay_idle(come_at_once: bool) -> None:
    """One rank of three slots on three hosts; Open MPI has a daemon on the others."""
    terms = StartTerms(hosts=HOSTS, np=1, may_idle=True, come_at_once=come_at_once)
    hosts = Hosts((0.0, on("w-0", ranks=1)), (0.0, on("w-1")), (0.0, nothing_on("w-2")))

    _, _, (started,) = watched(hosts, terms)

    assert started.host_count == 1


def test_ranks_that_are_seen_a_moment_later_on_their_hosts_are_counted_too() -> None:
    """Two of four slots, on two hosts, whose agents look once a second."""
    terms = StartTerms(hosts=HOSTS, np=2, may_idle=True, come_at_once=True)
    hosts = Hosts((1.0, on("w-0", ranks=1)), (2.0, on("w-1", ranks=1)), (0.0, nothing_on("w-2")))

    _, _, (started,) = watched(hosts, terms)

    assert started.host_count == 2
    assert started.after_s < 1.5


def test_hosts_on_which_nobody_sees_ranks_count_where_all_have_some() -> None:
    """Open MPI starts all at once; a plain host need not be asked for that."""
    hosts = Hosts((0.0, on("w-0", ranks=2)), plain=("w-1", "w-2"))

    _, _, (started,) = watched(hosts, OPEN_MPI)

    assert started.host_count == 3
