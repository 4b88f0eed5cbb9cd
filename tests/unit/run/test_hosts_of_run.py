"""All hosts of a run behind one face."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection

import pytest

from mpi_agent.job.events import WorkersSwept
from mpi_agent.job.run_reports import HostPresence, HostSwept, HostUsage, SignalPassed
from mpi_agent.run.hosts_of_run import HostsOfRun, whom_told
from mpi_agent.run.stopping import Told
from mpi_agent.ssh.trust import SshTarget
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

TARGETS = tuple(SshTarget(name=f"w-{number}", port=22) for number in range(3))


def presence_of(name: str, ranks: int = 1) -> HostPresence:
    """Return one rank, or more."""
    return HostPresence(host=name, daemons=1, ranks=ranks, had_ranks=True)


class Agents:
    """Hosts with an agent.

    Args:
        strangers_in_the_end: who turns out to have none once told of the end.
    """

    def __init__(self, *names: str, strangers_in_the_end: tuple[str, ...] = ()) -> None:
        self._names = names
        self._strangers_in_the_end = strangers_in_the_end
        self.strangers: tuple[str, ...] = ()
        self.deaf: tuple[str, ...] = ()
        self.counts: dict[str, int] = {}
        self.given_up: list[str] = []

    def give_up(self, host: str) -> None:
        """Note it."""
        self.given_up.append(host)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are no strangers."""
        return tuple(name for name in self._names if name not in self.strangers)

    @property
    def presence(self) -> tuple[HostPresence, ...]:
        """Tell one rank each, or as many as were said."""
        return tuple(presence_of(name, self.counts.get(name, 1)) for name in self.names)

    async def pass_signal(self, _: signal.Signals) -> tuple[SignalPassed, ...]:
        """Pass it on, unless deaf."""
        return tuple(
            SignalPassed(host=name, ranks=None if name in self.deaf else 1) for name in self.names
        )

    async def measure(self) -> tuple[HostUsage, ...]:
        """Tell nothing of ranks."""
        return tuple(HostUsage(host=name, ranks=()) for name in self.names)

    async def sweep(self, *, limit_s: float = 5.0) -> tuple[HostSwept, ...]:
        """End two processes each."""
        assert limit_s > 0
        self.strangers = (*self.strangers, *self._strangers_in_the_end)
        return tuple(HostSwept(host=name, ended=2, segments=1) for name in self.names)


class Plain:
    """Hosts without an agent; one may not answer."""

    def __init__(self, *names: str, silent: str = "") -> None:
        self.names = names
        self.silent = silent
        self.counts: dict[str, int] = {}
        self.asked: list[str] = []
        self.has_begun = False
        self.given_up: list[str] = []

    def give_up(self, host: str) -> None:
        """Note it."""
        self.given_up.append(host)

    def adopt(self, target: SshTarget) -> None:
        """Take it in."""
        if target.name not in self.names:
            self.names = (*self.names, target.name)

    def begin(self) -> None:
        """Note it."""
        self.has_begun = True

    async def presence(self, names: Collection[str] | None = None) -> tuple[HostPresence, ...]:
        """Tell one rank each."""
        asked = self.names if names is None else names
        self.asked += asked
        return tuple(presence_of(n, self.counts.get(n, 1)) for n in asked if n != self.silent)

    async def pass_signal(self, _: signal.Signals) -> tuple[SignalPassed, ...]:
        """Pass it on, unless silent."""
        return tuple(
            SignalPassed(host=name, ranks=None if name == self.silent else 0) for name in self.names
        )

    async def measure(self) -> tuple[HostUsage, ...]:
        """Tell nothing of ranks."""
        return tuple(HostUsage(host=n, ranks=()) for n in self.names if n != self.silent)

    async def end(self, *, limit_s: float = 5.0) -> tuple[HostSwept, ...]:
        """End three processes each, one of them by force."""
        assert limit_s > 0
        return tuple(
            HostSwept(host=name, answered=False)
            if name == self.silent
            else HostSwept(host=name, ended=3, killed=1, left=1)
            for name in self.names
        )


class Own:
    """The container of the launcher."""

    async def watch(self) -> None:
        """See nothing."""

    def presence(self) -> HostPresence:
        """Tell one rank."""
        return presence_of("own")

    def pass_signal(self, _: signal.Signals) -> SignalPassed:
        """Pass it on."""
        return SignalPassed(host="own", ranks=1)

    def measure(self) -> HostUsage:
        """Tell nothing of ranks."""
        return HostUsage(host="own", ranks=())

    async def end(self) -> HostSwept:
        """End one process."""
        return HostSwept(host="own", ended=1)


def hosts(agents: Agents, plain: Plain, own: Own | None = None) -> HostsOfRun:
    """Return the three together."""
    return HostsOfRun(TARGETS, agents=agents, plain=plain, own=own, emit=EventRecorder())


def told_by(run: HostsOfRun) -> Told:
    """Return whom a TERM reached."""
    return asyncio.run(run.pass_signal(signal.SIGTERM))


def names_of(presence: tuple[HostPresence, ...]) -> list[str]:
    """Return who told."""
    return [host.host for host in presence]


def test_all_hosts_tell_what_is_there_and_plain_ones_only_when_asked() -> None:
    """Each ask is a login."""
    run = hosts(Agents("w-0"), Plain("w-1", "w-2"), Own())

    assert names_of(run.known_presence()) == ["own", "w-0"]
    assert names_of(asyncio.run(run.presence())) == ["own", "w-0", "w-1", "w-2"]
    assert names_of(asyncio.run(run.presence(["w-2"]))) == ["own", "w-0", "w-2"]


def test_a_worker_that_turns_out_to_be_a_stranger_is_asked_as_a_plain_host() -> None:
    """Its agent cannot be spoken with."""
    agents = Agents("w-0", "w-1", "w-2")
    run = hosts(agents, Plain())
    agents.strangers = ("w-1",)

    assert run.plain_names == ("w-1",)
    assert names_of(asyncio.run(run.presence())) == ["w-0", "w-2", "w-1"]
    assert [usage.host for usage in asyncio.run(run.measure())] == ["w-0", "w-2", "w-1"]


def test_a_signal_has_reached_all_only_when_every_host_says_so() -> None:
    """Else mpirun has to pass it on, too."""
    agents = Agents("w-0", "w-1")
    assert told_by(hosts(agents, Plain("w-2"), Own())).all

    assert not told_by(hosts(agents, Plain("w-2", silent="w-2"))).all
    assert not told_by(hosts(agents, Plain())).all
    agents.deaf = ("w-0",)
    assert not told_by(hosts(agents, Plain("w-2"))).all


def test_a_host_that_was_given_up_is_not_asked_for() -> None:
    """The program goes on without it, and a stop still reaches all the others."""
    agents, plain = Agents("w-0", "w-1"), Plain("w-2", silent="w-2")
    agents.deaf = ("w-0",)
    run = hosts(agents, plain)

    run.give_up("w-0")
    run.give_up("w-2")

    assert told_by(run) == Told(everywhere=True, ranks=1)


def test_a_host_without_ranks_answered_but_somewhere_must_be_one() -> None:
    """Where no rank is yet, nobody was told, although every host says so."""
    none, one, unknown = (SignalPassed(host="w-0", ranks=ranks) for ranks in (0, 1, None))
    other = SignalPassed(host="w-1", ranks=0)

    assert whom_told(["w-0", "w-1"], [one, other]).all
    assert whom_told(["w-0", "w-1"], [none, other]).nobody
    for passed in ([unknown, other], [none]):
        told = whom_told(["w-0", "w-1"], passed)
        assert (told.all, told.nobody) == (False, False)


def late(run: HostsOfRun, told: Told, *changes: Callable[[], None]) -> float:
    """Return when late ranks are noticed, where changes come after 10, 20, ... seconds."""

    async def work(loop: VirtualTimeLoop) -> float:
        began_s = loop.time()
        for number, change in enumerate(changes, start=1):
            loop.call_later(10.0 * number, change)
        async with asyncio.timeout(100.0):
            await run.late_ranks(told)
        return loop.time() - began_s

    return run_in_virtual_time(work)


def test_ranks_that_come_to_a_host_that_had_none_are_noticed() -> None:
    """On a plain host too, which is asked for that."""
    agents, plain = Agents("w-0", "w-1"), Plain("w-2")
    agents.counts["w-1"] = plain.counts["w-2"] = 0
    told = Told(everywhere=True, ranks=1, without_ranks=("w-1", "w-2"))

    assert 10 <= late(hosts(agents, plain), told, lambda: agents.counts.update({"w-1": 2})) < 13
    agents.counts["w-1"] = 0
    assert 10 <= late(hosts(agents, plain), told, lambda: plain.counts.update({"w-2": 1})) < 13


def test_ranks_of_a_second_mpirun_are_noticed_where_those_of_the_first_had_ended() -> None:
    """A script goes on after its first."""
    agents = Agents("w-0")
    run = hosts(agents, Plain())

    took_s = late(
        run,
        Told(everywhere=True, ranks=1),
        lambda: agents.counts.update({"w-0": 0}),
        lambda: agents.counts.update({"w-0": 1}),
    )

    assert 20 <= took_s < 23


def test_more_ranks_where_some_were_told_are_no_late_ones() -> None:
    """Processes below a rank's first one lead the rank once that one is gone."""
    agents, plain = Agents("w-0", "w-1"), Plain("w-2")
    told = Told(everywhere=True, ranks=3)

    with pytest.raises(TimeoutError):
        late(hosts(agents, plain), told, lambda: agents.counts.update({"w-0": 8}))
    assert plain.asked == []


def test_the_end_tells_the_sum_of_what_was_ended_and_who_was_silent() -> None:
    """One event, however many hosts."""
    agents, recorder = Agents("w-0"), EventRecorder()
    run = HostsOfRun(
        TARGETS, agents=agents, plain=Plain("w-1", "w-2", silent="w-2"), own=Own(), emit=recorder
    )

    swept = asyncio.run(run.sweep(limit_s=9.0, why="why not"))

    assert len(swept) == 4
    (event,) = recorder.events
    assert isinstance(event, WorkersSwept)
    assert (event.hosts, event.silent, event.why) == (3, ("w-2",), "why not")
    assert (event.ended, event.killed, event.left, event.segments) == (6, 1, 1, 1)


def test_a_stranger_that_shows_itself_only_in_the_end_is_swept_too() -> None:
    """Its channel was never opened before."""
    run = hosts(Agents("w-0", "w-1", strangers_in_the_end=("w-1",)), Plain())

    swept = asyncio.run(run.sweep(limit_s=9.0))

    assert [host.host for host in swept] == ["w-0", "w-1"]
