"""What hosts have too little of, though the program starts: said before it does, with what helps.

A rank that finds too little later says "No space left on device", "Bus error" or "Cannot allocate
memory", and nothing of the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpi_agent.job.amounts import render_size
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.hosts import fold_names

__all__ = ["host_warnings"]

_LEAST_SHM_BYTES = 256 << 20
"""Of /dev/shm, below which ranks of one host are likely to run out of it.

Container engines give 64 MiB, of which every rank's segments, NCCL's rings (some MiB for each pair
of GPUs) and the batches of data loaders take their part.

Source: Docker's `--shm-size` and containerd's default mount, 64 MiB; NVIDIA/nccl issues 290 and
525, open-mpi/ompi 12146, pmodels/mpich 5372, where 64 MiB were not enough.
"""

_LEAST_MEMLOCK_BYTES = 1 << 30
"""Below which RDMA is likely to fail: it locks what it sends and receives.

Source: 8 MiB are usual (a container on Linux 6.18, seen 2026-11-30), which open-mpi/ompi issues
6300 and 6468 and NVIDIA/nvidia-container-toolkit 2037 found too little.
"""

_SHM_REMEDY = (
    "give the container `volumeMounts: [{name: shm, mountPath: /dev/shm}]` and the pod"
    " `volumes: [{name: shm, emptyDir: {medium: Memory}}]`"
)
_MEMLOCK_REMEDY_OF_ROOT = "give the container `securityContext: {capabilities: {add: [IPC_LOCK]}}`"
_MEMLOCK_REMEDY_OF_OTHERS = (
    "raise the limit of the node's container runtime, `LimitMEMLOCK=infinity` in its systemd unit"
)
"""A capability that is added does not reach the programs of an account that is not root.

Source: capabilities(7), "Transformation of capabilities during execve()"; it needs ambient ones,
which Kubernetes does not give (kubernetes/enhancements 2763, open).
"""


def host_warnings(facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """Return a sentence for each kind of want, with all hosts that have it; none where all is well.

    Args:
        facts: by the hosts' names, in the order of ranks. What a host does not tell is no want.
    """
    sentences: dict[str, list[str]] = {}
    for sentence_of in (_small_shm, _small_memlock):
        for name, host in facts.items():
            if sentence := sentence_of(host):
                sentences.setdefault(sentence, []).append(name)
    return tuple(
        sentence.replace("{hosts}", fold_names(tuple(names)), 1)
        for sentence, names in sentences.items()
    )


def _small_shm(host: HostFacts) -> str:
    if host.shm_bytes is None or host.shm_bytes >= _LEAST_SHM_BYTES:
        return ""
    has = render_size(host.shm_bytes)
    return f"/dev/shm has {has} on {{hosts}}, too little for many programs: {_SHM_REMEDY}"


def _small_memlock(host: HostFacts) -> str:
    size = host.memlock_bytes
    if not host.has_rdma or host.locks_all_memory is not False or size is None:
        return ""
    if size >= _LEAST_MEMLOCK_BYTES:
        return ""
    remedy = _MEMLOCK_REMEDY_OF_OTHERS if host.uid else _MEMLOCK_REMEDY_OF_ROOT
    return (
        f"a rank may lock {render_size(size)} of memory on {{hosts}}, too little for the RDMA"
        f" devices there: {remedy}"
    )
