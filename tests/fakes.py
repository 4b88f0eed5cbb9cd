"""Stand-ins for time and the world, used in place of patches."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mpi_agent.job.events import Event
from mpi_agent.job.readiness import Obstacle, ProbeResult, Stage
from tests.builders import a_probe_result

_T = TypeVar("_T")


class EventRecorder:
    """Keeps every event in order; an `EventSink`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which every sleep is over at once and the clock says it took its time."""

    def __init__(self) -> None:
        super().__init__(_NeverWaits(self))
        self._now_s = 0.0

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now_s

    def skip(self, seconds: float) -> None:
        """Move the clock on."""
        self._now_s += seconds


class _NeverWaits(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.skip(timeout or 0.0)
        return super().select(0)


def run_in_virtual_time(work: Callable[[VirtualTimeLoop], Coroutine[Any, Any, _T]]) -> _T:
    """Return what the work returns; it is told the loop whose `time` is its clock."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        return runner.run(work(loop))


class ScriptedProbe:
    """Answers for each host from a script; the last answer is repeated for ever.

    Args:
        takes_s: how long each answer takes.
        tells_first: a stage that is told at the start of each.
    """

    def __init__(
        self,
        script: dict[str, tuple[Obstacle | None, ...]],
        now_s: Callable[[], float],
        *,
        takes_s: float = 0.01,
        tells_first: Stage | None = None,
    ) -> None:
        self._script = script
        self._now_s = now_s
        self._takes_s = takes_s
        self._tells_first = tells_first
        self.asked: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def probe(
        self, host: str, reached: Callable[[Stage], None] = lambda _: None
    ) -> ProbeResult:
        """Return the next answer of the script; its first stage is told beforehand."""
        if self._tells_first is not None:
            reached(self._tells_first)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self._takes_s)
        finally:
            self.in_flight -= 1
        answers = self._script[host]
        answer = answers[min(self.asked.count(host), len(answers) - 1)]
        self.asked.append(host)
        return a_probe_result(host, obstacle=answer, at_s=self._now_s())
