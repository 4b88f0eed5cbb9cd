"""Reads an MPIJob manifest, with mpi-operator's defaults filled in.

Every field is either laid out by these tests or is known to mean nothing in containers of one
machine; a manifest with any other is refused, for what it asks for would not be tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.manifest_fields import Fields
from tests.e2e.manifest_pods import ReadPod, read_pod
from tests.e2e.mpi_jobs import Implementation, MpiJob

__all__ = ["read_manifest"]

_INJECTED_WORKER_COMMAND = ("/usr/sbin/sshd", "-De")
_POLICIES = {"AtStartup": False, "WaitForWorkersReady": True}
_COMPANIONS = ("PersistentVolumeClaim", "PriorityClass", "Queue")
_WITHOUT_MEANING_IN_A_RUN_POLICY = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "cleanPodPolicy",
    "schedulingPolicy",
    "ttlSecondsAfterFinished",
)


def read_manifest(path: Path) -> MpiJob:
    """Return the job of a manifest.

    The launcher's image is the job's; containers with another one keep its name, for
    `MpiJob.with_image`.

    Raises:
        ValueError: it is no MPIJob, or has a field that these tests cannot lay out; says which.
    Source: mpi-operator v0.8.2, pkg/apis/kubeflow/v2beta1/default.go and
    pkg/controller/mpi_job_controller.go (the worker's command).
    """
    with Fields(path.name, _mpi_job_in(path)) as manifest:
        manifest.pass_over("apiVersion", "kind", "metadata")
        return _job_of(manifest.part("spec"))


def _mpi_job_in(path: Path) -> Any:
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    jobs = [one for one in documents if one.get("kind") == "MPIJob"]
    others = {one.get("kind") for one in documents} - {"MPIJob", *_COMPANIONS}
    if len(jobs) != 1 or others or jobs[0].get("apiVersion") != "kubeflow.org/v2beta1":
        raise ValueError(f"cannot lay out {path.name}: it is not one MPIJob of v2beta1")
    return jobs[0]


def _job_of(spec: Fields) -> MpiJob:
    with spec, spec.part("mpiReplicaSpecs") as replicas:
        with spec.part("runPolicy") as policy:
            policy.pass_over(*_WITHOUT_MEANING_IN_A_RUN_POLICY)
        launchers, launcher = _replicas(replicas.part("Launcher"), count=1)
        workers, worker = _replicas(
            replicas.part("Worker"), count=0, command=_INJECTED_WORKER_COMMAND
        )
        if launchers != 1:
            raise replicas.refuse("there is one launcher")
        if launcher.fs_group != worker.fs_group:
            raise replicas.refuse("launcher and worker have one volume, and differ in fsGroup")
        image = launcher.template.image
        return MpiJob(
            launcher=launcher.template.with_image(image, ""),
            worker=worker.template.with_image(image, ""),
            implementation=Implementation(spec.take("mpiImplementation", "OpenMPI")),
            workers=workers,
            slots=spec.take("slotsPerWorker", 1),
            ssh_mount=spec.take("sshAuthMountPath", "/root/.ssh"),
            launcher_is_worker=spec.take("runLauncherAsWorker", False),
            waits_for_workers=_POLICIES[spec.take("launcherCreationPolicy", "AtStartup")],
            fs_group=worker.fs_group,
        )


def _replicas(fields: Fields, *, count: int, command: tuple[str, ...] = ()) -> tuple[int, ReadPod]:
    """Return how many pods of a role there are, and what each is; both have defaults."""
    with fields:
        fields.pass_over("restartPolicy")
        return fields.take("replicas", count), read_pod(fields.part("template"), command)
