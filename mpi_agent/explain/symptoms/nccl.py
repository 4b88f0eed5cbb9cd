"""What NCCL says, and PyTorch about it."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED

ROWS = (
    row(
        "nccl-no-interface",
        "Bootstrap : no socket interface found",
        "is neither AF_INET(2) nor AF_INET6(10)",
        stacks="NCCL",
        verdict=_FAILED,
        cause="NCCL found no network interface that it may use",
        remedy="unset NCCL_SOCKET_IFNAME, or set it to an interface that every worker has",
        source="MambaTree#14, NCCL 2.14.3; nccl#1837, NCCL 2.27.7",
    ),
    row(
        "nccl-duplicate-gpu",
        "Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {device}",
        stacks="NCCL",
        verdict=_FAILED,
        cause="ranks {other} and {rank} use one GPU",
        remedy="choose the GPU by the local rank (torch.cuda.set_device), and ask for as many"
        " slots as GPUs",
        source="horovod#3929, horovod#3949",
    ),
    row(
        "nccl-collectives-differ",
        "collective mismatch error, local size {} remote size {}",
        "NCCL WARN Mismatched collective detected",
        stacks="NCCL",
        verdict=_FAILED,
        cause="ranks take part in different collectives, or with different sizes",
        remedy="see that every rank makes the same calls with the same shapes and environment",
        source="nccl#969, NCCL 2.14.3; nccl#296, NCCL 2.4.8",
    ),
    row(
        "nccl-ib-no-answer",
        "NET/IB : Got completion from peer {peer} with status=12",
        "NET/IB : Got completion from peer {peer} with error 12",
        stacks="NCCL",
        verdict=_FAILED,
        cause="the peer {peer} does not answer over InfiniBand or RoCE",
        remedy="check the link and NCCL_IB_HCA and NCCL_IB_GID_INDEX, or try NCCL_IB_DISABLE=1",
        source="nccl#1405, nccl#1814",
    ),
    row(
        "nccl-connect-failed",
        "NCCL WARN socketStartConnect: Connect to {peer} failed",
        "NCCL INFO Call to connect returned Connection refused",
        "NCCL INFO Call to connect returned Connection timed out",
        stacks="NCCL",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="a rank cannot connect to another[ at {peer}] by NCCL",
        remedy="set NCCL_SOCKET_IFNAME to the pods' interface, and allow connections between"
        " workers on all ports",
        source="nccl-tests#166, NCCL 2.18.3; horovod#1408",
    ),
    row(
        "nccl-watchdog",
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL({...}"
        "OpType={operation},",
        stacks="PyTorch, NCCL",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="rank {rank} waited for the others in {operation} until PyTorch's time limit",
        remedy="look for a rank that ended or does other work; raise init_process_group's timeout"
        " only if it is just slow",
        source="LlamaFactory#7396, nccl#1409",
    ),
    row(
        "nccl-peer-gone",
        "ncclRemoteError: A call failed possibly due to a network error",
        "remote process exited or there was a network error",
        "NCCL WARN {...}Connection closed by remote peer {peer}",
        "NCCL WARN {...}Call to recv from {peer} failed",
        stacks="NCCL",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="a rank that another talked to by NCCL was gone[: {peer}]",
        remedy="look for the rank that ended first",
        source="nccl#795, NCCL 2.14.3; nccl#2076, NCCL 2.21.5",
    ),
    row(
        "nccl-cuda-failed",
        "ncclUnhandledCudaError: Call to CUDA function failed",
        "unhandled cuda error",
        stacks="NCCL",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="a call to CUDA inside NCCL failed, and NCCL does not say which",
        remedy="set NCCL_DEBUG=WARN and run it again",
        source="BEVHeight#13, NCCL 2.7.8",
    ),
    row(
        "nccl-system-failed",
        "ncclSystemError: System call",
        "unhandled system error",
        stacks="NCCL",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="a system call inside NCCL failed: sockets, shared memory or limits",
        remedy="set NCCL_DEBUG=WARN and run it again",
        source="nccl#697",
    ),
)
