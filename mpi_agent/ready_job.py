"""What a wait is for and what it ends with, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ReadinessReport, Stage
from mpi_agent.job_finder import Job
from mpi_agent.run_id import RunId
from mpi_agent.ssh.trust import SshTarget, SshTerms
from mpi_agent.wait.equipment import Equipment

__all__ = [
    "ReadyJob",
    "WaitRequest",
    "job_of_report",
    "launchers_before",
    "of_ready_hosts",
    "with_local_hosts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRequest:
    """What is waited for.

    Attributes:
        terms: how every ssh of the job dials.
        ports: ssh ports to try on a host.
        targets: hosts whose address and port are known, as in a job on one machine.
        equipment: what each host must have, None to ask for a login alone.
        asks_back: each host must be able to connect to the launcher.
        timeout_s: seconds from the start, None for no limit.
        started_at_s: monotonic time from which it counts; finding the hosts took some of it.
        enough: how many hosts that are not local must be ready, None for all.
        own_name: the launcher's, None where nobody can know it.
        in_pod: an orchestrator started this container.
    """

    terms: SshTerms
    ports: tuple[int, ...]
    targets: tuple[SshTarget, ...]
    equipment: Equipment | None
    asks_back: bool
    parallel: int
    timeout_s: float | None
    started_at_s: float
    enough: int | None
    own_name: str | None
    in_pod: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyJob:
    """The job as it was when the wait ended, and where its hosts stood; local ones are ready."""

    job: Job
    report: ReadinessReport

    @property
    def remote(self) -> tuple[HostReadiness, ...]:
        """The hosts that were asked."""
        names = {host.name for host in self.job.hosts.remote}
        return tuple(host for host in self.report.hosts if host.host in names)


def job_of_report(report: ReadinessReport, jobs: tuple[Job, ...]) -> Job:
    """Return the last of the jobs whose hosts were those of the report.

    A change that comes while the last probes are taken back is in the jobs and not in the report.
    """
    asked = tuple(host.host for host in report.hosts)
    return next(
        job for job in reversed(jobs) if tuple(host.name for host in job.hosts.remote) == asked
    )


def with_local_hosts(report: ReadinessReport, hosts: HostList) -> ReadinessReport:
    """Return a report of all hosts of the job, of which the local ones need no asking."""
    asked = {host.host: host for host in report.hosts}
    every = tuple(
        HostReadiness(host=host.name, stage=Stage.EQUIPPED, is_ready=True)
        if host.is_local
        else asked[host.name]
        for host in hosts.hosts
    )
    local_count = len(every) - len(asked)
    enough = None if report.enough is None else report.enough + local_count
    return replace(report, hosts=every, enough=enough)


def of_ready_hosts(job: Job, report: ReadinessReport) -> ReadyJob:
    """Return a smaller job, of those of its hosts alone that are ready; there is at least one.

    Args:
        report: of all hosts of the job; of others in it nothing is known but their names.
    """
    ready = {host.host for host in report.hosts if host.is_ready}
    kept = tuple(host for host in job.hosts.hosts if host.name in ready)
    hosts = tuple(replace(host, index=index) for index, host in enumerate(kept))
    names = {host.name for host in hosts}
    return ReadyJob(
        job=replace(job, hosts=replace(job.hosts, hosts=hosts)),
        report=replace(
            report, hosts=tuple(host for host in report.hosts if host.host in names), enough=None
        ),
    )


def launchers_before(report: ReadinessReport, own: RunId) -> int:
    """Return how many launcher containers began this job before, as far as workers saw them.

    Workers may have seen launchers of other jobs too.

    Args:
        own: of any run of this launcher.
    """
    seen = (host.facts.launchers for host in report.hosts if host.facts is not None)
    return max((_of_former_lives(launchers, own) for launchers in seen), default=0)


def _of_former_lives(launchers: tuple[str, ...], own: RunId) -> int:
    return len({one for one in launchers if one.startswith(f"{own.job}.")} - {own.launcher})
