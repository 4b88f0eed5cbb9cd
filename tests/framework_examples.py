"""The examples of PyTorch, nccl-tests and Horovod, as much of them as a test asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.workers import REPOSITORY

__all__ = ["DDP_PROGRAM", "FRAMEWORKS", "FrameworkExample", "framework_example"]

FRAMEWORKS = ("pytorch-ddp", "nccl-tests", "horovod")
DDP_PROGRAM = REPOSITORY / "examples" / "mpi-operator" / "ddp.py"
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkExample:
    """What such a manifest says.

    Attributes:
        command: of the launcher, up to and with `--`.
        program: behind it.
        environ: what the launcher's container is given.
        gpus: that each worker is given.
        memory_volumes: where a worker mounts volumes of memory, and how large each may get.
        header: the comment in front of the manifest.
    """

    name: str
    command: tuple[str, ...]
    program: tuple[str, ...]
    environ: dict[str, str]
    workers: int
    slots: int
    gpus: int
    launcher_gpus: int
    memory_volumes: dict[str, str]
    header: str

    def hostfile(self, separator: str) -> str:
        """Return the operator's hostfile for it, in the namespace default."""
        names = (f"{self.name}-worker-{i}.{self.name}.default.svc" for i in range(self.workers))
        return "".join(f"{name}{separator}{self.slots}\n" for name in names)


def framework_example(name: str) -> FrameworkExample:
    """Return one of FRAMEWORKS."""
    path: Path = DDP_PROGRAM.with_name(f"{name}.yaml")
    text = path.read_text()
    spec: dict[str, Any] = yaml.safe_load(text)["spec"]
    roles = spec["mpiReplicaSpecs"]
    launcher = roles["Launcher"]["template"]["spec"]["containers"][0]
    worker_pod = roles["Worker"]["template"]["spec"]
    worker = worker_pod["containers"][0]
    memory = {
        volume["name"]: volume["emptyDir"]["sizeLimit"]
        for volume in worker_pod["volumes"]
        if volume["emptyDir"].get("medium") == "Memory"
    }
    return FrameworkExample(
        name=name,
        command=tuple(launcher["command"]),
        program=tuple(launcher["args"]),
        environ={row["name"]: row["value"] for row in launcher["env"]},
        workers=roles["Worker"]["replicas"],
        slots=spec["slotsPerWorker"],
        gpus=worker["resources"]["limits"][_GPU],
        launcher_gpus=launcher.get("resources", {}).get("limits", {}).get(_GPU, 0),
        memory_volumes={
            mount["mountPath"]: memory[mount["name"]]
            for mount in worker["volumeMounts"]
            if mount["name"] in memory
        },
        header=text.partition("apiVersion:")[0],
    )
