"""Losses as the launcher notices them: who is looked at, when, and what is said."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence

import pytest

from mpi_agent.job.alarms import Alarm, AlarmKind
from mpi_agent.job.events import Event, Noted, WorkerLost, WorkerReturned, WorkerSuspected
from mpi_agent.job.readiness import HostReadiness, Stage
from mpi_agent.run.host_watch import NameLookup
from mpi_agent.run.liveness import Sign
from mpi_agent.run.lost_hosts import LostHosts
from mpi_agent.run.watched_worker import Heard
from mpi_agent.ssh.trust import SshTarget
from tests.fakes import EventRecorder, VirtualTimeLoop, run_in_virtual_time

AGENT = "SSH-2.0-OpenSSH_9.2p1 mpi-agent w"
TIMEOUT_S = 15.0


class _Hosts:
    """Hosts `w-0`, `w-1` and so on, that fall silent at times of the test.

    Args:
        agents: how many of them, from the first, speak on a channel every three seconds.
        looks_s: how long it takes to see that nobody is there; at most the limit.
        chance: the seed of what spreads the looks.
    """

    def __init__(
        self, count: int, *, agents: int = 0, looks_s: float = 2.0, chance: int = 1
    ) -> None:
        self.recorder = EventRecorder()
        self.known = tuple(
            HostReadiness(
                host=f"w-{n}",
                stage=Stage.EQUIPPED,
                is_ready=True,
                address=f"10.0.0.{n}",
                port=22,
                banner=AGENT if n < agents else "SSH-2.0-OpenSSH_9.2p1",
            )
            for n in range(count)
        )
        self._agents = agents
        self._looks_s = looks_s
        self._chance = random.Random(chance)
        self.gone: dict[str, tuple[float, Sign]] = {}
        self.channel_ends: set[str] = set()
        self.says: dict[str, dict[str, bool]] = {}
        self.probed: list[tuple[float, str]] = []
        self.banners: set[str] = set()
        self.given_up: list[str] = []
        self.idle: set[str] = set()
        self.probing = self.most_probing = 0

    def fall(self, sign: Sign, *numbers: int, at_s: float) -> None:
        """Let hosts be gone from a time on."""
        self.gone |= {f"w-{n}": (at_s, sign) for n in numbers}

    async def probe(self, target: SshTarget, *, limit_s: float, banner: str) -> Sign | None:
        """See what is there."""
        now_s = asyncio.get_running_loop().time()
        self.probed.append((now_s, target.name))
        self.banners.add(banner)
        self.probing += 1
        self.most_probing = max(self.probing, self.most_probing)
        try:
            since_s, sign = self.gone.get(target.name, (float("inf"), Sign.BANNER))
            if now_s < since_s:
                await asyncio.sleep(0.01)
                return Sign.BANNER
            is_answer = sign in (Sign.REFUSED, Sign.CLOSED, Sign.BANNER)
            await asyncio.sleep(0.01 if is_answer else min(limit_s, self._looks_s))
            return sign
        finally:
            self.probing -= 1

    def heard(self, host: str) -> Heard | None:
        """Tell what the channel does."""
        number = int(host.removeprefix("w-"))
        if number >= self._agents:
            return None
        now_s = asyncio.get_running_loop().time()
        gone_s, sign = self.gone.get(host, (float("inf"), Sign.BANNER))
        last_s = min(now_s, gone_s) // 3 * 3.0
        says = {"is_replaced": False, "is_evicted": False, "ends_all": False, "has_left": False}
        return Heard(
            is_open=not (sign in (Sign.REFUSED,) and now_s >= gone_s),
            last_word_s=last_s,
            **{**says, **self.says.get(host, {})},
        )

    def watch(
        self,
        until_s: float,
        *,
        at: Sequence[tuple[float, Callable[[VirtualTimeLoop], None]]] = (),
        timeout_s: float | None = TIMEOUT_S,
        look_up: NameLookup | None = None,
    ) -> tuple[float, Alarm] | None:
        """Return when and what was noticed, None where nothing was until then."""

        async def work(loop: VirtualTimeLoop) -> tuple[float, Alarm] | None:
            lost = LostHosts(
                self.known,
                worker_timeout_s=timeout_s,
                emit=self.recorder,
                heard=self.heard,
                is_idle=self.idle.__contains__,
                look_up=look_up,
                gone=self.given_up.append,
                probe=self.probe,
                room=lambda count: count,
                jitter=self._chance.random,
            )
            for at_s, do in at:
                loop.call_at(at_s, do, loop)
            try:
                async with asyncio.timeout(until_s):
                    alarm = await lost.noticed()
            except TimeoutError:
                return None
            finally:
                assert len(asyncio.all_tasks()) == 1
            return loop.time(), alarm

        return run_in_virtual_time(work)

    def events(self, kind: type[Event]) -> list[Event]:
        """Return the events of a kind."""
        return [event for event in self.recorder.events if isinstance(event, kind)]


def told(noticed: tuple[float, Alarm] | None) -> str:
    """Return an alarm's clause, with a fixed time of day."""
    assert noticed is not None
    return re.sub(r"\d\d:\d\d:\d\d", "12:01:07", noticed[1].why)


def test_hosts_that_answer_are_never_lost_and_nothing_is_told() -> None:
    """Ten minutes of a job, half of it plain hosts."""
    hosts = _Hosts(8, agents=4)

    assert hosts.watch(600.0) is None
    assert hosts.recorder.events == []
    assert {name for _, name in hosts.probed} == {"w-4", "w-5", "w-6", "w-7"}


def test_plain_hosts_are_looked_at_every_few_seconds_each_and_not_all_at_once() -> None:
    """Spread over the time."""
    hosts = _Hosts(100)

    hosts.watch(60.0)

    looks = [at_s for at_s, name in hosts.probed if name == "w-7"]
    assert 11 <= len(looks) <= 16
    assert hosts.most_probing <= 25


@pytest.mark.parametrize("sign", [Sign.SILENT, Sign.UNREACHABLE, Sign.MUTE])
@pytest.mark.parametrize("agents", [0, 3])
def test_a_host_that_falls_silent_is_lost_within_the_timeout(sign: Sign, agents: int) -> None:
    """With an agent or without one, whenever it happens."""
    for at_s in (20.0, 21.3, 22.9):
        hosts = _Hosts(3, agents=agents)
        hosts.fall(sign, 1, at_s=at_s)

        noticed = hosts.watch(100.0)

        assert noticed is not None
        assert noticed[0] - at_s <= TIMEOUT_S
        assert told(noticed) == f"w-1 lost: {sign.value} since 12:01:07"
        (loss,) = noticed[1].losses
        assert (noticed[1].kind, loss.host) == (AlarmKind.WORKERS_LOST, "w-1")
        assert loss.after_s == pytest.approx(noticed[0], abs=1.1)
        assert loss.noticed_after_s <= TIMEOUT_S
        assert [type(event) for event in hosts.recorder.events] == [WorkerSuspected, WorkerLost]


def test_a_container_that_was_killed_is_lost_in_a_third_of_the_timeout() -> None:
    """Its channel breaks, and then connections are refused."""
    hosts = _Hosts(3, agents=3)
    hosts.fall(Sign.REFUSED, 2, at_s=20.0)

    noticed = hosts.watch(100.0)

    assert noticed is not None
    assert noticed[0] - 20.0 <= 7.0
    assert told(noticed) == "w-2 lost: connection refused since 12:01:07"


@pytest.mark.parametrize("chance", range(20))
def test_hosts_that_are_lost_together_are_told_together(chance: int) -> None:
    """One switch; the times of their last signs are not the same."""
    hosts = _Hosts(8, agents=3, chance=chance)
    hosts.fall(Sign.SILENT, 1, 2, 3, at_s=20.0)

    noticed = hosts.watch(100.0)

    assert noticed is not None
    assert {loss.host for loss in noticed[1].losses} == {*hosts.given_up} == {"w-1", "w-2", "w-3"}
    assert told(noticed) == "w-[1-3] lost: no answer on TCP since 12:01:07"


def test_when_nobody_answers_any_more_it_may_be_our_own_network() -> None:
    """All are lost all the same."""
    hosts = _Hosts(8, agents=4)
    hosts.fall(Sign.UNREACHABLE, *range(8), at_s=20.0)

    noticed = hosts.watch(100.0)

    assert noticed is not None
    assert {loss.host for loss in noticed[1].losses} == {f"w-{n}" for n in range(8)}
    assert told(noticed) == (
        "no host answers any more, as if this container's own network were cut: "
        "w-[0-7] lost: no route to it since 12:01:07"
    )


def test_a_job_with_a_single_host_does_not_blame_its_own_network() -> None:
    """There is nobody to compare it with."""
    hosts = _Hosts(1)
    hosts.fall(Sign.SILENT, 0, at_s=20.0)

    assert told(hosts.watch(100.0)) == "w-0 lost: no answer on TCP since 12:01:07"


def test_a_thousand_hosts_that_fall_silent_at_once_are_lost_in_time() -> None:
    """Plain ones, each of which must be looked at twice; the log does not name each alone."""
    hosts = _Hosts(1000)
    hosts.fall(Sign.SILENT, *range(1000), at_s=30.0)

    noticed = hosts.watch(100.0)

    assert noticed is not None
    assert noticed[0] - 30.0 <= TIMEOUT_S + 1.0
    assert hosts.most_probing <= 512
    assert len(hosts.events(WorkerSuspected)) == 16
    assert len(hosts.events(Noted)) <= 20


def test_a_host_that_comes_back_is_told_to_be_there_again() -> None:
    """After seven seconds without network, and up to five since it was looked at."""
    hosts = _Hosts(2)
    hosts.fall(Sign.SILENT, 1, at_s=20.0)

    assert hosts.watch(100.0, at=[(27.0, lambda _: hosts.gone.clear())]) is None
    (suspected,), (returned,) = hosts.events(WorkerSuspected), hosts.events(WorkerReturned)
    assert isinstance(suspected, WorkerSuspected)
    assert isinstance(returned, WorkerReturned)
    assert (suspected.host, returned.host) == ("w-1", "w-1")
    assert 6.0 < returned.silent_s < 15.0


@pytest.mark.parametrize("frozen_s", [5.0, 20.0, 3600.0])
def test_a_launcher_that_stood_still_blames_nobody(frozen_s: float) -> None:
    """However long, with and without agents; words that came meanwhile are read afterwards."""
    hosts = _Hosts(4, agents=2)

    noticed = hosts.watch(
        frozen_s + 100.0, at=[(t, lambda loop: loop.skip(frozen_s)) for t in (20.0, 20.6, 40.0)]
    )

    assert noticed is None
    assert hosts.recorder.events == []


def test_an_agent_that_hangs_is_no_loss_as_long_as_its_host_shows_a_banner() -> None:
    """Nor is it suspected again and again."""
    hosts = _Hosts(2, agents=2)
    hosts.fall(Sign.BANNER, 1, at_s=20.0)

    assert hosts.watch(200.0) is None
    assert len(hosts.events(WorkerSuspected)) <= 1
    assert AGENT in hosts.banners


def test_another_container_on_the_channel_is_a_loss() -> None:
    """It was started anew where it was."""
    hosts = _Hosts(2, agents=2)

    noticed = hosts.watch(
        100.0, at=[(20.0, lambda _: hosts.says.update({"w-0": {"is_replaced": True}}))]
    )

    assert noticed is not None
    assert noticed[0] <= 22.0
    assert told(noticed) == "w-0 lost: another container answers in its place"


def test_a_worker_whose_drain_is_over_was_evicted() -> None:
    """When mpirun had some seconds to end by itself."""
    hosts = _Hosts(4, agents=4)
    over = {"is_evicted": True, "ends_all": True}

    noticed = hosts.watch(
        100.0, at=[(20.0, lambda _: hosts.says.update({"w-1": over, "w-2": over}))]
    )

    assert noticed is not None
    assert 25.0 <= noticed[0] <= 27.0
    assert told(noticed) == "w-[1-2] were evicted"
    assert {loss.why for loss in noticed[1].losses} == {"it was evicted"}


def test_a_worker_that_left_with_nothing_to_end_is_not_missed() -> None:
    """And then its pod goes."""
    hosts = _Hosts(2, agents=2)
    hosts.says["w-1"] = {"is_evicted": True, "has_left": True}
    hosts.fall(Sign.REFUSED, 1, at_s=20.0)

    assert hosts.watch(100.0) is None


def test_a_lost_host_whose_name_leads_elsewhere_was_replaced() -> None:
    """A pod that the controller made anew; nobody's name was asked before."""
    asked = []

    async def look_up(name: str) -> tuple[str, ...]:
        asked.append(name)
        return ("10.9.9.9",)

    hosts = _Hosts(3)
    hosts.fall(Sign.SILENT, 2, at_s=20.0)

    noticed = hosts.watch(100.0, look_up=look_up)

    assert told(noticed) == "w-2 lost: replaced by another pod at 10.9.9.9, was 10.0.0.2"
    assert asked == ["w-2"]


@pytest.mark.parametrize("way", ["hangs", "fails", "the same", "nothing"])
def test_a_name_server_that_does_not_help_changes_nothing(way: str) -> None:
    """Nor does it hold anything up."""

    async def look_up(_: str) -> tuple[str, ...]:
        if way == "hangs":
            await asyncio.sleep(3600.0)
        if way == "fails":
            raise OSError("no name server")
        return ("10.0.0.2",) if way == "the same" else ()

    hosts = _Hosts(3)
    hosts.fall(Sign.SILENT, 2, at_s=20.0)

    noticed = hosts.watch(100.0, look_up=look_up)

    assert told(noticed) == "w-2 lost: no answer on TCP since 12:01:07"
    assert noticed is not None
    assert noticed[0] <= 35.0


def test_without_a_timeout_nobody_is_looked_at_and_nobody_is_lost() -> None:
    """`--worker-timeout 0`."""
    hosts = _Hosts(3)
    hosts.fall(Sign.REFUSED, 0, 1, 2, at_s=0.0)

    assert hosts.watch(1000.0, timeout_s=None) is None
    assert hosts.probed == []


def test_the_loss_of_a_host_on_which_nothing_runs_is_noted_and_ends_nothing() -> None:
    """The end does not wait for it either, and it is not looked at any more."""
    hosts = _Hosts(3, agents=3)
    hosts.idle = {"w-1"}
    hosts.fall(Sign.SILENT, 1, at_s=20.0)

    assert hosts.watch(600.0) is None

    (note,) = [event.text for event in hosts.recorder.events if isinstance(event, Noted)]
    assert note.startswith("w-1 is lost, no answer on TCP since ")
    assert note.endswith("; nothing of the program ran there")
    assert hosts.given_up == ["w-1"]
    assert hosts.events(WorkerLost) == []
    assert max(at_s for at_s, name in hosts.probed if name == "w-1") < 40.0


def test_a_host_that_is_needed_is_lost_as_ever_after_one_that_is_not() -> None:
    """And stands alone in the sentence."""
    hosts = _Hosts(3, agents=3)
    hosts.idle = {"w-1"}
    hosts.fall(Sign.SILENT, 1, at_s=20.0)
    hosts.fall(Sign.SILENT, 2, at_s=100.0)

    noticed = hosts.watch(600.0)

    assert told(noticed) == "w-2 lost: no answer on TCP since 12:01:07"
    assert [loss.host for loss in noticed[1].losses] == ["w-2"] if noticed else False
