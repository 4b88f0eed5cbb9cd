"""The gate ends when it must, keeps to its budget, and each host ends in one row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_agent.job.events import EventSink, HostAdvanced, ProbeEnded, WaitProgressed, WaitStarted
from mpi_agent.job.readiness import Obstacle, ProbeResult, ReadinessReport, Stage
from mpi_agent.wait.gate import Gate
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from mpi_agent.wait.report import progress_line
from tests.fakes import EventRecorder, ScriptedProbe, VirtualTimeLoop, run_in_virtual_time

Reached = Callable[[Stage], None]
Script = dict[str, tuple[Obstacle | None, ...]]


def ignored(stage: Stage) -> None:
    """Take no notice of a stage."""


def a_gate(
    probe: ScriptedProbe,
    now_s: Callable[[], float],
    *,
    emit: EventSink | None = None,
    timeout_s: float | None = 60.0,
    parallel: int = 128,
    enough: int | None = None,
) -> Gate:
    """Return a gate without jitter."""
    return Gate(
        probe=probe,
        now_s=now_s,
        emit=emit or EventRecorder(),
        parallel=parallel,
        jitter=lambda: 0.0,
        timeout_s=timeout_s,
        enough=enough,
    )


def run_gate(
    script: Script,
    *,
    timeout_s: float | None = 60.0,
    parallel: int = 128,
    enough: int | None = None,
) -> tuple[ReadinessReport, ScriptedProbe, EventRecorder]:
    """Run a gate over scripted hosts, in virtual time."""
    recorder = EventRecorder()

    async def wait(loop: VirtualTimeLoop) -> tuple[ReadinessReport, ScriptedProbe]:
        probe = ScriptedProbe(script, loop.time)
        gate = a_gate(
            probe,
            loop.time,
            emit=recorder,
            timeout_s=timeout_s,
            parallel=parallel,
            enough=enough,
        )
        return await gate.wait(tuple(script)), probe

    report, probe = run_in_virtual_time(wait)
    return report, probe, recorder


def test_a_late_host_is_let_through_at_its_first_moment() -> None:
    """Nothing sleeps a fixed time."""
    report, probe, _ = run_gate({"a": (None,), "b": (Obstacle.PORT_REFUSED,) * 5 + (None,)})

    assert report.is_ready
    assert probe.asked.count("a") == 1
    assert probe.asked.count("b") == 6


def test_every_host_ends_in_exactly_one_row_and_no_probe_comes_after_the_deadline() -> None:
    """The report is complete, and the wait is bounded."""
    report, probe, _ = run_gate(
        {"a": (None,), "b": (Obstacle.NAME_UNKNOWN,), "c": (Obstacle.PORT_REFUSED,)}, timeout_s=3.0
    )

    assert [host.host for host in report.hosts] == ["a", "b", "c"]
    assert [host.host for host in report.laggards] == ["b", "c"]
    assert sum(host.attempts for host in report.hosts) == len(probe.asked)
    assert probe.in_flight == 0
    assert report.elapsed_s < 3.5


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([f"w-{i}" for i in range(6)]),
        st.lists(st.sampled_from([None, *Obstacle]), min_size=1, max_size=4).map(tuple),
        min_size=1,
    )
)
def test_whatever_the_hosts_answer_the_report_is_complete(script: Script) -> None:
    """One row a host, in order; ready exactly if its last answer was a yes; nobody asked late."""
    report, probe, recorder = run_gate(script, timeout_s=5.0)

    assert [host.host for host in report.hosts] == list(script)
    assert {host.host for host in report.hosts if host.is_ready} == {
        event.result.host
        for event in recorder.events
        if isinstance(event, ProbeEnded) and event.result.passed
    }
    assert probe.in_flight == 0
    assert report.elapsed_s < 6.0


def test_no_more_probes_are_in_flight_than_allowed() -> None:
    """One budget for the job."""
    _, probe, _ = run_gate({f"w-{i}": (None,) for i in range(50)}, parallel=7)

    assert probe.most_in_flight == 7


def test_a_refusal_that_does_not_heal_ends_the_wait_before_the_deadline() -> None:
    """Nobody waits ten minutes for a wrong key, even if another host is still to come."""
    report, _, _ = run_gate(
        {"a": (Obstacle.KEY_REFUSED,), "b": (Obstacle.PORT_REFUSED,)}, timeout_s=600.0
    )

    assert not report.is_ready
    assert LASTING_OBSTACLES[Obstacle.KEY_REFUSED] <= report.elapsed_s < 60


def test_a_wait_for_some_ends_as_soon_as_so_many_are_ready() -> None:
    """`mpi-agent wait --min-workers 2`."""
    report, _, _ = run_gate(
        {"a": (None,), "b": (Obstacle.PORT_REFUSED,), "c": (None,)}, timeout_s=600.0, enough=2
    )

    assert report.is_ready
    assert [host.host for host in report.laggards] == ["b"]
    assert report.elapsed_s < 60


def test_two_names_that_lead_to_one_sshd_are_not_two_hosts() -> None:
    """The job would run on fewer hosts than it has, and end with code 0 (P1)."""

    class OneDoor(ScriptedProbe):
        async def probe(self, host: str, reached: Reached = ignored) -> ProbeResult:
            return replace(await super().probe(host, reached), address="10.9.9.9")

    async def wait(loop: VirtualTimeLoop) -> ReadinessReport:
        script: Script = {"a": (None,), "b": (None,)}
        probe = OneDoor(script, loop.time)
        return await a_gate(probe, loop.time, timeout_s=3.0).wait(("a", "b"))

    report = run_in_virtual_time(wait)

    (host,) = report.laggards
    assert host.obstacle is Obstacle.ADDRESS_SHARED
    assert host.last_failure is not None
    assert "10.9.9.9 port 2222" in host.last_failure.detail


def test_a_name_that_leads_to_the_sshd_of_another_is_told_so_although_its_key_is_refused() -> None:
    """A worker's certificate names its worker; the cause is the address, not the key."""

    class OneDoor(ScriptedProbe):
        async def probe(self, host: str, reached: Reached = ignored) -> ProbeResult:
            return replace(await super().probe(host, reached), address="10.9.9.9", port=2222)

    async def wait(loop: VirtualTimeLoop) -> ReadinessReport:
        script: Script = {"a": (None,), "b": (Obstacle.HOST_KEY_UNKNOWN,)}
        return await a_gate(OneDoor(script, loop.time), loop.time, timeout_s=5.0).wait(("a", "b"))

    (host,) = run_in_virtual_time(wait).laggards

    assert host.obstacle is Obstacle.ADDRESS_SHARED


def test_hosts_that_are_named_later_are_waited_for_and_others_forgotten() -> None:
    """The operator's hostfile changes when the job is scaled; who stays keeps its stage."""

    async def scenario(loop: VirtualTimeLoop) -> tuple[ReadinessReport, list[str]]:
        script: Script = {"a": (None,), "b": (Obstacle.PORT_REFUSED,), "c": (None,)}
        probe = ScriptedProbe(script, loop.time)
        gate = a_gate(probe, loop.time)
        wait = asyncio.create_task(gate.wait(("a", "b")))
        await asyncio.sleep(5)
        gate.follow(("a", "c"))
        return await wait, probe.asked

    report, asked = run_in_virtual_time(scenario)

    assert [(host.host, host.is_ready) for host in report.hosts] == [("a", True), ("c", True)]
    assert asked.count("a") == 1


def test_how_far_a_probe_has_come_is_told_while_it_is_on_its_way() -> None:
    """A port that accepts and stays silent takes longer than some waits."""

    async def wait(loop: VirtualTimeLoop) -> ReadinessReport:
        script: Script = {"a": (None,)}
        probe = ScriptedProbe(script, loop.time, takes_s=9.0, tells_first=Stage.REACHABLE)
        return await a_gate(probe, loop.time, timeout_s=5.0).wait(("a",))

    report = run_in_virtual_time(wait)

    assert [(host.stage, host.attempts) for host in report.hosts] == [(Stage.REACHABLE, 0)]
    assert "port open, no answer yet" in progress_line(report)


def test_a_fault_of_our_own_ends_the_wait_at_once() -> None:
    """A probe that raises is a bug, and nobody waits for the deadline to hear of it."""

    class Broken(ScriptedProbe):
        async def probe(self, host: str, reached: Reached = ignored) -> ProbeResult:
            raise LookupError(host, reached)

    async def wait(loop: VirtualTimeLoop) -> ReadinessReport:
        return await a_gate(Broken({}, loop.time), loop.time).wait(("a",))

    with pytest.raises(LookupError):
        run_in_virtual_time(wait)


def test_a_host_that_is_taken_away_and_put_back_is_asked_again() -> None:
    """Even while its probe is still on the way."""

    async def scenario(loop: VirtualTimeLoop) -> ReadinessReport:
        script: Script = {"a": (None,), "b": (None,)}
        gate = a_gate(ScriptedProbe(script, loop.time, takes_s=2.0), loop.time)
        wait = asyncio.create_task(gate.wait(("a", "b")))
        await asyncio.sleep(1)
        gate.follow(("a",))
        gate.follow(("a", "b"))
        return await wait

    assert run_in_virtual_time(scenario).is_ready


def test_every_step_up_is_an_event_and_the_wait_says_when_it_begins() -> None:
    """Logs, metrics and status live on events alone."""
    _, probe, recorder = run_gate({"a": (Obstacle.PORT_REFUSED, None)})

    assert isinstance(recorder.events[0], WaitStarted)
    advanced = [event.host.stage for event in recorder.events if isinstance(event, HostAdvanced)]
    assert advanced == [Stage.RESOLVED, Stage.EQUIPPED]
    ended = [event for event in recorder.events if isinstance(event, ProbeEnded)]
    assert len(ended) == len(probe.asked) == 2
    assert ended[-1].report.is_ready


def test_an_unchanged_wait_is_told_every_two_minutes_and_when_time_is_short() -> None:
    """A log is for reading, and a silent one means that the agent is gone."""
    report, _, recorder = run_gate({"a": (Obstacle.PORT_REFUSED,)}, timeout_s=400.0)
    told_s = [e.report.elapsed_s for e in recorder.events if isinstance(e, WaitProgressed)]

    assert not report.is_ready
    assert 10 <= told_s[0] < 20
    early = [at_s for at_s in told_s if at_s < 365]
    assert len(early) == 3, told_s
    assert len(told_s) - len(early) <= 4


@pytest.mark.parametrize("obstacle", LASTING_OBSTACLES)
def test_a_lost_wait_ends_within_a_second_after_the_grace(obstacle: Obstacle) -> None:
    """Whenever the answers in between come."""
    report, _, _ = run_gate({"a": (obstacle,)}, timeout_s=600.0)

    late_s = report.elapsed_s - LASTING_OBSTACLES[obstacle]
    assert 0 <= late_s < 1.1


def test_a_host_that_was_let_in_at_the_door_of_another_is_asked_again() -> None:
    """An old record led it there; by now it is elsewhere, and the door is free."""

    class MovingIn(ScriptedProbe):
        """`a` is at the door of `b` until it is asked a second time."""

        async def probe(self, host: str, reached: Reached = ignored) -> ProbeResult:
            result = await super().probe(host, reached)
            has_moved = host == "a" and self.asked.count("a") > 1
            return replace(result, address="10.0.0.1" if has_moved else "10.0.0.2")

    async def wait(loop: VirtualTimeLoop) -> ReadinessReport:
        probe = MovingIn({"a": (None,), "b": (Obstacle.PORT_REFUSED, None)}, loop.time)
        return await a_gate(probe, loop.time, timeout_s=600.0).wait(("a", "b"))

    report = run_in_virtual_time(wait)

    assert report.is_ready
    assert [host.address for host in report.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert report.elapsed_s < 5
