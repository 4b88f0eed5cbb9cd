"""What no output tells and the agent itself knows: its workers told, or it ended the job."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = [
    "CPU_THROTTLED",
    "MPIRUN_KILLED",
    "OUT_OF_MEMORY",
    "RANKS_STALLED",
    "RANK_FAILED_ALONE",
    "ROWS",
    "START_TOO_LATE",
    "WORKER_EVICTED",
    "WORKER_GONE",
    "WORKER_LOST",
]

_SOURCE = "mpi-agent: what its workers told"
_WATCHED = "mpi-agent: what it saw while the program ran"

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
WORKER_LOST = row(
    "worker-lost",
    stacks="mpi-agent",
    verdict=Verdict.WORKERS_LOST,
    cause="a worker was lost while the program ran",
    remedy="see `kubectl describe pod` and the events of its node: eviction, preemption, memory,"
    " node failure; --max-restarts begins anew; for hosts that are only slow raise"
    " --worker-timeout",
    source=_WATCHED,
)
START_TOO_LATE = row(
    "start-too-late",
    stacks="mpi-agent",
    kind=Kind.SIGN,
    cause="daemons or ranks were still missing at the end of --launch-timeout",
    remedy="allow connections from workers to the launcher and among workers in every NetworkPolicy"
    " (--port-range), see the logs of the hosts that are named, or raise --launch-timeout",
    source=_WATCHED,
)
RANK_FAILED_ALONE = row(
    "rank-failed-alone",
    stacks="mpi-agent",
    kind=Kind.SIGN,
    verdict=Verdict.PROGRAM_FAILED,
    cause="a rank ended badly, and the others went on until --straggler-grace was over",
    remedy="see what that rank said last; where others are to go on without it, raise"
    " --straggler-grace",
    source=_WATCHED,
)
RANKS_STALLED = row(
    "ranks-stalled",
    stacks="mpi-agent",
    kind=Kind.SIGN,
    verdict=Verdict.STALLED,
    cause="nothing was written for --stall-timeout, and no rank made progress",
    remedy="see where the ranks wait (py-spy dump, gdb -p): most often in a collective that not all"
    " came to, or for a storage; raise --stall-timeout for a program that may be silent",
    source=_WATCHED,
)
MPIRUN_KILLED = row(
    "mpirun-killed",
    stacks="mpi-agent",
    verdict=Verdict.PROGRAM_FAILED,
    cause="what kills mpirun is most often the kernel, at the memory limit of the launcher's"
    " container",
    remedy="raise the launcher's memory limit, or run no ranks there; see whether its pod was"
    " OOMKilled",
    source=_WATCHED,
)
CPU_THROTTLED = row(
    "cpu-throttled",
    stacks="mpi-agent",
    kind=Kind.CONSEQUENCE,
    cause='the kernel held back ranks on "{host}" for their CPU limit',
    remedy="raise the CPU limit, or leave it out; polling ranks use a whole CPU each",
    source="Linux 6.18, Documentation/admin-guide/cgroup-v2.rst, cpu.stat: nr_throttled",
)

ROWS = (
    OUT_OF_MEMORY,
    WORKER_EVICTED,
    WORKER_GONE,
    WORKER_LOST,
    START_TOO_LATE,
    RANK_FAILED_ALONE,
    RANKS_STALLED,
    MPIRUN_KILLED,
    CPU_THROTTLED,
)
