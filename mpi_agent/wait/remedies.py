"""What usually causes an obstacle in a cluster, and one action against it.

One row for each obstacle; the troubleshooting page is this table. Some rows know better where the
surroundings tell more: how many names are missing, what resolv.conf says, who answers there.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import Obstacle, ReadinessReport

__all__ = ["REMEDIES", "Remedy", "Surroundings", "remedy_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What usually causes an obstacle in a cluster, and one action against it."""

    cause: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What this container knows of where it runs.

    Attributes:
        in_pod: an orchestrator started it.
        searches_cluster: resolv.conf completes names with a cluster's domain.
    """

    in_pod: bool = False
    searches_cluster: bool = True


REMEDIES: dict[Obstacle, Remedy] = {
    Obstacle.NAME_UNKNOWN: Remedy(
        cause="the pod is not Ready or not scheduled, or no headless Service selects it",
        action="see `kubectl get pods`; a name appears when its pod is Ready",
    ),
    Obstacle.NAME_EMPTY: Remedy(
        cause="the name exists and no pod stands behind it, or a search list leads elsewhere",
        action="check the Service's selector with `kubectl get endpointslices`",
    ),
    Obstacle.NAME_SERVER_FAILED: Remedy(
        cause="the cluster's name server fails on its own side or cannot reach the one above it",
        action="see the log of CoreDNS (`kubectl -n kube-system logs -l k8s-app=kube-dns`)",
    ),
    Obstacle.NAME_SERVER_SILENT: Remedy(
        cause="the name server in /etc/resolv.conf is down, or a NetworkPolicy drops port 53",
        action="allow egress to port 53 (UDP and TCP), and check that CoreDNS runs",
    ),
    Obstacle.ADDRESS_SHARED: Remedy(
        cause="a wildcard record or one Service address answers for several names",
        action="use a headless Service (clusterIP: None), so that each name has its own address",
    ),
    Obstacle.ADDRESS_FAMILY: Remedy(
        cause="the pods have IPv6 addresses alone and the installed Open MPI was built without",
        action="use an MPI built with IPv6 (configure --enable-ipv6), or dual-stack pods",
    ),
    Obstacle.PORT_REFUSED: Remedy(
        cause="the pod runs and no ssh server listens on that port: it has not started, or the "
        "worker's command runs something else (a program there is never used)",
        action="check the worker's command and log, or give --ssh-port",
    ),
    Obstacle.PORT_FILTERED: Remedy(
        cause="packets are dropped, or the address is that of a pod that is gone",
        action="check NetworkPolicies for the ssh port between launcher and workers",
    ),
    Obstacle.UNREACHABLE: Remedy(
        cause="there is no route to the pod's address",
        action="check the pod network of the two nodes",
    ),
    Obstacle.NOT_SSH: Remedy(
        cause="another program listens on the ssh port",
        action="check the worker's command, or give --ssh-port",
    ),
    Obstacle.BANNER_LATE: Remedy(
        cause="a service mesh's sidecar accepts in the sshd's place, or the sshd hangs",
        action="exclude the ssh port from the mesh, with Istio by the annotation "
        "traffic.sidecar.istio.io/excludeInboundPorts on workers and excludeOutboundPorts on "
        "the launcher",
    ),
    Obstacle.CLOSED_EARLY: Remedy(
        cause="a service mesh's sidecar, a load balancer or a full sshd closes the connection",
        action="exclude the ssh port from the mesh (traffic.sidecar.istio.io/"
        "excludeInboundPorts), and see the sshd's log",
    ),
    Obstacle.TURNED_AWAY: Remedy(
        cause="more logins at once than MaxStartups allows, or PerSourcePenalties after logins "
        "that failed",
        action="raise MaxStartups, or run `mpi-agent worker`, whose sshd is sized to the job",
    ),
    Obstacle.HOST_KEY_UNKNOWN: Remedy(
        cause="what answers is not a worker of this job: the node's own sshd (hostNetwork), a pod "
        "of another job, or an sshd without the agent that made its own host key",
        action="run `mpi-agent worker` there (with hostNetwork on a port of its own, --ssh-port), "
        "or accept any key with --insecure-host-keys",
    ),
    Obstacle.KEY_REFUSED: Remedy(
        cause="the worker has another public key (its pod still mounts an older Secret <job>-ssh), "
        "sshd's StrictModes refuses the mode of authorized_keys, the account is locked, or the "
        "user is another one",
        action="compare the fingerprint with the worker's (`ssh-keygen -lf authorized_keys`), see "
        "the worker's log; `mpi-agent worker` uses its own copy of the keys",
    ),
    Obstacle.LOGIN_BROKEN: Remedy(
        cause="the ssh server ended the connection during the login",
        action="see the worker's log",
    ),
    Obstacle.SHELL_SILENT: Remedy(
        cause="a start-up file of the account's shell (~/.bashrc, /etc/profile.d) sleeps or waits",
        action="let it return at once for shells that are not interactive",
    ),
    Obstacle.SHELL_BROKEN: Remedy(
        cause="a start-up file of the account's shell ends it, or the shell is nologin",
        action="let start-up files return instead of `exit`, and give the account a shell",
    ),
    Obstacle.DAEMON_MISSING: Remedy(
        cause="the worker's image has no MPI, or has it at another place than the launcher's",
        action="use one image for launcher and workers, or install the same MPI at the same path",
    ),
    Obstacle.DAEMON_DIFFERS: Remedy(
        cause="launcher and worker run different images",
        action="use one image tag for both, and `imagePullPolicy: Always` where tags move",
    ),
    Obstacle.PROGRAM_DIFFERS: Remedy(
        cause="each rank would be alone in a world of one and the job would end with code 0",
        action="build the program with the MPI whose mpirun runs it, or choose that one with --mpi",
    ),
    Obstacle.LAUNCHER_UNREACHABLE: Remedy(
        cause="the daemons on the workers must connect to the launcher, and a NetworkPolicy or a "
        "mesh drops that, so mpirun would hang",
        action="allow ingress to the launcher's pod from the workers, all ports",
    ),
}


def remedy_for(
    obstacle: Obstacle | None, report: ReadinessReport, surroundings: Surroundings
) -> Remedy:
    """Return the row for an obstacle, sharpened by what else is known."""
    if obstacle is None:
        return Remedy(cause="time was too short for one answer", action="raise --timeout")
    if obstacle in {Obstacle.NAME_UNKNOWN, Obstacle.NAME_EMPTY}:
        return _remedy_for_names(obstacle, report, surroundings)
    return REMEDIES[obstacle]


def _remedy_for_names(
    obstacle: Obstacle, report: ReadinessReport, surroundings: Surroundings
) -> Remedy:
    if surroundings.in_pod and not surroundings.searches_cluster:
        return Remedy(
            cause="/etc/resolv.conf has no cluster domain, as in a pod on the host's network",
            action="set `dnsPolicy: ClusterFirstWithHostNet` beside hostNetwork",
        )
    missing = tuple(host.host for host in report.laggards if host.obstacle is obstacle)
    if not 0 < report.ready_count < len(report.hosts):
        return REMEDIES[obstacle]
    return Remedy(
        cause=f"{len(missing)} of {len(report.hosts)} pods are not Ready, perhaps Pending because "
        "the job was not scheduled as a whole",
        action=f"see `kubectl get pods` and `kubectl describe pod {_pod_of(missing)}`; with "
        "--gang-scheduling=volcano or scheduler-plugins at the operator all pods or none start "
        "(see the PodGroup)",
    )


def _pod_of(names: tuple[str, ...]) -> str:
    return fold_names(names[:1]).split(".", 1)[0]
