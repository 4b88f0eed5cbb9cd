"""The wait in words: the progress line, the table at the end, causes and remedies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mpi_agent.errors import HostsNotReadyError, HostsRefusedError, ReadinessError
from mpi_agent.job.hosts import fold_names
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport, Stage
from mpi_agent.wait.ladder import LASTING_OBSTACLES

__all__ = ["REMEDIES", "Remedy", "progress_line", "readiness_error", "table_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What usually causes an obstacle in a cluster, and one action against it."""

    cause: str
    action: str


REMEDIES: dict[Obstacle, Remedy] = {
    Obstacle.NAME_MISSING: Remedy(
        cause="the pod is not Ready or not scheduled, or no headless Service selects it",
        action="see `kubectl get pods`; a name appears when its pod is Ready",
    ),
    Obstacle.NAME_SERVER: Remedy(
        cause="the name server in /etc/resolv.conf does not answer for the cluster",
        action="with hostNetwork set `dnsPolicy: ClusterFirstWithHostNet`",
    ),
    Obstacle.PORT_REFUSED: Remedy(
        cause="the pod runs and no ssh server listens on that port",
        action="check the worker's command and log, or give --ssh-port",
    ),
    Obstacle.PORT_SILENT: Remedy(
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
    Obstacle.BANNER_MISSING: Remedy(
        cause="a service mesh's proxy or a full sshd (MaxStartups) is in the way",
        action="exclude the ssh port from the mesh, or raise MaxStartups",
    ),
    Obstacle.HOST_KEY_UNKNOWN: Remedy(
        cause="the host does not run `mpi-agent worker`, or it is not a host of this job",
        action="run `mpi-agent worker` there, or accept any key with --insecure-host-keys",
    ),
    Obstacle.KEY_REFUSED: Remedy(
        cause="authorized_keys there has another key, sshd's StrictModes refuses its mode, "
        "the account is locked, or the user is another one",
        action="see the worker's log; `mpi-agent worker` uses its own copy of the keys",
    ),
    Obstacle.LOGIN_BROKEN: Remedy(
        cause="the ssh server ended the connection during the login",
        action="see the worker's log",
    ),
}

_STAGE_WORDS = {
    Stage.UNKNOWN: "no name yet",
    Stage.RESOLVED: "name resolves",
    Stage.REACHABLE: "port open",
    Stage.ANSWERING: "ssh answers",
    Stage.AUTHENTICATED: "ready",
}


def progress_line(report: ReadinessReport) -> str:
    """Return one line that says who is missing, folded, and at which stage."""
    ready = len(report.hosts) - len(report.laggards)
    counts = Counter(_obstacle_words(host) for host in report.laggards)
    reasons = ", ".join(f"{number} {words}" for words, number in counts.most_common())
    limit = "no limit" if report.timeout_s is None else f"limit {report.timeout_s:.0f} s"
    names = fold_names(tuple(host.host for host in report.laggards))
    return (
        f"{ready} of {len(report.hosts)} hosts ready after {report.elapsed_s:.0f} s ({limit}); "
        f"waiting for {names}: {reasons}"
    )


def table_lines(report: ReadinessReport) -> tuple[str, ...]:
    """Return one line per host that is not ready: name, stage, attempts, what was seen."""
    width = max((len(host.host) for host in report.laggards), default=0)
    return tuple(
        f"{host.host:<{width}}  {_STAGE_WORDS[host.stage]:<13}  {host.attempts} probes  "
        f"{host.last_failure.detail if host.last_failure else 'no probe ended'}"
        for host in report.laggards
    )


def readiness_error(report: ReadinessReport) -> ReadinessError:
    """Return the error for a wait that ended with hosts missing or refused."""
    laggards = report.laggards
    counts = Counter(_last_obstacle(host) for host in laggards)
    obstacle = counts.most_common(1)[0][0]
    names = fold_names(tuple(h.host for h in laggards if _last_obstacle(h) is obstacle))
    words = obstacle.value if obstacle else "no probe ended"
    refused = all(_last_obstacle(host) in LASTING_OBSTACLES for host in laggards)
    remedy = REMEDIES[obstacle] if obstacle else Remedy(cause="time was too short", action="wait")
    summary = (
        f"cannot {'log in to' if refused else 'reach'} {len(laggards)} of {len(report.hosts)} "
        f'hosts within {report.elapsed_s:.3g} s: "{names}": {words}'
    )
    kind = HostsRefusedError if refused else HostsNotReadyError
    error = kind(summary, hint=f"{remedy.cause}: {remedy.action}", report=report)
    error.evidence = table_lines(report)
    return error


def _last_obstacle(host: HostReadiness) -> Obstacle | None:
    return host.last_failure.obstacle if host.last_failure else None


def _obstacle_words(host: HostReadiness) -> str:
    obstacle = _last_obstacle(host)
    return obstacle.value if obstacle else "not asked yet"
