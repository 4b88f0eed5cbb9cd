"""What no output tells and the agent itself knows, from workers that run it."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Rank

__all__ = ["CPU_THROTTLED", "OUT_OF_MEMORY", "ROWS", "WORKER_EVICTED", "WORKER_GONE"]

_SOURCE = "mpi-agent: what its workers told"

OUT_OF_MEMORY = row(
    "out-of-memory",
    stacks="mpi-agent",
    verdict=Verdict.PROGRAM_FAILED,
    cause='processes on "{host}" were killed for their memory',
    remedy="raise the memory limit of the workers, or use fewer ranks on each",
    source=_SOURCE,
)
WORKER_EVICTED = row(
    "worker-evicted",
    stacks="mpi-agent",
    verdict=Verdict.WORKERS_LOST,
    cause='"{host}" was evicted while the program ran on it',
    remedy="see the pod's events: drain, preemption or pressure; --max-restarts begins anew",
    source=_SOURCE,
)
WORKER_GONE = row(
    "worker-gone",
    stacks="mpi-agent",
    verdict=Verdict.WORKERS_LOST,
    cause='"{host}" ended what was left of the program there',
    remedy="see the log of that worker, which says why it took the run for over",
    source=_SOURCE,
)
CPU_THROTTLED = row(
    "cpu-throttled",
    stacks="mpi-agent",
    rank=Rank.CONSEQUENCE,
    cause='the kernel held back ranks on "{host}" for their CPU limit',
    remedy="raise the CPU limit, or leave it out; polling ranks use a whole CPU each",
    source="Linux 6.18, Documentation/admin-guide/cgroup-v2.rst, cpu.stat: nr_throttled",
)

ROWS = (OUT_OF_MEMORY, WORKER_EVICTED, WORKER_GONE, CPU_THROTTLED)
