"""Stand-ins for time and the world, used in place of patches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mpi_agent.job.events import Event
from mpi_agent.job.readiness import Obstacle, ProbeResult
from tests.builders import a_probe_result


class EventRecorder:
    """Keeps every event in order; an `EventSink`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)


class FakeClock:
    """A clock that advances by a fixed step whenever it is read."""

    def __init__(self, step_s: float = 0.001) -> None:
        self._now_s = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        """Return the time and move on."""
        self._now_s += self._step_s
        return self._now_s


class ScriptedProbe:
    """Answers for each host from a script; the last answer is repeated for ever."""

    def __init__(
        self, script: dict[str, tuple[Obstacle | None, ...]], now_s: Callable[[], float]
    ) -> None:
        self._script = script
        self._now_s = now_s
        self.asked: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def probe(self, host: str) -> ProbeResult:
        """Return the next answer of the script."""
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        answers = self._script[host]
        answer = answers[min(self.asked.count(host), len(answers) - 1)]
        self.asked.append(host)
        return a_probe_result(host, obstacle=answer, at_s=self._now_s())
