"""Lays a job out in containers as mpi-operator v2beta1 lays it out in pods.

Names, mounts, modes, variables and commands are the operator's; the network stands in for the
cluster's DNS. Each job has a name and a network of its own, and takes all with it when it closes.

What differs from a cluster: a worker's name is there before the worker is ready, except where the
launcher waits for it, because podman's DNS (aardvark-dns 1.4, 2026-11) may answer nobody for 40 s
when names come while they are asked for; a name stays when its pod is ready no more;
`discover_hosts.sh` lists all hosts from the beginning; a pod's own whole name is in the DNS alone,
not in its /etc/hosts as well; a sidecar starts after its worker, whose first process is process 1
of both; an emptyDir is not of the fsGroup.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go; a mounted Secret on kubelet 1.36.
"""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.engine import Engine
from tests.e2e.mpi_jobs import MpiJob, PodTemplate
from tests.e2e.operator_texts import (
    cluster_name,
    discover_hosts_text,
    hostfile_text,
    launcher_variables,
    search_list,
    service_name,
    worker_search_domain,
)
from tests.e2e.pod_options import options_of
from tests.e2e.pods import Pod
from tests.e2e.volumes import give_to_group, key_mode, lay_volume, new_ssh_secret
from tests.waiting import wait_until

__all__ = ["Ended", "OperatorJob"]

# Kubernetes's, but for the time-out: podman's DNS forwards what a search list tries in vain, and
# one try in thirty is lost on the way (aardvark-dns 1.4, 2026-11), which by default costs 5 s.
_RESOLVER = ("--dns-option=ndots:5", "--dns-option=timeout:1")
_READY_LIMIT_S = 60.0
_PROBE_PAUSE_S = 0.5  # an exec probe starts a program in the worker; kubelet waits for seconds
_JOB_LIMIT_S = 120.0


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
        group = self._job.fs_group
        lay_volume(self._directory / "ssh", keys, key_mode(self._job), group)
        names = [service_name(self._job, self.name, host) for host in self.hosts]
        hostfile = {"hostfile": hostfile_text(self._job, names).encode()}
        script = {"discover_hosts.sh": discover_hosts_text(names).encode()}
        lay_volume(self._directory / "mpi", hostfile, 0o444, group)
        lay_volume(self._directory / "mpi", script, 0o555, group)
        self._engine.do("network", "create", self._prefix)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        every = [one for pod in self._pods for one in pod.containers]
        if error is not None:
            for one in every:
                error.add_note(f"---- log of {one.title}\n{one.last_words()}")
        with ExitStack() as stack:  # goes on where one of them fails; the last comes first
            stack.callback(self._engine.ask, "network", "rm", "--force", self._prefix)
            for one in reversed(every):
                stack.callback(self._engine.ask, "rm", "--force", "--time=0", one.name)

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

    def start_worker(self, hostname: str, *extra_mounts: str, is_named: bool = True) -> Pod:
        """Start one worker; another one of the same name if there was one before, elsewhere.

        Args:
            is_named: whether its name resolves before anybody asked whether it is ready.
        """
        options = (
            "--env=K_MPI_JOB_ROLE=worker",
            f"--dns-search={worker_search_domain(self.name)}",
            *(self._aliases(hostname) if is_named else ()),
            *extra_mounts,
        )
        return self._start(hostname, self._job.worker, options)

    def start_launcher(self, argv: tuple[str, ...] = ()) -> Pod:
        """Start the launcher; another one of the same name if there was one before.

        Args:
            argv: in place of the job's.
        """
        (self._directory / "termination-log").write_text("")
        (self._directory / "termination-log").chmod(0o666)
        options = (
            *self._aliases(f"{self.name}-launcher"),
            f"--volume={self._directory / 'mpi'}:/etc/mpi:ro",
            f"--volume={self._directory / 'termination-log'}:/dev/termination-log",
            *(f"--env={name}={value}" for name, value in launcher_variables(self._job)),
        )
        template = replace(self._job.launcher, argv=argv or self._job.launcher.argv)
        return self._start(f"{self.name}-launcher", template, options)

    def remove(self, pod: Pod) -> None:
        """End a pod, whatever it does, and take it away with its log and its address."""
        for one in pod.containers:
            self._engine.do("rm", "--force", "--time=0", one.name)
        self._pods.remove(pod)

    def ended(self, launcher: Pod, *, limit_s: float = _JOB_LIMIT_S) -> Ended:
        """Wait for the launcher's end and return it."""
        return Ended(
            code=launcher.wait(limit_s),
            output=launcher.log(),
            message=(self._directory / "termination-log").read_text(),
        )

    def wait_until_ready(self, *, limit_s: float = _READY_LIMIT_S) -> None:
        """Wait until every container of every worker is ready, as its probe tells it.

        Raises:
            AssertionError: one was not within the limit, or ended; the text holds its log.
        """
        for worker in self.workers:
            wait_until(
                f"{worker.hostname} is ready",
                partial(self._is_ready, worker),
                limit_s=limit_s,
                pause_s=_PROBE_PAUSE_S,
            )

    def run(self) -> Ended:
        """Start the job as the operator does, and wait for its end.

        The launcher comes together with the workers, or when all of them are ready and have their
        names, unless it is a worker as well and they have them at once.

        Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go, syncHandler and
        newJobService (publishNotReadyAddresses).
        """
        waits = self._job.waits_for_workers
        are_named = not waits or self._job.launcher_is_worker
        for hostname in self.worker_names:
            self.start_worker(hostname, is_named=are_named)
        if waits:
            self.wait_until_ready()
        if not are_named:
            self._name_the_workers()
        return self.ended(self.start_launcher())

    def _name_the_workers(self) -> None:
        """Let the names of the workers resolve."""
        for worker in self.workers:
            address, aliases = worker.address(), self._aliases(worker.hostname, "--alias")
            self._engine.do("network", "disconnect", self._prefix, worker.name)
            connect = ("network", "connect", f"--ip={address}", *aliases)
            self._engine.do(*connect, self._prefix, worker.name)

    def _aliases(self, hostname: str, option: str = "--network-alias") -> tuple[str, ...]:
        """Return the engine's options for a host's name, and for that of the Service."""
        names = (cluster_name(self._job, self.name, hostname), cluster_name(self._job, self.name))
        return tuple(f"{option}={name}" for name in names)

    def _is_ready(self, worker: Pod) -> bool:
        for one in worker.containers:
            assert one.is_running(), f"{one.title} has ended\n{one.last_words()}"
        main, sidecar = self._job.worker, self._job.worker.sidecar
        if sidecar is not None and worker.sidecar is not None:
            return worker.sidecar.answers(sidecar.readiness) and worker.answers(main.readiness)
        return worker.answers(main.readiness)

    def _start(self, hostname: str, template: PodTemplate, options: tuple[str, ...]) -> Pod:
        self._numbers[hostname] += 1
        name = f"{self._prefix}-{hostname.removeprefix(self.name)[1:]}-{self._numbers[hostname]}"
        pod = Pod(self._engine, name, hostname)
        self._pods.append(pod)
        self._engine.start(
            f"--name={pod.name}",
            f"--hostname={hostname}",
            f"--network={self._prefix}",
            *(f"--dns-search={domain}" for domain in search_list(self._job)),
            *_RESOLVER,
            f"--volume={self._directory / 'ssh'}:{self._job.ssh_mount}:ro",
            *(f"--volume={self._claim(name)}:{path}" for name, path in template.claims),
            *options_of(template, self._job.fs_group),
            *options,
            template.image or self._image,
            *template.argv,
        )
        if template.sidecar is not None:
            self._start_beside(pod, template.sidecar, shares_processes=template.shares_processes)
        return pod

    def _start_beside(self, pod: Pod, template: PodTemplate, *, shares_processes: bool) -> None:
        """Start a sidecar; keys, hostfile and the operator's variables are not for it.

        Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go, setupSSHOnPod.
        """
        sidecar = pod.sidecar = Pod(self._engine, f"{pod.name}-sidecar", pod.hostname, beside=pod)
        self._engine.start(
            f"--name={sidecar.name}",
            f"--network=container:{pod.name}",
            *((f"--pid=container:{pod.name}",) if shares_processes else ()),
            *options_of(template, self._job.fs_group),
            template.image or self._image,
            *template.argv,
        )

    def _claim(self, name: str) -> Path:
        """Return the directory of a claim, which all pods of the job share."""
        directory = self._directory / "claims" / name
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o777)
        if self._job.fs_group is not None:
            give_to_group(directory, self._job.fs_group, is_read_only=False)
        return directory
