"""One sink that hands each event to several."""

from __future__ import annotations

from mpi_agent.job.events import Event, EventSink

__all__ = ["FanOut"]


class FanOut:
    """Hands events to every sink, in the order in which they were given; an `EventSink`."""

    def __init__(self, *sinks: EventSink) -> None:
        self._sinks = sinks

    def __call__(self, event: Event) -> None:
        """Hand the event on."""
        for sink in self._sinks:
            sink(event)
