"""The reader of manifests, on which the container tests of the examples stand."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.e2e.manifests import read_manifest
from tests.e2e.mpi_jobs import ExecProbe, HttpProbe, Implementation, MpiJob, TcpProbe

_JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  runPolicy: {cleanPodPolicy: Running}
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - {name: launcher, image: mpi-agent/pi:latest, command: [mpirun], args: [-n, "2", pi]}
    Worker:
      replicas: 2
      template:
        metadata:
          labels: {team: blue}
        spec:
          containers:
            - name: worker
              image: mpi-agent/pi:latest
"""
_HARDENED = """
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
"""
_SIDECAR = """
shareProcessNamespace: true
initContainers:
  - name: mpi-agent
    image: mpi-agent/sidecar:latest
    restartPolicy: Always
    args: [--ssh-port, "2222"]
    ports: [{name: pages, containerPort: 9390}]
    readinessProbe:
      httpGet: {path: /readyz, port: pages}
"""


def _read(
    directory: Path, *, plain: str = _JOB, job: str = "", pod: str = "", container: str = ""
) -> MpiJob:
    """Return the plain job with lines more: its own, the worker pod's, or its container's."""
    text = plain.strip().replace("spec:\n", "spec:\n" + indent(job.strip(), " " * 2) + "\n", 1)
    text += "\n" + indent(container.strip(), " " * 14)
    text += "\n" + indent(pod.strip(), " " * 10)
    path = directory / "job.yaml"
    path.write_text(text)
    return read_manifest(path)


def test_what_a_manifest_leaves_out_is_as_the_operator_fills_it_in(tmp_path: Path) -> None:
    """One slot, root's keys, Open MPI, the launcher at once, and sshd where nothing is said."""
    job = _read(tmp_path)

    assert (job.workers, job.slots, job.ssh_mount) == (2, 1, "/root/.ssh")
    assert job.implementation is Implementation.OPEN_MPI
    assert not job.launcher_is_worker
    assert not job.waits_for_workers
    assert job.launcher.argv == ("mpirun", "-n", "2", "pi")
    assert job.worker.argv == ("/usr/sbin/sshd", "-De")
    assert not job.worker.keeps_entrypoint
    assert job.worker.readiness is None


def test_a_job_that_does_not_count_its_workers_has_none(tmp_path: Path) -> None:
    """The launcher is one by itself."""
    job = _read(tmp_path, plain=_JOB.replace("      replicas: 2\n", ""))

    assert job.workers == 0


def test_the_jobs_own_settings_are_read(tmp_path: Path) -> None:
    """All that mpi-operator lays out differently."""
    lines = (
        "slotsPerWorker: 4\nsshAuthMountPath: /home/mpiuser/.ssh\nmpiImplementation: MPICH\n"
        "runLauncherAsWorker: true\nlauncherCreationPolicy: WaitForWorkersReady"
    )

    job = _read(tmp_path, job=lines)

    assert (job.slots, job.ssh_mount) == (4, "/home/mpiuser/.ssh")
    assert job.implementation is Implementation.MPICH
    assert job.launcher_is_worker
    assert job.waits_for_workers


def test_arguments_alone_stand_behind_the_images_entrypoint(tmp_path: Path) -> None:
    """A worker with `args` gets no command of the operator's."""
    job = _read(tmp_path, container="args: [/usr/sbin/sshd, -De]")

    assert job.worker.argv == ("/usr/sbin/sshd", "-De")
    assert job.worker.keeps_entrypoint


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("exec: {command: [mpi-agent, ready]}", ExecProbe(command=("mpi-agent", "ready"))),
        ("tcpSocket: {port: 2222}", TcpProbe(port=2222)),
        ("httpGet: {port: 9390}", HttpProbe(port=9390, path="/")),
    ],
)
def test_each_form_of_a_probe_is_read(
    probe: str, expected: ExecProbe | TcpProbe | HttpProbe, tmp_path: Path
) -> None:
    """How often kubelet asks means nothing here."""
    lines = f"readinessProbe:\n  periodSeconds: 2\n  {probe}"

    job = _read(tmp_path, container=lines)

    assert job.worker.readiness == expected


def test_the_containers_user_stands_before_that_of_the_pod(tmp_path: Path) -> None:
    """The group is the pod's alone."""
    of_the_pod = "securityContext: {runAsUser: 1, runAsGroup: 2, runAsNonRoot: true}"

    job = _read(tmp_path, container="securityContext: {runAsUser: 1000}", pod=of_the_pod)

    assert (job.worker.uid, job.worker.gid) == (1000, 2)


def test_a_hardened_container_has_no_more_to_write_to_than_its_emptydirs(tmp_path: Path) -> None:
    """Nothing comes by itself, /tmp neither; memory or disk is the same."""
    mounts = "volumeMounts: [{name: scratch, mountPath: /scratch}]\n"
    volumes = "volumes: [{name: scratch, emptyDir: {medium: Memory}}]"

    job = _read(tmp_path, container=mounts + _HARDENED.strip(), pod=volumes)

    assert job.worker.is_hardened
    assert job.worker.empty_dirs == ("/scratch",)


def test_a_claim_is_told_by_its_name_and_its_place(tmp_path: Path) -> None:
    """The volume's own name is nobody's business."""
    mounts = "volumeMounts: [{name: saved, mountPath: /saved}]"
    volumes = "volumes: [{name: saved, persistentVolumeClaim: {claimName: pi-saved}}]"

    job = _read(tmp_path, container=mounts, pod=volumes)

    assert job.worker.claims == (("pi-saved", "/saved"),)


def test_a_sidecar_keeps_its_image_and_is_asked_at_the_port_that_it_names(tmp_path: Path) -> None:
    """The image of the launcher is the job's, whatever its name; others are told apart by it."""
    job = _read(tmp_path, pod=_SIDECAR)

    sidecar = job.worker.sidecar
    assert sidecar is not None
    assert (job.worker.image, sidecar.image) == ("", "mpi-agent/sidecar:latest")
    assert job.worker.shares_processes
    assert sidecar.readiness == HttpProbe(port=9390, path="/readyz")
    built = job.with_image("mpi-agent/sidecar:latest", "here").worker.sidecar
    assert built is not None
    assert built.image == "here"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        pytest.param("slotsPerWorkers: 2", "slotsPerWorkers", id="misspelt"),
        pytest.param("mpiImplementation: LAM", "LAM", id="another-mpi"),
    ],
)
def test_what_a_job_may_not_ask_for_is_refused_by_name(
    lines: str, word: str, tmp_path: Path
) -> None:
    """An example with such a field would pass its test, and be wrong in a cluster."""
    with pytest.raises(ValueError, match=word):
        _read(tmp_path, job=lines)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        pytest.param("hostNetwork: true", "hostNetwork", id="network"),
        pytest.param("volumes: [{name: a, configMap: {name: a}}]", "configMap", id="volume"),
        pytest.param("initContainers: [{name: a, image: a}]", "ends", id="init-container"),
    ],
)
def test_what_a_pod_may_not_ask_for_is_refused_by_name(
    lines: str, word: str, tmp_path: Path
) -> None:
    """No part of a pod is left out in silence."""
    with pytest.raises(ValueError, match=word):
        _read(tmp_path, pod=lines)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        pytest.param("lifecycle: {}", "lifecycle", id="hook"),
        pytest.param("args: [1]", "args", id="number"),
        pytest.param("env: [{name: A, value: 1}]", "value", id="number-in-env"),
        pytest.param("env: [{name: A, valueFrom: {}}]", "valueFrom", id="value-from"),
        pytest.param("readinessProbe: {grpc: {port: 1}}", "grpc", id="another-probe"),
        pytest.param("volumeMounts: [{name: a, mountPath: /a}]", "'a'", id="no-volume"),
        pytest.param(
            "securityContext: {readOnlyRootFilesystem: true}", "in part", id="half-hardened"
        ),
        pytest.param("securityContext: {runAsNonRoot: true}", "runAsNonRoot", id="perhaps-root"),
    ],
)
def test_what_a_container_may_not_ask_for_is_refused_by_name(
    lines: str, word: str, tmp_path: Path
) -> None:
    """No part of a container is left out in silence."""
    with pytest.raises(ValueError, match=word):
        _read(tmp_path, container=lines)
