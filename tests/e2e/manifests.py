"""What an MPIJob manifest says, with mpi-operator's defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["MpiJob", "PodTemplate", "read_manifest"]

_INJECTED_WORKER_COMMAND = ("/usr/sbin/sshd", "-De")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """One role's only container.

    Attributes:
        uid: whom it runs as; None leaves it to the image.
        readiness: command of the exec probe; empty without one.
        variables: its `env`.
        is_hardened: read-only root file system, no capability, no way to more rights; the one
            writable place is an emptyDir at /tmp.
        options: what else the engine is told, in its own words.
    """

    argv: tuple[str, ...]
    uid: int | None = None
    readiness: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    is_hardened: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiJob:
    """A job as mpi-operator understands it.

    Attributes:
        fs_group: the group that may read the mounted keys; None leaves them as the operator does.
    """

    launcher: PodTemplate
    worker: PodTemplate
    workers: int = 3
    slots: int = 2
    ssh_mount: str = "/root/.ssh"
    launcher_is_worker: bool = False
    fs_group: int | None = None


def read_manifest(path: Path) -> MpiJob:
    """Return the job of a manifest.

    Source: mpi-operator v0.8.2, pkg/apis/kubeflow/v2beta1/default.go and
    pkg/controller/mpi_job_controller.go (the worker's command).
    """
    spec: dict[str, Any] = yaml.safe_load(path.read_text())["spec"]
    worker = spec["mpiReplicaSpecs"]["Worker"]
    return MpiJob(
        launcher=_template_of(spec["mpiReplicaSpecs"]["Launcher"]),
        worker=_template_of(worker, default=_INJECTED_WORKER_COMMAND),
        workers=worker["replicas"],
        slots=spec.get("slotsPerWorker", 1),
        ssh_mount=spec.get("sshAuthMountPath", "/root/.ssh"),
        launcher_is_worker=spec.get("runLauncherAsWorker", False),
    )


def _template_of(replica: dict[str, Any], default: tuple[str, ...] = ()) -> PodTemplate:
    (container,) = replica["template"]["spec"]["containers"]
    return PodTemplate(
        argv=(*container.get("command", ()), *container.get("args", ())) or default,
        uid=container.get("securityContext", {}).get("runAsUser"),
        readiness=tuple(container.get("readinessProbe", {}).get("exec", {}).get("command", ())),
    )
