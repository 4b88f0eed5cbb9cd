"""A worker's metrics, made from where it stands at the moment at which they are read.

Only who serves metrics imports this module. Label values are from closed sets and all present from
the start, apart from the numbers of ranks: there are as many as ranks run here, which slots bound,
and their series end with them. Ranks of the same number in two runs count together. No label holds
a name, an address or a user.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mpi_agent import __version__
from mpi_agent.observe.usage import Usage
from mpi_agent.observe.worker_status import Role, WorkerStatus

__all__ = ["WorkerMetrics"]

_Family = CounterMetricFamily | GaugeMetricFamily


class WorkerMetrics:
    """The metrics of a worker.

    Attributes:
        registry: ours alone, without figures of the Python process.
    """

    def __init__(self, status: WorkerStatus) -> None:
        self._status = status
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[_Family]:
        """Yield every metric; what cannot be seen has no value."""
        build = GaugeMetricFamily(
            "mpi_agent_build_info", "Always 1; the label tells the version.", labels=["version"]
        )
        build.add_metric([__version__], 1)
        yield build
        yield GaugeMetricFamily(
            "mpi_agent_worker_ready",
            "1 while the worker lets its launcher in.",
            self._status.snapshot.is_ready,
        )
        if self._status.role is Role.WORKER:
            yield from _worker_families(self._status)
        yield from _usage_families(self._status.usage())


def _worker_families(status: WorkerStatus) -> Iterator[_Family]:
    """Yield what only the worker's own agent knows."""
    snapshot = status.snapshot
    logins = CounterMetricFamily(
        "mpi_agent_logins", "Logins, by what came of them.", labels=["outcome"]
    )
    logins.add_metric(["accepted"], snapshot.logins_accepted)
    logins.add_metric(["refused"], snapshot.logins_refused)
    yield logins
    yield CounterMetricFamily(
        "mpi_agent_ssh_server_restarts",
        "How often the ssh server was started anew because it had ended by itself.",
        snapshot.restarts,
    )
    yield GaugeMetricFamily(
        "mpi_agent_runs_open", "Runs that began here and are not over.", len(status.runs)
    )


def _usage_families(usage: Usage) -> Iterator[_Family]:
    yield GaugeMetricFamily("mpi_agent_ranks", "Ranks that run here.", len(usage.ranks))
    cpu = CounterMetricFamily(
        "mpi_agent_rank_cpu_seconds",
        "CPU time of a rank, by its number in the job, its children included.",
        labels=["rank"],
    )
    memory = GaugeMetricFamily(
        "mpi_agent_rank_memory_bytes",
        "Resident memory of a rank, by its number in the job; what ranks share counts for each.",
        labels=["rank"],
    )
    for number, (cpu_s, memory_bytes) in _by_number(usage).items():
        cpu.add_metric([str(number)], cpu_s)
        memory.add_metric([str(number)], memory_bytes)
    yield cpu
    yield memory
    yield GaugeMetricFamily(
        "mpi_agent_memory_used_bytes",
        "Memory that the container uses.",
        usage.memory.used_bytes,
    )
    yield GaugeMetricFamily(
        "mpi_agent_memory_limit_bytes",
        "Memory that the container may use; no value where there is no limit.",
        usage.memory.limit_bytes,
    )
    yield CounterMetricFamily(
        "mpi_agent_oom_kills",
        "Processes of the container that the kernel killed because they took too much memory.",
        usage.memory.kills,
    )


def _by_number(usage: Usage) -> dict[int, tuple[float, int]]:
    """Return CPU time and memory by rank number, in the order of numbers."""
    sums: defaultdict[int, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for rank in sorted(usage.ranks, key=lambda rank: rank.rank):
        cpu_s, memory_bytes = sums[rank.rank]
        sums[rank.rank] = (cpu_s + rank.cpu_s, memory_bytes + rank.memory_bytes)
    return dict(sums)
