"""Fabrics and their libraries: UCX, libfabric, registered memory, cross-memory attach."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED

ROWS = (
    row(
        "memlock-too-small",
        "Please set max locked memory (ulimit -l) to 'unlimited'",
        "ibv_create_cq(cqe={}) failed: Cannot allocate memory",
        "NCCL WARN Call to ibv_{} failed with error Cannot allocate memory",
        "Libfabric error: (-12) Cannot allocate memory",
        stacks="UCX, NCCL, libfabric",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="a rank may not lock as much memory as its network card needs (ulimit -l)",
        remedy="raise the memlock limit of the container runtime on the nodes; the capability"
        " IPC_LOCK helps only a container of root",
        source="ucx#8684, UCX 1.13.1, which goes on without the card; ompi#6300; nccl-tests#206;"
        " awsome-distributed-ai#647",
    ),
    row(
        "ucx-no-transport",
        "UCX  ERROR {...}no active messages transport to",
        stacks="UCX, MPICH, Open MPI",
        verdict=_FAILED,
        cause="no transport of UCX connects two of the ranks",
        remedy="unset UCX_TLS and UCX_NET_DEVICES, or allow tcp and sm in them too",
        source="ucx#4742, ucx#10738",
    ),
    row(
        "fabric-no-answer",
        "Transport retry count exceeded on {device}",
        stacks="UCX",
        verdict=_FAILED,
        cause="a peer did not answer over the fabric ({device})",
        remedy="check that rank's host and the link; UCX_TLS=tcp,sm tells whether it is the fabric",
        source="ucx#9590, UCX 1.15.0; ucx#5199",
    ),
    row(
        "libfabric-call-failed",
        "Open MPI failed an OFI Libfabric library call ({call})",
        stacks="Open MPI 4, Open MPI 5",
        verdict=_FAILED,
        cause="libfabric failed in {call}, so a rank has no network",
        remedy="check FI_PROVIDER and the device plug-in, or use TCP (--mca pml ob1)",
        source="ompi#12038, Open MPI 5.0.0",
    ),
    row(
        "cross-memory-refused",
        "^Read -1, expected {}, errno =1$",
        "^Read -1, expected {}, errno = 1$",
        stacks="Open MPI",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="ranks of one container may not read each other's memory (ptrace is refused)",
        remedy="add the capability SYS_PTRACE, or set"
        " OMPI_MCA_btl_vader_single_copy_mechanism=none",
        source="ompi#4948, Open MPI 3.0.0",
    ),
)
