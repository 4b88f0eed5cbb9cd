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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mpi_agent import __version__
from mpi_agent.job.endings import Ending, Verdict
from mpi_agent.job.events import (
    AttemptEnded,
    Event,
    ProbeEnded,
    ProgramEnded,
    RankFailed,
    RestartDecided,
    WorkerLost,
)
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
        self._snapshot = Snapshot(since_s=now_s())
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
        self._attempts = Counter(
            "mpi_agent_attempts_total",
            "Attempts of the program that are over, by their verdict.",
            ["verdict"],
            registry=self.registry,
        )
        self._restarts = self._counter("restarts", "How often the program was begun again.")
        self._lost = self._counter("workers_lost", "Workers that were lost under the program.")
        self._failed = self._counter("ranks_failed", "Ranks that workers saw end badly.")
        self._make_zeros()

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._snapshot = advance(self._snapshot, event, now_s=self._now_s())
        match event:
            case ProbeEnded(result=result):
                self._count(result)
            case AttemptEnded(ending=ending) | ProgramEnded(ending=ending):
                self._attempts.labels(_verdict_name(ending.verdict)).inc()
            case RestartDecided(restarts=True):
                self._restarts.inc()
            case WorkerLost():
                self._lost.inc()
            case RankFailed():
                self._failed.inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, noun: str, text: str) -> Counter:
        return Counter(f"mpi_agent_{noun}_total", text, registry=self.registry)

    def _make_zeros(self) -> None:
        for verdict in Verdict:
            self._attempts.labels(_verdict_name(verdict))
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

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge; what is not known yet has no value."""
        snapshot, now_s = self._look()
        yield _build_info()
        yield _phase_seconds(snapshot, now_s)
        yield from _wait_gauges(snapshot, now_s)
        yield from _program_gauges(snapshot, now_s)
        yield from _attempt_gauges(snapshot)


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
    yield _gauge("mpi_agent_program_running", "1 while the program runs.", snapshot.is_running)
    yield _gauge(
        "mpi_agent_program_seconds",
        "How long the program has run, or ran.",
        snapshot.running_s(now_s),
    )
    yield _gauge(
        "mpi_agent_program_exit_code",
        "What the agent exits with; no value before the last attempt has ended.",
        snapshot.ending.exit_code if snapshot.ending else None,
    )


def _phase_seconds(snapshot: Snapshot, now_s: float) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "mpi_agent_phase_seconds",
        "How long the job has been in each phase, all attempts together.",
        labels=["phase"],
    )
    for phase in Phase:
        if phase is not Phase.ENDED:
            family.add_metric([phase.value], snapshot.seconds_in(phase, now_s))
    return family


def _attempt_gauges(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    attempts = snapshot.attempts
    last = snapshot.ending or next(reversed(attempts.past), None)
    yield _gauge(
        "mpi_agent_attempt",
        "Number of the attempt that runs, from 1; those of launchers before this one count.",
        attempts.number,
    )
    yield _gauge(
        "mpi_agent_ranks_start_seconds",
        "From mpirun's start until every host told of ranks; no value before.",
        attempts.ranks_after_s,
    )
    yield _gauge(
        "mpi_agent_workers_suspected",
        "Workers that give no sign of life, for the time being.",
        len(attempts.suspects),
    )
    yield _gauge(
        "mpi_agent_last_exit_code",
        "Exit code of the latest attempt that is over; no value before there is one.",
        None if last is None else last.exit_code,
    )
    yield _last_verdict(last)


def _last_verdict(last: Ending | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "mpi_agent_last_verdict",
        "1 for the verdict of the latest attempt that is over.",
        labels=["verdict"],
    )
    for verdict in Verdict:
        is_it = last is not None and last.verdict is verdict
        family.add_metric([_verdict_name(verdict)], is_it)
    return family


def _verdict_name(verdict: Verdict) -> str:
    return verdict.name.lower()


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
