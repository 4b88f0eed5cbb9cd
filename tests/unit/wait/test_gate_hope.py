"""When hope is lost the gate ends within a second, and a host may get its own address back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.job.readiness import Obstacle, ProbeResult, ReadinessReport
from mpi_agent.wait.ladder import LASTING_OBSTACLES
from tests.fakes import ScriptedProbe, VirtualTimeLoop, run_in_virtual_time
from tests.unit.wait.test_gate import Reached, a_gate, ignored, run_gate


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
