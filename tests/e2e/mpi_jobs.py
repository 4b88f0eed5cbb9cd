"""A job as mpi-operator understands it: what its pods are, whatever runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

__all__ = [
    "ExecProbe",
    "HttpProbe",
    "Implementation",
    "MpiJob",
    "PodTemplate",
    "Probe",
    "TcpProbe",
]


class Implementation(Enum):
    """The MPI implementations that mpi-operator knows; the value is its `mpiImplementation`.

    Source: mpi-operator v0.8.2, pkg/apis/kubeflow/v2beta1/types.go.
    """

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecProbe:
    """Says yes when a command in the container ends with 0."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpProbe:
    """Says yes when a port of the pod lets itself be connected to."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe:
    """Says yes when a page of the pod comes with a status from 200 to 399."""

    port: int
    path: str


Probe = ExecProbe | TcpProbe | HttpProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """One role's pod: its main container, and perhaps one beside it.

    Attributes:
        keeps_entrypoint: whether `argv` is `args` alone, behind the image's own entrypoint.
        image: its name; empty for the image that the job is run with.
        uid: whom it runs as; None leaves it to the image.
        gid: the group it runs as; None leaves it to the image and to the uid. Without a uid there
            is none: what Kubernetes makes of that depends on the image's own user.
        readiness: None where a container that runs is ready.
        liveness: what kubelet would ask later; here only tests ask.
        variables: its `env`.
        is_hardened: read-only root file system, no capability, no way to more rights.
        empty_dirs: where an emptyDir is mounted.
        claims: name of each persistent volume claim, and where it is mounted.
        sidecar: the container beside it, which shares its network and has no volume of the job's.
        shares_processes: whether the two see each other's processes.
        options: what else the engine is told, in its own words.
    """

    argv: tuple[str, ...]
    keeps_entrypoint: bool = False
    image: str = ""
    uid: int | None = None
    gid: int | None = None
    readiness: Probe | None = None
    liveness: Probe | None = None
    variables: tuple[tuple[str, str], ...] = ()
    is_hardened: bool = False
    empty_dirs: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    sidecar: PodTemplate | None = None
    shares_processes: bool = False
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.gid is not None and self.uid is None:
            raise ValueError(f"cannot lay out runAsGroup {self.gid}: there is no runAsUser")

    def with_image(self, written: str, built: str) -> PodTemplate:
        """Return the pod with an image that is here in place of the one it names."""
        sidecar = self.sidecar.with_image(written, built) if self.sidecar is not None else None
        image = built if self.image == written else self.image
        return replace(self, image=image, sidecar=sidecar)


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiJob:
    """A job, and the settings of the operator that runs it; the defaults are the operator's.

    Attributes:
        launcher_is_worker: `runLauncherAsWorker`: the launcher is the first host.
        waits_for_workers: `launcherCreationPolicy: WaitForWorkersReady`.
        cluster_domain: of the operator's `--cluster-domain`; empty without that flag.
        fs_group: the pods' `fsGroup`, which may read the mounted keys; None without one.
        key_mode: of the mounted keys; None leaves it to the operator and to `fs_group`.
    """

    launcher: PodTemplate
    worker: PodTemplate
    workers: int
    implementation: Implementation = Implementation.OPEN_MPI
    slots: int = 1
    ssh_mount: str = "/root/.ssh"
    launcher_is_worker: bool = False
    waits_for_workers: bool = False
    cluster_domain: str = ""
    fs_group: int | None = None
    key_mode: int | None = None

    def with_image(self, written: str, built: str) -> MpiJob:
        """Return the job with an image that is here in place of one that its manifest names."""
        return replace(
            self,
            launcher=self.launcher.with_image(written, built),
            worker=self.worker.with_image(written, built),
        )
