"""What mpi-operator writes for a job: host names, files and variables.

Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go: newConfigMap,
updateDiscoverHostsInConfigMap, newWorker, newLauncherPodTemplate and the variables at the top.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.mpi_jobs import Implementation, MpiJob

__all__ = [
    "NAMESPACE",
    "cluster_name",
    "discover_hosts_text",
    "hostfile_text",
    "launcher_variables",
    "search_list",
    "service_name",
    "worker_search_domain",
]

NAMESPACE = "default"
_USUAL_DOMAIN = "cluster.local"
_HOSTFILE = "/etc/mpi/hostfile"
_SSH_ARGUMENTS = "-o ConnectionAttempts=10"


def service_name(job: MpiJob, job_name: str, hostname: str) -> str:
    """Return a host's name as the operator writes it."""
    return ".".join(filter(None, (hostname, job_name, NAMESPACE, "svc", job.cluster_domain)))


def cluster_name(job: MpiJob, job_name: str, hostname: str = "") -> str:
    """Return a host's whole name in the cluster's DNS; without a host that of the Service."""
    domain = job.cluster_domain or _USUAL_DOMAIN
    return ".".join(filter(None, (hostname, job_name, NAMESPACE, "svc", domain)))


def search_list(job: MpiJob) -> tuple[str, ...]:
    """Return the domains that kubelet lets a pod look names up in."""
    domain = job.cluster_domain or _USUAL_DOMAIN
    return (f"{NAMESPACE}.svc.{domain}", f"svc.{domain}", domain)


def worker_search_domain(job_name: str) -> str:
    """Return what the operator adds to a worker's search list, whatever the cluster's domain."""
    return f"{job_name}.{NAMESPACE}.svc.{_USUAL_DOMAIN}"


def hostfile_text(job: MpiJob, names: Sequence[str]) -> str:
    """Return the hostfile of hosts, by their names and in their order."""
    slots = job.slots
    if job.implementation is Implementation.OPEN_MPI:
        return "".join(f"{name} slots={slots}\n" for name in names)
    return "".join(f"{name}:{slots}\n" for name in names)


def discover_hosts_text(names: Sequence[str]) -> str:
    """Return the script of hosts; the operator sorts them as text."""
    return "#!/bin/sh\n" + "".join(f"echo {name}\n" for name in sorted(names))


def launcher_variables(job: MpiJob) -> tuple[tuple[str, str], ...]:
    """Return what the operator adds to the launcher's `env`, after what stands there."""
    found = [("K_MPI_JOB_ROLE", "launcher"), *_variables_of_mpi(job)]
    if not job.launcher_is_worker:
        found += [("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", "")]
    return tuple(found)


def _variables_of_mpi(job: MpiJob) -> tuple[tuple[str, str], ...]:
    if job.implementation is Implementation.INTEL:
        return (
            ("I_MPI_HYDRA_HOST_FILE", _HOSTFILE),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", _SSH_ARGUMENTS),
            ("I_MPI_PERHOST", str(job.slots)),
        )
    if job.implementation is Implementation.MPICH:
        return (("HYDRA_HOST_FILE", _HOSTFILE), ("HYDRA_LAUNCH_EXTRA_ARGS", _SSH_ARGUMENTS))
    return (
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_default_hostfile", _HOSTFILE),
        ("OMPI_MCA_plm_rsh_args", _SSH_ARGUMENTS),
        ("OMPI_MCA_orte_set_default_slots", str(job.slots)),
    )
