"""GPUs: memory that ran out, drivers that do not fit, hardware that failed."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED

ROWS = (
    row(
        "gpu-out-of-memory",
        "CUDA out of memory. Tried to allocate {size...}. GPU",
        "CUDA out of memory. Tried to allocate {size...} (GPU",
        "CUDA out of memory.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {size...}.",
        "cudaErrorMemoryAllocation",
        "CUDA_ERROR_OUT_OF_MEMORY",
        stacks="PyTorch, JAX, CUDA",
        verdict=_FAILED,
        cause="a GPU's memory ran out[ when {size} more were asked for]",
        remedy="make the batch smaller, and see that no other rank or earlier run uses that GPU",
        source="pytorch#16417, DCRNN_PyTorch#6, alphafold#1023; names of CUDA's errors: CUDA"
        " Runtime and Driver API reference",
    ),
    row(
        "gpu-driver-too-old",
        "CUDA driver version is insufficient for CUDA runtime version",
        stacks="CUDA, NCCL, PyTorch",
        verdict=_FAILED,
        cause="the node's NVIDIA driver is older than the CUDA in the image, or not in the"
        " container at all",
        remedy="use an image with an older CUDA or a node with a newer driver, and ask for"
        " nvidia.com/gpu",
        source="nccl-tests#98, lmdeploy#1108",
    ),
    row(
        "gpu-kernel-missing",
        "no kernel image is available for execution on the device",
        stacks="CUDA, PyTorch",
        verdict=_FAILED,
        cause="the program was not built for this kind of GPU",
        remedy="use a build whose CUDA architectures include the node's GPU",
        source="CV-CUDA#31, fusibile#15",
    ),
    row(
        "gpu-illegal-access",
        "an illegal memory access was encountered",
        stacks="CUDA, PyTorch",
        verdict=_FAILED,
        cause="a kernel of the program read or wrote outside of its memory on a GPU",
        remedy="run it with CUDA_LAUNCH_BLOCKING=1 to see where",
        source="vllm#4108",
    ),
    row(
        "gpu-hardware-failed",
        "uncorrectable ECC error encountered",
        "GPU has fallen off the bus",
        stacks="CUDA, NVIDIA driver",
        verdict=_FAILED,
        cause="a GPU of the node is broken",
        remedy="cordon that node and run the job on others",
        source="semantic-segmentation#33, gpu-burn#1",
    ),
    row(
        "gpu-library-mismatch",
        "Driver/library version mismatch",
        stacks="NVIDIA driver",
        verdict=_FAILED,
        cause="the node's NVIDIA driver was updated under running containers",
        remedy="reboot that node, or let its driver be loaded anew",
        source="az-hop#269",
    ),
    row(
        "gpu-library-missing",
        "OSError: libcuda.so.1: cannot open shared object file",
        "ImportError: libcuda.so.1: cannot open shared object file",
        "error while loading shared libraries: libcuda.so.1: cannot open shared object file",
        stacks="CUDA",
        verdict=_FAILED,
        cause="a rank does not see the NVIDIA driver's libraries",
        remedy="ask for nvidia.com/gpu on the workers, and see that LD_LIBRARY_PATH of the"
        " container reaches the ranks (`mpi-agent worker` hands it on)",
        source="Python 3.11 without a driver, measured 2026-11; horovod#313",
    ),
)
