"""README.md shows what the agent says: a wait and endings, word for word as the code says them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.job.alarms import Alarm, AlarmKind, HostLoss
from mpi_agent.job.events import HostsDiscovered, ProgramEnded, WaitProgressed, WaitStarted
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.job.worker_news import WorkerNews
from mpi_agent.observe.log import Log
from mpi_agent.wait.dns.service import ServiceView, told
from mpi_agent.wait.ladder import advance
from mpi_agent.wait.remedies import Surroundings
from mpi_agent.wait.report import progress_line, readiness_error
from tests.builders import a_host_list, a_probe_result, a_process_exit

README = (Path(__file__).parents[2] / "README.md").read_text()
HOSTS = a_host_list(8, slots=2)
LIMIT_S = 24.82
PROBES = 51
GIB = 1 << 30


def a_host_at(name: str) -> HostReadiness:
    """Return a worker without a name if its number is 3 or 6, and else one that is ready."""
    if not name.startswith(("pi-worker-3", "pi-worker-6")):
        return advance(HostReadiness(host=name), a_probe_result(name, obstacle=None), pause_s=1.0)
    service = ServiceView(
        name="pi.default.svc", listed=6, obstacle=None, asked_at_s=0, rest_s=0, empty_since_s=None
    )
    detail = f'"{name}.cluster.local" does not exist (NXDOMAIN); {told(service)}'
    return HostReadiness(
        host=name, attempts=PROBES, last_failure=replace(a_probe_result(name), detail=detail)
    )


def a_report(at_s: float) -> ReadinessReport:
    """Return where the wait stands after some time."""
    hosts = tuple(a_host_at(name) for name in HOSTS.names)
    return ReadinessReport(hosts=hosts, elapsed_s=at_s, timeout_s=LIMIT_S, at_s=at_s)


def test_the_wait_is_told_as_the_agent_tells_it() -> None:
    """From the hosts that it finds to the hint at the end."""
    log = Log(stream := io.StringIO())

    log(HostsDiscovered(hosts=HOSTS))
    log(WaitStarted(names=HOSTS.names, timeout_s=LIMIT_S))
    for at_s in (10, 20):
        log(WaitProgressed(report=a_report(at_s), line=progress_line(a_report(at_s))))
    error = readiness_error(a_report(LIMIT_S), Surroundings(in_pod=True))
    log.error(error.summary, hint=error.hint, evidence=error.evidence, exit_code=error.exit_code)

    assert f"```text\n{stream.getvalue()}```\n" in README


OF_A_CODE = Evidence(program='"pi"', process_exit=a_process_exit(code=7), ranks_were_seen=True)
OF_MEMORY = Evidence(
    program='"train"',
    process_exit=a_process_exit(code=137, duration_s=731),
    news=(
        WorkerNews(host="pi-worker-3", kills=1, used_bytes=int(31.9 * GIB), limit_bytes=32 * GIB),
    ),
)
_SILENT = "no answer on TCP since 19:54:50"
OF_A_LOST_WORKER = Evidence(
    program='"pi"',
    process_exit=a_process_exit(code=143, duration_s=14),
    alarm=Alarm(
        kind=AlarmKind.WORKERS_LOST,
        why=f"pi-worker-2 lost: {_SILENT}",
        losses=(HostLoss(host="pi-worker-2", why=_SILENT, after_s=14, noticed_after_s=6),),
    ),
)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(OF_A_CODE, id="exit-code"),
        pytest.param(OF_MEMORY, id="out-of-memory"),
        pytest.param(OF_A_LOST_WORKER, id="lost-worker"),
    ],
)
def test_an_ending_is_told_as_the_agent_tells_it(evidence: Evidence) -> None:
    """The last line of the log, with verdict and code."""
    log = Log(stream := io.StringIO())

    log(ProgramEnded(ending=conclude(evidence)))

    assert f"```text\n{stream.getvalue()}```\n" in README


def test_the_operator_is_said_to_be_installed_separately() -> None:
    """With the one form of apply that takes a definition as large as that of MPIJob."""
    (sentence,) = (line for line in README.splitlines() if "`kubectl apply --server-side" in line)

    assert "The operator itself is installed separately" in sentence
