"""The wait in words: who is missing, why, and one thing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.errors import HostsNotReadyError, HostsRefusedError, HostsUnfitError
from mpi_agent.job.readiness import HostReadiness, Obstacle, ReadinessReport
from mpi_agent.wait.ladder import advance
from mpi_agent.wait.remedies import REMEDIES, Surroundings
from mpi_agent.wait.report import progress_line, readiness_error, table_lines
from tests.builders import a_probe_result

POD = Surroundings(in_pod=True)


def a_host_at(name: str, obstacle: Obstacle | None, *, at_s: float = 0.0) -> HostReadiness:
    """Return a host that met an obstacle once, or is ready."""
    return advance(
        HostReadiness(host=name), a_probe_result(name, obstacle=obstacle, at_s=at_s), pause_s=1.0
    )


def a_report(*hosts: HostReadiness, elapsed_s: float = 300.0) -> ReadinessReport:
    """Return a report at the end of a wait that began at 0."""
    return ReadinessReport(hosts=hosts, elapsed_s=elapsed_s, timeout_s=300.0, at_s=elapsed_s)


def test_every_obstacle_has_a_remedy() -> None:
    """The troubleshooting table is complete."""
    assert set(REMEDIES) == set(Obstacle)


def test_the_error_names_who_is_missing_and_why() -> None:
    """One sentence, folded, with a hint that knows Kubernetes."""
    report = a_report(*(a_host_at(f"pi-worker-{i}", Obstacle.NAME_UNKNOWN) for i in (3, 6)))

    error = readiness_error(report, POD)

    assert isinstance(error, HostsNotReadyError)
    assert error.summary == (
        'cannot reach 2 of 2 hosts within 300 s: "pi-worker-[3,6]": name does not exist'
    )
    assert "kubectl get pods" in error.hint


def test_the_error_counts_who_is_missing_for_other_causes() -> None:
    """The sentence names one cause, the table all of them."""
    report = a_report(
        a_host_at("w-0", Obstacle.NAME_UNKNOWN),
        a_host_at("w-1", Obstacle.NAME_UNKNOWN),
        a_host_at("w-2", Obstacle.PORT_REFUSED),
    )

    assert readiness_error(report, POD).summary.endswith("; 1 more for other causes")


def test_hosts_with_one_cause_share_a_row_of_the_table() -> None:
    """A thousand missing hosts must fit on a screen."""
    report = a_report(
        a_host_at("w-0", None),
        *(a_host_at(f"w-{i}", Obstacle.NAME_UNKNOWN, at_s=4.0) for i in range(1, 900)),
        a_host_at("w-900", Obstacle.PORT_REFUSED, at_s=250.0),
    )

    lines = table_lines(report)

    assert len(lines) == 3
    assert lines[0].split() == ["host", "stage", "since", "probes", "cause"]
    assert lines[1].split("  ")[0] == "w-[1-899]"
    assert "50 s" in lines[2]


@pytest.mark.parametrize(
    ("obstacles", "kind", "code"),
    [
        ((Obstacle.PORT_REFUSED,), HostsNotReadyError, 200),
        ((Obstacle.LAUNCHER_UNREACHABLE,), HostsUnfitError, 78),
        ((Obstacle.SHELL_SILENT, Obstacle.LOGIN_BROKEN), HostsNotReadyError, 200),
        ((Obstacle.KEY_REFUSED,), HostsRefusedError, 77),
        ((Obstacle.DAEMON_MISSING,), HostsUnfitError, 78),
        ((Obstacle.KEY_REFUSED, Obstacle.PORT_REFUSED), HostsRefusedError, 77),
        ((Obstacle.DAEMON_MISSING, Obstacle.NAME_UNKNOWN), HostsUnfitError, 78),
        ((Obstacle.KEY_REFUSED, Obstacle.DAEMON_MISSING), HostsRefusedError, 77),
    ],
)
def test_the_code_says_whether_a_retry_may_help(
    obstacles: tuple[Obstacle, ...], kind: type[Exception], code: int
) -> None:
    """Who was refused for good is blamed, even if somebody else was still missing."""
    hosts = tuple(a_host_at(f"w-{i}", obstacle) for i, obstacle in enumerate(obstacles))

    error = readiness_error(a_report(*hosts), POD)

    assert (type(error), error.exit_code) == (kind, code)


def test_a_refusal_at_the_deadline_does_not_hide_who_is_missing() -> None:
    """It came too late to be believed, and a retry may help."""
    report = a_report(
        a_host_at("w-0", Obstacle.KEY_REFUSED, at_s=299.0), a_host_at("w-1", Obstacle.PORT_REFUSED)
    )

    error = readiness_error(report, POD)

    assert (error.exit_code, '"w-1"' in error.summary) == (200, True)
    assert any("the job's key is refused: " in line for line in error.evidence)


def test_a_refused_host_that_the_wait_could_do_without_is_not_blamed() -> None:
    """With --min-workers somebody else was missing, and a retry may help."""
    hosts = [a_host_at("w-0", None), a_host_at("w-1", None)]
    hosts += [a_host_at("w-2", Obstacle.KEY_REFUSED), a_host_at("w-3", Obstacle.NAME_UNKNOWN)]

    error = readiness_error(replace(a_report(*hosts), enough=3), POD)

    assert (error.exit_code, '"w-3"' in error.summary) == (200, True)


def test_half_a_job_that_never_came_hints_at_gang_scheduling() -> None:
    """How many of how many, and what would have started all or none."""
    hosts = [
        a_host_at(f"pi-worker-{i}", None if i < 4 else Obstacle.NAME_UNKNOWN) for i in range(8)
    ]

    hint = readiness_error(a_report(*hosts), POD).hint

    assert "4 of 8 pods" in hint
    assert "--gang-scheduling=volcano" in hint
    assert "kubectl describe pod pi-worker-4" in hint


def test_a_pod_on_the_hosts_network_is_told_its_dns_policy() -> None:
    """Its resolv.conf is the node's, and no name of the cluster will ever resolve."""
    surroundings = Surroundings(in_pod=True, searches_cluster=False)

    hint = readiness_error(a_report(a_host_at("w-0", Obstacle.NAME_UNKNOWN)), surroundings).hint

    assert "ClusterFirstWithHostNet" in hint


def test_the_progress_line_counts_reasons() -> None:
    """Who is missing, and at which stage."""
    report = ReadinessReport(
        hosts=(
            a_host_at("w-0", None),
            a_host_at("w-1", Obstacle.PORT_REFUSED),
            a_host_at("w-2", Obstacle.PORT_REFUSED),
        ),
        elapsed_s=20.4,
        timeout_s=600.0,
    )

    assert progress_line(report) == (
        "1 of 3 hosts ready after 20 s (limit 600 s); waiting for w-[1-2]: 2 connection refused"
    )
