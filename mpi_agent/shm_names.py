"""What MPIs call their segments of shared memory: files in /dev/shm that outlive whoever made them.

A launcher removes them at the end; a rank or a daemon that was killed leaves them, and the next
attempt finds less memory. Whoever removes them looks first that nobody has one open: what is not in
this table is not touched.
"""

from __future__ import annotations

__all__ = ["SEGMENT_PREFIXES", "is_of_mpi"]

SEGMENT_PREFIXES = (
    "vader_segment.",
    "sm_segment.",
    "mpich_shm_",
    "mpich_shar_tmp",
    "ucx_shm_posix_",
    "Intel_MPI_",
    "psm2_shm.",
    "psm3_shm.",
    "nccl-",
)
"""Source: seen in /dev/shm under two ranks of Open MPI 4.1.4 (vader_segment.HOST.UID.JOB.RANK),
5.0.11 (sm_segment., the same form) and MPICH 5.0.2 (mpich_shm_<hex>_N, which stays when a rank is
killed), 2026-11-30; MPICH 4.0.2 and Intel MPI 2021.18 unlink theirs at once. The others are read:
MPICH 3 and 4 mpl_shm_mmap.h, UCX 1.17 uct/sm/mm/posix, Intel MPI's developer reference, PSM2 and
PSM3 of libfabric, NCCL 2.21 shmutils.cc.
"""


def is_of_mpi(name: str) -> bool:
    """Return whether a file of /dev/shm, by its bare name, is a segment of an MPI or of NCCL."""
    return name.startswith(SEGMENT_PREFIXES)
