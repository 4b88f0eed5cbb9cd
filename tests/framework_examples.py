"""The examples of PyTorch, nccl-tests and Horovod, as much of them as a test asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.docs.example_manifests import (
    EXAMPLES,
    Document,
    document_of,
    first_container_of,
    header_of,
    pod_of,
)
from tests.e2e.manifests import read_manifest
from tests.e2e.mpi_jobs import Implementation, MpiJob
from tests.e2e.operator_texts import hostfile_text, service_name

__all__ = ["DDP_PROGRAM", "FRAMEWORKS", "FrameworkExample", "framework_example"]

FRAMEWORKS = ("pytorch-ddp", "nccl-tests", "horovod")
DDP_PROGRAM = EXAMPLES / "mpi-operator/ddp.py"
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkExample:
    """What such a manifest says.

    Attributes:
        job: as the operator understands it.
        command: of the launcher, up to and with `--`.
        program: behind it.
        gpus: that each worker is given.
        memory_volumes: where a worker mounts volumes of memory, and how large each may get.
        header: the comment in front of the manifest.
    """

    name: str
    job: MpiJob
    command: tuple[str, ...]
    program: tuple[str, ...]
    gpus: int
    launcher_gpus: int
    memory_volumes: dict[str, str]
    header: str

    @property
    def environ(self) -> dict[str, str]:
        """What the launcher's container is given."""
        return dict(self.job.launcher.variables)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The workers' names as the operator writes them."""
        names = (f"{self.name}-worker-{index}" for index in range(self.job.workers))
        return tuple(service_name(self.job, self.name, name) for name in names)

    def hostfile(self, implementation: Implementation) -> str:
        """Return the operator's hostfile for it."""
        return hostfile_text(self.job_for(implementation), self.hosts)

    def job_for(self, implementation: Implementation) -> MpiJob:
        """Return the job with another MPI, which the manifests leave to the reader's image."""
        return replace(self.job, implementation=implementation)


def framework_example(name: str) -> FrameworkExample:
    """Return one of FRAMEWORKS."""
    path = DDP_PROGRAM.with_name(f"{name}.yaml")
    document = document_of(path)
    launcher = first_container_of(document, "Launcher")
    return FrameworkExample(
        name=name,
        job=read_manifest(path),
        command=tuple(launcher.fields["command"]),
        program=tuple(launcher.fields["args"]),
        gpus=_gpus_of(first_container_of(document, "Worker").fields),
        launcher_gpus=_gpus_of(launcher.fields),
        memory_volumes=_memory_volumes_of(document),
        header=header_of(path),
    )


def _gpus_of(container: Document) -> int:
    gpus: int = container.get("resources", {}).get("limits", {}).get(_GPU, 0)
    return gpus


def _memory_volumes_of(document: Document) -> dict[str, str]:
    volumes = {one["name"]: one["emptyDir"] for one in pod_of(document, "Worker")["volumes"]}
    mounts = first_container_of(document, "Worker").fields["volumeMounts"]
    return {
        mount["mountPath"]: volumes[mount["name"]]["sizeLimit"]
        for mount in mounts
        if volumes[mount["name"]].get("medium") == "Memory"
    }
