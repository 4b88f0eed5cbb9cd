"""Lays a job out in containers as mpi-operator v2beta1 lays it out in pods.

Names, mounts, modes, variables and commands are the operator's; the network stands in for the
cluster's DNS. Each job has a name and a network of its own, and takes all with it when it closes.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go; a mounted Secret on kubelet 1.36.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.engine import Engine
from tests.e2e.manifests import MpiJob, PodTemplate
from tests.e2e.pods import Pod
from tests.e2e.volumes import lay_volume, new_ssh_secret

__all__ = ["Ended", "OperatorJob"]

_NAMESPACE = "default"
_SEARCH = (f"{_NAMESPACE}.svc.cluster.local", "svc.cluster.local", "cluster.local")
# Kubernetes's, but for the time-out: podman's DNS forwards what a search list tries in vain, and
# one try in thirty is lost on the way (aardvark-dns 1.4, 2026-11), which by default costs 5 s.
_RESOLVER = ("--dns-option=ndots:5", "--dns-option=timeout:1")
_LAST_USUAL_UID = 60000
# What containerd gives a pod and podman does not.
_CAPABILITIES = ("--cap-add=AUDIT_WRITE", "--cap-add=MKNOD", "--cap-add=NET_RAW")
# An emptyDir: open to everybody, without the sticky bit, and programs may be run from it.
_EMPTY_DIR = "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=0777,notmpcopyup"
_HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    _EMPTY_DIR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a launcher ended: its exit code, all its output, and its termination message."""

    code: int
    output: str
    message: str


class OperatorJob:
    """A running job; leaving the context removes its containers and its network."""

    def __init__(self, engine: Engine, job: MpiJob, image: str, directory: Path) -> None:
        self.name = f"pi-{secrets.token_hex(3)}"
        self._engine, self._job, self._image = engine, job, image
        self._directory = directory / self.name
        self._prefix = f"mpi-agent-e2e-{self.name}"
        self._pods: list[Pod] = []
        self._numbers: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._directory.mkdir()
        keys = new_ssh_secret(self._directory)
        lay_volume(self._directory / "ssh", keys, self._key_mode, self._job.fs_group)
        lay_volume(self._directory / "mpi", {"hostfile": self._hostfile()}, 0o444)
        lay_volume(self._directory / "mpi", {"discover_hosts.sh": self._discover_hosts()}, 0o555)
        self._engine.do("network", "create", self._prefix)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            for pod in self._pods:
                error.add_note(f"---- log of {pod.hostname}\n{pod.log()[-6000:]}")
        for pod in self._pods:
            self._engine.ask("rm", "--force", "--time=0", pod.name)
        self._engine.ask("network", "rm", "--force", self._prefix)

    @property
    def network(self) -> str:
        """The engine's name of the job's network."""
        return self._prefix

    @property
    def private_key(self) -> str:
        """The text of the job's private key."""
        return (self._directory / "key").read_text()

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods that were started."""
        return tuple(self._pods)

    @property
    def worker_names(self) -> tuple[str, ...]:
        """Host names of the workers, in index order."""
        return tuple(f"{self.name}-worker-{index}" for index in range(self._job.workers))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names of all hosts that may hold ranks, in the hostfile's order."""
        first = (f"{self.name}-launcher",) if self._job.launcher_is_worker else ()
        return (*first, *self.worker_names)

    @property
    def workers(self) -> tuple[Pod, ...]:
        """The worker pods that were started."""
        return tuple(pod for pod in self._pods if pod.hostname in self.worker_names)

    def start_workers(self, *extra_mounts: str) -> None:
        """Start all workers."""
        for hostname in self.worker_names:
            self.start_worker(hostname, *extra_mounts)

    def start_worker(self, hostname: str, *extra_mounts: str) -> Pod:
        """Start one worker; another one of the same name if there was one before, elsewhere."""
        options = ("--env=K_MPI_JOB_ROLE=worker", *extra_mounts)
        search = (f"{self.name}.{_NAMESPACE}.svc.cluster.local",)
        return self._start(hostname, self._job.worker, options, extra_search=search)

    def start_launcher(self, argv: tuple[str, ...] = ()) -> Pod:
        """Start the launcher; another one of the same name if there was one before.

        Args:
            argv: in place of the job's.
        """
        (self._directory / "termination-log").write_text("")
        (self._directory / "termination-log").chmod(0o666)
        variables = {
            "K_MPI_JOB_ROLE": "launcher",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_set_default_slots": str(self._job.slots),
            "NVIDIA_VISIBLE_DEVICES": "",
            "NVIDIA_DRIVER_CAPABILITIES": "",
        }
        options = (
            f"--volume={self._directory / 'mpi'}:/etc/mpi:ro",
            f"--volume={self._directory / 'termination-log'}:/dev/termination-log",
            *(f"--env={name}={value}" for name, value in variables.items()),
        )
        template = replace(self._job.launcher, argv=argv or self._job.launcher.argv)
        return self._start(f"{self.name}-launcher", template, options)

    def remove(self, pod: Pod) -> None:
        """End a pod, whatever it does, and take it away with its log and its address."""
        self._engine.do("rm", "--force", "--time=0", pod.name)
        self._pods.remove(pod)

    def ended(self, launcher: Pod, *, limit_s: float = 60.0) -> Ended:
        """Wait for the launcher's end and return it."""
        return Ended(
            code=launcher.wait(limit_s),
            output=launcher.log(),
            message=(self._directory / "termination-log").read_text(),
        )

    def run(self) -> Ended:
        """Start workers and launcher together, as the operator does, and wait for the end."""
        self.start_workers()
        return self.ended(self.start_launcher())

    @property
    def _key_mode(self) -> int:
        if self._job.fs_group is not None:
            return 0o440
        return 0o600 if self._job.ssh_mount == "/root/.ssh" else 0o644

    def _service_name(self, hostname: str) -> str:
        return f"{hostname}.{self.name}.{_NAMESPACE}.svc"

    def _hostfile(self) -> bytes:
        lines = (f"{self._service_name(host)} slots={self._job.slots}\n" for host in self.hosts)
        return "".join(lines).encode()

    def _discover_hosts(self) -> bytes:
        lines = (f"echo {self._service_name(host)}\n" for host in sorted(self.hosts))
        return ("#!/bin/sh\n" + "".join(lines)).encode()

    def _start(
        self,
        hostname: str,
        template: PodTemplate,
        options: tuple[str, ...],
        extra_search: tuple[str, ...] = (),
    ) -> Pod:
        self._numbers[hostname] += 1
        name = f"{self._prefix}-{hostname.removeprefix(self.name)[1:]}-{self._numbers[hostname]}"
        pod = Pod(self._engine, name, hostname)
        self._pods.append(pod)
        self._engine.start(
            f"--name={pod.name}",
            f"--hostname={hostname}",
            f"--network={self._prefix}",
            f"--network-alias={self._service_name(hostname)}.cluster.local",
            f"--network-alias={self.name}.{_NAMESPACE}.svc.cluster.local",
            *(f"--dns-search={domain}" for domain in (*_SEARCH, *extra_search)),
            *_RESOLVER,
            f"--volume={self._directory / 'ssh'}:{self._job.ssh_mount}:ro",
            *(_HARDENED if template.is_hardened else _CAPABILITIES),
            *_user_options(template.uid),
            *((f"--group-add={self._job.fs_group}",) if self._job.fs_group is not None else ()),
            *(f"--env={name}={value}" for name, value in template.variables),
            *template.options,
            *options,
            self._image,
            *template.argv,
        )
        return pod


def _user_options(uid: int | None) -> tuple[str, ...]:
    """Return podman's options for a pod's user.

    Kubernetes gives a uid that the image does not know no passwd entry, group 0, and HOME=/.
    """
    if uid is None:
        return ()
    if uid <= _LAST_USUAL_UID:
        return (f"--user={uid}",)
    return (f"--user={uid}:0", "--passwd=false", "--env=HOME=/")
