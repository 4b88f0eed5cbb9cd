"""The job's metrics, in a registry of our own; prometheus_client costs 55 ms to import.

So this module is imported by whoever serves metrics, and only then. Label values are from closed
sets and all present from the start: a rate needs the zero before the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from mpi_agent import __version__
from mpi_agent.job.events import Event, ProbeEnded
from mpi_agent.job.readiness import ProbeResult, Stage
from mpi_agent.observe.snapshot import Phase, Snapshot, advance
from mpi_agent.observe.tally import OUTCOMES, STAGES, outcome_name, tally

__all__ = ["Metrics"]

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""From an answer on the same node to the longest that one question may take."""


class Metrics:
    """Counts what happens; an `EventSink`.

    Args:
        now_s: the monotonic clock that the reports were made with.

    Attributes:
        registry: ours alone, without figures of the Python process.
    """

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        # no second series beside each one that says when we started
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now_s = now_s
        self._snapshot = Snapshot()
        self.registry = CollectorRegistry()
        self.registry.register(_Gauges(lambda: (self._snapshot, self._now_s())))
        self._probes = Counter(
            "mpi_agent_probes_total",
            "Probes that ended, by what came of them.",
            ["outcome"],
            registry=self.registry,
        )
        self._durations = Histogram(
            "mpi_agent_probe_duration_seconds",
            "How long one question to one host took that was answered, by the stage it asked for.",
            ["stage"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._make_zeros()

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._snapshot = advance(self._snapshot, event, now_s=self._now_s())
        if isinstance(event, ProbeEnded):
            self._count(event.result)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _make_zeros(self) -> None:
        for outcome in OUTCOMES:
            self._probes.labels(outcome)
        for stage in Stage:
            if stage is not Stage.UNKNOWN:
                self._durations.labels(stage.name.lower())

    def _count(self, result: ProbeResult) -> None:
        self._probes.labels(outcome_name(result.obstacle)).inc()
        for stage, duration_s in result.steps:
            self._durations.labels(stage.name.lower()).observe(duration_s)


class _Gauges:
    """Makes the gauges from the snapshot at the moment at which they are read."""

    def __init__(self, look: Callable[[], tuple[Snapshot, float]]) -> None:
        self._look = look

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every gauge; the exit code has no value before there is one."""
        snapshot, now_s = self._look()
        yield _build_info()
        yield from _wait_gauges(snapshot, now_s)
        yield from _program_gauges(snapshot, now_s)


def _build_info() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "mpi_agent_build_info", "Always 1; the label tells the version.", labels=["version"]
    )
    family.add_metric([__version__], 1)
    return family


def _wait_gauges(snapshot: Snapshot, now_s: float) -> Iterator[GaugeMetricFamily]:
    report = snapshot.report
    hosts = GaugeMetricFamily(
        "mpi_agent_hosts",
        "Hosts that the wait is for, by the highest stage each has reached, or ready.",
        labels=["stage"],
    )
    counts = tally(report).by_stage if report else tuple((name, 0) for name in STAGES)
    for name, count in counts:
        hosts.add_metric([name], count)
    yield hosts
    yield _gauge(
        "mpi_agent_hosts_expected",
        "Hosts that the wait is for; those of mpi_agent_hosts add up to it.",
        len(report.hosts) if report else 0,
    )
    yield _gauge(
        "mpi_agent_ready", "1 once every host that is needed was ready.", snapshot.hosts_are_ready
    )
    yield _gauge(
        "mpi_agent_wait_seconds",
        "How long the wait has taken; it stands still once the hosts are ready.",
        report.elapsed_s + snapshot.since_report_s(now_s) if report else 0,
    )


def _program_gauges(snapshot: Snapshot, now_s: float) -> Iterator[GaugeMetricFamily]:
    yield _gauge(
        "mpi_agent_program_running", "1 while the program runs.", snapshot.phase is Phase.RUNNING
    )
    yield _gauge(
        "mpi_agent_program_seconds",
        "How long the program has run, or ran.",
        snapshot.running_s(now_s),
    )
    yield _gauge(
        "mpi_agent_program_exit_code",
        "What the agent exits with; no value before the program has ended.",
        snapshot.ending.exit_code if snapshot.ending else None,
    )


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
