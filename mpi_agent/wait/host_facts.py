"""The part of the login's question that asks what a host has, and what its answer means.

Nothing but the shell itself is needed, apart from `nproc` and `df`; what is not answered is
unknown, and never a refusal. The shell prints what it finds and decides nothing.

Source: sh of dash 0.5.12, bash 5.2 and busybox 1.35, tried 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mpi_agent.cgroup import limit_in_bytes
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.ssh.worker_protocol import LAUNCHERS_NAME
from mpi_agent.variable_names import RUN_ID_VARIABLE, WORKER_CALL_VARIABLE

__all__ = ["DIRECTORIES", "FACTS_SCRIPT", "Answer", "read_facts", "values_in"]

Answer = Mapping[str, Sequence[str]]
"""What `name=value` lines say: the values of each name, in order."""

_LONGEST_DIRECTORY_BYTES = 40
"""Of a directory for mpirun's daemons, which make sockets some levels below it.

Source: unix(7): the path of a socket has at most 107 bytes.
"""

DIRECTORIES = ("/tmp", "/var/tmp", "/dev/shm", "/run/mpi-agent")
"""Where daemons may keep their files, the most usual one first."""

_UNSET = "-unset-"
_IPC_LOCK = 1 << 14
"""of the mask of capabilities: no limit on locked memory counts. Source: Linux, capability.h."""

_NO_INTERFACES = frozenset({"lo", "bonding_masters", "*"})
"""names in /sys/class/net that are none; the last is what a pattern says that fits nothing"""

FACTS_SCRIPT = (
    f'echo "cuda=${{CUDA_VISIBLE_DEVICES-{_UNSET}}}"; '
    f'echo "nvidia=${{NVIDIA_VISIBLE_DEVICES-{_UNSET}}}"; '
    'c() { k=$1; shift; [ -e "$1" ] || shift $#; echo "$k=$#"; }; '
    "c nvidia_nodes /dev/nvidia[0-9]*; c kfd_nodes /dev/kfd; c render_nodes /dev/dri/renderD*; "
    "c accel_nodes /dev/accel/accel[0-9]*; c rdma /sys/class/infiniband/*; "
    "{ read -r q p </sys/fs/cgroup/cpu.max || "
    "{ read -r q </sys/fs/cgroup/cpu/cpu.cfs_quota_us && "
    "read -r p </sys/fs/cgroup/cpu/cpu.cfs_period_us; }; } && "
    'echo "quota=$q $p"; '
    "{ read -r m </sys/fs/cgroup/memory.max || "
    "read -r m </sys/fs/cgroup/memory/memory.limit_in_bytes; } && "
    'echo "memory=$m"; '
    "while read -r k v m; do "
    'case $k in Uid:) echo "uid=$v";; CapEff:) echo "capabilities=$v"; break;; esac; '
    "done </proc/self/status; "
    "printf memlock= && ulimit -l || echo; printf nofile= && ulimit -n || echo; "
    'i() { echo "interfaces=$*"; }; i /sys/class/net/*; '
    'echo "shm="$(df -Pk /dev/shm); '
    'echo "cpus=$(OMP_NUM_THREADS= OMP_THREAD_LIMIT= nproc)"; '
    f'for t in "$TMPDIR" {" ".join(DIRECTORIES)}; do '
    '[ -d "$t" ] && [ -w "$t" ] && [ -x "$t" ] && echo "directory=$t"; done; '
    '[ -f "$6" ] && [ -r "$6" ] && echo ssh_config=yes; '
    f'l="${{{WORKER_CALL_VARIABLE}%/*}}/{LAUNCHERS_NAME}"; '
    f'[ "${WORKER_CALL_VARIABLE}" ] && [ -r "$l" ] && '
    'while read -r v; do echo "launcher=$v"; done <"$l"; '
    f"grep -qsz ^{RUN_ID_VARIABLE}=. /proc/[0-9]*/environ && echo leftovers=yes; "
)
"""One line of POSIX sh without single quotes; its argument 6 is the path of an ssh configuration.

OMP_NUM_THREADS is taken from nproc, which would believe it (coreutils 9.1, "nproc invocation"). The
account and its capabilities are read from the kernel, because `id` would be one more process.

Source: cpu.max is "QUOTA PERIOD" or "max PERIOD" (Linux, cgroup-v2.rst, "CPU Interface Files"), the
quota of v1 is -1 without a limit (sched-bwc.rst).
"""


def values_in(text: str) -> Answer:
    """Return what the lines of an answer say; a line of another form is left out."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values.setdefault(name, []).append(value)
    return values


def read_facts(values: Answer) -> HostFacts:
    """Return what an answer tells; whatever it lacks is unknown."""
    first = {name: found[0] for name, found in values.items() if found}
    return HostFacts(
        gpus=_gpus(first),
        cpu_limit=_cpu_limit(first.get("quota", "")),
        cpus=_count(first.get("cpus", "")) or None,
        directories=_directories(values.get("directory", ())),
        has_ssh_config="ssh_config" in first,
        has_rdma=_count(first["rdma"]) > 0 if "rdma" in first else None,
        uid=_number(first.get("uid", "")),
        memory_limit_bytes=limit_in_bytes(first.get("memory", "")),
        shm_bytes=_shm_bytes(first),
        memlock_bytes=_memlock_bytes(first.get("memlock", "")),
        locks_all_memory=_locks_all_memory(first),
        open_files=_number(first.get("nofile", "")),
        interfaces=_interfaces(first.get("interfaces", "")),
        launchers=_launchers(values.get("launcher", ())),
        has_leftovers="leftovers" in first,
    )


def _gpus(first: Mapping[str, str]) -> int | None:
    """Return how many GPUs a program would see, the narrowest word of the session first.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables": CUDA_VISIBLE_DEVICES counts up
    to the first item that is no device, and an empty one means none; HIP honours it too.
    """
    cuda = first.get("cuda", _UNSET)
    if cuda != _UNSET:
        devices = [item.strip() for item in cuda.split(",")]
        ends = (at for at, item in enumerate(devices) if not _is_device(item))
        return next(ends, len(devices))
    return _listed_gpus(first.get("nvidia", _UNSET), _gpu_nodes(first))


def _is_device(item: str) -> bool:
    return item.isdigit() or item.startswith(("GPU-", "MIG-"))


def _listed_gpus(listed: str, nodes: int | None) -> int | None:
    """Return what NVIDIA_VISIBLE_DEVICES adds to the nodes that are there.

    A list counts even where it names parts of one device. `all`, `void`, nothing and a path say
    nothing of a number: with CDI the variable is `void` beside devices.

    Source: NVIDIA Container Toolkit, "Environment variables (OCI spec)": a list, `all`, `none`
    (no GPU), or `void`, empty or unset (the toolkit does nothing); what `nvidia-ctk cdi generate`
    writes sets `void`; k8s-device-plugin, strategy `volume-mounts`, sets a path.
    """
    if listed == "none":
        return 0
    if listed in {_UNSET, "", "all", "void"} or listed.startswith("/"):
        return nodes
    return len([item for item in listed.split(",") if item.strip()])


def _gpu_nodes(first: Mapping[str, str]) -> int | None:
    """Return how many GPUs the container was given; None for displays that may be GPUs, or not.

    Source: Linux: NVIDIA's driver makes /dev/nvidiaN beside nvidiactl; amdgpu /dev/dri/renderDN for
    each GPU and one /dev/kfd (ROCm documentation, "Running ROCm Docker containers"); habanalabs
    /dev/accel/accelN (Linux, Documentation/accel) beside accel_controlDN.
    """
    if "nvidia_nodes" not in first:
        return None
    nvidia, kfd, displays, accelerators = (
        _count(first.get(f"{name}_nodes", "")) for name in ("nvidia", "kfd", "render", "accel")
    )
    if found := nvidia or (displays if kfd else 0) or accelerators:
        return found
    return None if displays else 0


def _count(text: str) -> int:
    return _number(text) or 0


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _cpu_limit(text: str) -> float | None:
    match = re.fullmatch(r"(\d+) (\d+)", text)
    if match is None or not int(match[1]) or not int(match[2]):
        return None
    return int(match[1]) / int(match[2])


def _directories(found: Sequence[str]) -> tuple[str, ...]:
    short = (path.rstrip("/") for path in found if len(path.encode()) <= _LONGEST_DIRECTORY_BYTES)
    return tuple(dict.fromkeys(path for path in short if path.startswith("/")))


def _shm_bytes(first: Mapping[str, str]) -> int | None:
    """Return the size from what `df -Pk` says, whose lines the shell has made one.

    Source: POSIX.1-2017, df, STDOUT: the file system, then its size in units of 1024 bytes, what is
    used, what is left, a percentage, and where it is mounted.
    """
    match = re.search(r" (\d+) +\d+ +-?\d+ +(?:\d+%|-) +/", first.get("shm", ""))
    return int(match[1]) * 1024 if match else None


def _memlock_bytes(text: str) -> int | None:
    """Return what `ulimit -l` says, which counts in units of 1024 bytes in every shell we know."""
    kibibytes = _number(text)
    return None if kibibytes is None else kibibytes * 1024


def _locks_all_memory(first: Mapping[str, str]) -> bool | None:
    if first.get("memlock") == "unlimited":
        return True
    try:
        is_above = bool(int(first["capabilities"], 16) & _IPC_LOCK)
    except (KeyError, ValueError):
        return None
    return True if is_above else None if _number(first.get("memlock", "")) is None else False


def _launchers(found: Sequence[str]) -> tuple[str, ...]:
    """Return each launcher once; one without its job, as an older agent tells it, says nothing."""
    form = re.compile(r"[0-9a-f]{8}\.[0-9a-f]{8}")
    return tuple(dict.fromkeys(one for one in found if form.fullmatch(one)))


def _interfaces(text: str) -> tuple[str, ...]:
    names = (path.rpartition("/")[2] for path in text.split())
    return tuple(name for name in names if name not in _NO_INTERFACES)
