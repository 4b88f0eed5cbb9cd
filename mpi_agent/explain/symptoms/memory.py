"""Memory, shared memory, disks and the limits of a process."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED
_MORE_SHARED_MEMORY = "mount an emptyDir with medium: Memory at /dev/shm of the workers"

ROWS = (
    row(
        "out-of-memory-kernel",
        "emory cgroup out of memory: Killed process {pid} ({program})",
        "Out of memory: Killed process {pid} ({program})",
        "oom-kill:constraint=CONSTRAINT_MEMCG",
        stacks="Linux",
        verdict=_FAILED,
        cause="the kernel killed a process[ ({program})] because its container took too much"
        " memory",
        remedy="raise the memory limit of the workers, or use fewer ranks on each",
        source="Linux 6.18, measured 2026-11; reportportal/kubernetes#203, Linux 5.4",
    ),
    row(
        "out-of-memory-program",
        "^MemoryError$",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        stacks="Python, C++",
        verdict=_FAILED,
        cause="a rank asked for more memory than it can have",
        remedy="look at how much it asks for, and at the memory limit of the workers",
        source="Python 3.11, libstdc++ of GCC 12, measured 2026-11",
    ),
    row(
        "shared-memory-full",
        "NCCL WARN Call to posix_fallocate failed : No space left on device",
        "NCCL WARN Error: failed to extend /dev/shm/{} to {} bytes",
        "NCCL WARN Error while creating shared memory segment",
        "Please check that /dev/shm or the directory you specified has more available memory.",
        "This might be caused by insufficient shared memory (shm).",
        stacks="NCCL, UCX, PyTorch",
        verdict=_FAILED,
        cause="/dev/shm of a host is full; a container's has 64 MiB unless it is given more",
        remedy=_MORE_SHARED_MEMORY,
        source="MPICH 4.0.2 with UCX and a /dev/shm of 64 KiB, measured 2026-11; nccl#525,"
        " pytorch/ci-infra#490, pipedream#28",
    ),
    row(
        "shared-memory-bus-error",
        "process rank {rank} with PID {} on node {host} exited on signal 7 (",
        "process rank {rank} with PID {} on node {host} exited on\nsignal 7 (",
        "RANK {rank} PID {} RUNNING AT {host}\nKILLED BY SIGNAL: 7 (",
        "[{host}:{} {...}Caught signal 7 (Bus error",
        stacks="Open MPI 4, Open MPI 5, Intel MPI, UCX",
        verdict=_FAILED,
        cause='a rank[ on "{host}"] died of SIGBUS, as it does when /dev/shm is full',
        remedy=_MORE_SHARED_MEMORY,
        source="Intel MPI 2021.19 with a /dev/shm of 64 KiB, Open MPI 4.1.4 and 5.0.11, measured"
        " 2026-11; pipedream#76",
    ),
    row(
        "shared-memory-short",
        "there is not enough space for {path} (the shared-memory backing",
        stacks="Open MPI 4, Open MPI 5",
        kind=Kind.CONSEQUENCE,
        cause="/dev/shm of a host is too small for Open MPI, which then uses TCP between its ranks",
        remedy=_MORE_SHARED_MEMORY,
        source="Open MPI 4.1.4 and 5.0.11, measured 2026-11: a warning, the program runs",
    ),
    row(
        "disk-full",
        "OSError: [Errno 28] No space left on device",
        "write error: No space left on device",
        "cannot write: No space left on device",
        stacks="Python, Linux",
        verdict=_FAILED,
        cause="a file system that the program writes to is full",
        remedy="free or enlarge the volume of the checkpoints, or raise ephemeral-storage",
        source="Python 3.11 on a full tmpfs, measured 2026-11",
    ),
    row(
        "file-system-read-only",
        "[Errno 30] Read-only file system: '{path}'",
        stacks="Python, Linux",
        verdict=_FAILED,
        cause='"{path}" is on a file system that is mounted read-only',
        remedy="mount a volume there, or write elsewhere",
        source="Python 3.11, measured 2026-11",
    ),
    row(
        "open-files-exhausted",
        "[Errno 24] Too many open files",
        "limit on number of pipes a process can open was reached",
        "Error: system limit exceeded on number of pipes that can be open",
        "PMIX_ERR_SYS_LIMITS_PIPES",
        stacks="Open MPI 4, Open MPI 5, Python",
        verdict=_FAILED,
        cause="a process has as many files open as it may (ulimit -n)",
        remedy="raise the limit of open files (ulimit -n), or close what is no longer used",
        source="Open MPI 4.1.4, 5.0.7 and 5.0.11 with ulimit -n 24 to 48, Python 3.11, measured"
        " 2026-11",
    ),
    row(
        "processes-exhausted",
        "fork: retry: Resource temporarily unavailable",
        "RuntimeError: can't start new thread",
        stacks="bash, Python",
        verdict=_FAILED,
        cause="a host has as many processes or threads as it may",
        remedy="raise pids of the container runtime or ulimit -u, or start fewer threads"
        " (OMP_NUM_THREADS)",
        source="bash 5.2 and Python 3.11 with ulimit -u, measured 2026-11",
    ),
    row(
        "arguments-too-long",
        "[Errno 7] Argument list too long",
        ": Argument list too long",
        stacks="Linux",
        verdict=Verdict.LAUNCH_FAILED,
        cause="environment and arguments together are longer than the kernel takes",
        remedy="set enableServiceLinks: false for the pods, and hand on fewer variables",
        source="Python 3.11, Linux 6.18, measured 2026-11",
    ),
)
