"""kubeflow's mpi-operator: what its files say, and which names can belong to this job.

The hostfile says who is expected and with how many slots; the discover script says who runs, in
text order, without slots, and late. So the hostfile counts, and the script only where there is no
hostfile.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go: pods `<job>-launcher`,
`<job>-worker-<i>`, service `<job>` (`<job>-worker` before v0.5), hostfile names
`<pod>.<service>.<namespace>.svc[.<domain>]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpi_agent.errors import HostSourceMissingError
from mpi_agent.job.hosts import HostEntry

__all__ = ["JobIdentity", "job_identity", "no_source_error", "separate_strangers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """Which job this launcher belongs to; None means that nothing tells."""

    job: str | None
    namespace: str | None


def job_identity(host_name: str, namespace: str | None) -> JobIdentity:
    """Return the job that a launcher pod's host name names."""
    match = re.fullmatch(r"(.+)-launcher", host_name)
    match = match or re.fullmatch(r"(.+)-launcher", host_name.split(".", 1)[0])
    return JobIdentity(job=match[1] if match else None, namespace=namespace)


def separate_strangers(
    entries: tuple[HostEntry, ...], identity: JobIdentity
) -> tuple[tuple[HostEntry, ...], tuple[HostEntry, ...]]:
    """Return the entries that can belong to this job, and those that cannot.

    Source: mpi-operator issue 621: two jobs of one name in two namespaces saw each other's
    workers.
    """
    own = tuple(entry for entry in entries if _belongs(entry.name, identity))
    return own, tuple(entry for entry in entries if entry not in own)


def _belongs(name: str, identity: JobIdentity) -> bool:
    found = re.search(r"\.([^.]+)\.svc(?:\.|$)", name)
    namespace = found[1] if found else None
    if identity.job is not None:
        job = re.escape(identity.job)
        match = re.fullmatch(
            rf"{job}-(?:worker-\d+|launcher)(?:\.{job}(?:-worker)?(?:\.([^.]+).*)?)?", name
        )
        if match is None:
            return False
        namespace = match[1] or namespace
    return namespace is None or identity.namespace in (None, namespace)


def no_source_error(
    *, has_directory: bool, has_kubexec: bool, role: str | None
) -> HostSourceMissingError:
    """Return the error for a launcher that finds no file of the operator.

    Args:
        has_directory: /etc/mpi is there.
        has_kubexec: /etc/mpi/kubexec.sh is there, which only the v1 operator mounts.
        role: K_MPI_JOB_ROLE, None when unset.
    Source: mpi-operator v0.8.2 mounts into the pod's first container only; v1 (training-operator)
    mounts kubexec.sh.
    """
    if has_kubexec:
        return HostSourceMissingError(
            "cannot find the hosts of the job: /etc/mpi holds kubexec.sh and no hostfile, "
            "which is what an MPIJob of apiVersion kubeflow.org/v1 mounts",
            hint="write the manifest for apiVersion kubeflow.org/v2beta1, or name the hosts "
            "with --hosts",
        )
    if has_directory:
        missing = "/etc/mpi has neither a hostfile nor discover_hosts.sh"
    else:
        missing = "there is no /etc/mpi, and neither --hosts nor --hostfile is given"
    container = (
        "this pod has K_MPI_JOB_ROLE, so check the ConfigMap of the job"
        if role
        else "mpi-operator mounts /etc/mpi into the launcher pod's first container only, "
        "so put this one first, or name the hosts with --hosts"
    )
    return HostSourceMissingError(f"cannot find the hosts of the job: {missing}", hint=container)
