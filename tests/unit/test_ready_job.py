"""Local hosts in a report: ready without being asked, and counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.hosts import HostList
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.job_finder import Job
from mpi_agent.ready_job import (
    ReadyJob,
    job_of_report,
    launchers_before,
    of_ready_hosts,
    with_local_hosts,
)
from mpi_agent.run_id import RunId
from tests.builders import a_host, a_host_list

HOSTS = HostList(hosts=(a_host(0), a_host(1, is_local=True), a_host(2)), source="--hosts")


def report(*, ready: bool, enough: int | None = None) -> ReadinessReport:
    """Return a report of the two hosts that were asked."""
    asked = tuple(HostReadiness(host=host.name, is_ready=ready) for host in HOSTS.remote)
    return ReadinessReport(hosts=asked, elapsed_s=1.0, timeout_s=None, enough=enough)


def test_local_hosts_stand_in_the_report_at_their_place() -> None:
    """And are ready whatever the others are."""
    full = with_local_hosts(report(ready=False), HOSTS)

    assert tuple(host.host for host in full.hosts) == HOSTS.names
    assert [host.is_ready for host in full.hosts] == [False, True, False]


@pytest.mark.parametrize(("enough", "ready"), [(0, True), (1, False), (None, False)])
def test_what_is_enough_counts_local_hosts_too(enough: int | None, ready: bool) -> None:
    """So a report says the same with and without them."""
    asked = report(ready=False, enough=enough)

    assert asked.is_ready is ready
    assert with_local_hosts(asked, HOSTS).is_ready is ready


def test_a_change_that_comes_after_the_report_does_not_count() -> None:
    """Nobody asked the new host; other slots of those who were asked do count."""
    job = Job(hosts=a_host_list(2), stack=None, keeps_host_option=False)
    with_slots = replace(job, hosts=a_host_list(2, slots=4))
    too_late = replace(job, hosts=a_host_list(3))
    asked = tuple(HostReadiness(host=name, is_ready=True) for name in job.hosts.names)
    ended = ReadinessReport(hosts=asked, elapsed_s=1.0, timeout_s=None)

    assert job_of_report(ended, (job, with_slots, too_late)) is with_slots


def test_only_hosts_that_need_ssh_are_remote() -> None:
    """They get their place in the configuration of ssh; local ones have no port."""
    job = Job(hosts=HOSTS, stack=None, keeps_host_option=False)
    ready = ReadyJob(job=job, report=with_local_hosts(report(ready=True), HOSTS))

    assert [host.host for host in ready.remote] == [host.name for host in HOSTS.remote]


def test_a_smaller_job_has_the_ready_hosts_alone_in_rank_order() -> None:
    """Ranks are counted anew, because np is."""
    hosts = HostList(hosts=(a_host(0), a_host(1), a_host(2)), source="--hosts")
    asked = tuple(
        HostReadiness(host=name, is_ready=index != 1) for index, name in enumerate(hosts.names)
    )
    waited = ReadinessReport(hosts=asked, elapsed_s=30.0, timeout_s=30.0)

    smaller = of_ready_hosts(Job(hosts=hosts, stack=None, keeps_host_option=False), waited)

    assert smaller.job.hosts.names == (hosts.names[0], hosts.names[2])
    assert [host.index for host in smaller.job.hosts.hosts] == [0, 1]
    assert smaller.report.is_ready
    assert [host.host for host in smaller.remote] == list(smaller.job.hosts.names)


def a_run(container: str, *, job: str = "pi-launcher") -> RunId:
    """Return a run of a launcher's container."""
    return RunId.of_launcher(name=job, container=container, launch="f" * 8)


def seen_by(*hosts: tuple[RunId, ...] | None) -> ReadinessReport:
    """Return what workers saw of launchers, None for one that does not tell."""
    told = tuple(
        HostReadiness(
            host=f"w-{number}",
            facts=None if runs is None else HostFacts(launchers=tuple(r.launcher for r in runs)),
        )
        for number, runs in enumerate(hosts)
    )
    return ReadinessReport(hosts=told, elapsed_s=1.0, timeout_s=None)


def test_launchers_of_other_jobs_are_no_attempts_of_this_one() -> None:
    """Workers may outlive many jobs; a first run must not restore from a checkpoint."""
    others = tuple(a_run(f"c-{number}", job="tau-launcher") for number in range(3))

    assert launchers_before(seen_by(others, None), a_run("own")) == 0


def test_former_lives_of_the_launcher_are_counted_where_most_of_them_were_seen() -> None:
    """A worker that was replaced has seen fewer; the own life is none of them."""
    own, first, second = a_run("own"), a_run("first"), a_run("second")
    other = a_run("first", job="tau-launcher")

    assert launchers_before(seen_by((first, other, second, own), (own,), None), own) == 2
    assert launchers_before(seen_by(()), own) == 0
