"""The job's status as JSON: for `/status` while it lives, and for `mpi-agent wait --output json`.

The page docs/reference/status.md explains every field.
"""

from __future__ import annotations

from collections.abc import Callable

from mpi_agent import __version__
from mpi_agent.job.events import Event
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.observe.json_text import JsonObject, JsonValue, render_json
from mpi_agent.observe.json_values import ending_values, host_values, report_values
from mpi_agent.observe.snapshot import Snapshot, advance

__all__ = ["Status", "render_report"]


def render_report(report: ReadinessReport) -> str:
    """Return a report with every host, as JSON text with a final newline."""
    hosts = [host_values(host, at_s=report.at_s) for host in report.hosts]
    return _render({**report_values(report), "hosts": hosts})


class Status:
    """Keeps where the job stands; an `EventSink`.

    Args:
        now_s: the monotonic clock that the reports were made with.
    """

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._snapshot = Snapshot()

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._snapshot = advance(self._snapshot, event, now_s=self._now_s())

    def render(self) -> str:
        """Return where the job stands now, as JSON text with a final newline.

        The program's argv is left out: who may read this page is not known.
        """
        snapshot, now_s = self._snapshot, self._now_s()
        return _render(
            {
                "version": __version__,
                "phase": snapshot.phase.value,
                "job": _job_values(snapshot),
                "wait": _wait_values(snapshot, now_s),
                "program": _program_values(snapshot, now_s),
                "ending": None if snapshot.ending is None else ending_values(snapshot.ending),
            }
        )


def _job_values(snapshot: Snapshot) -> JsonValue:
    hosts = snapshot.hosts
    if hosts is None:
        return None
    return {"hosts": len(hosts.hosts), "slots": hosts.total_slots, "source": hosts.source}


def _wait_values(snapshot: Snapshot, now_s: float) -> JsonValue:
    """Return the wait's counts, and of its hosts those that are not ready."""
    report = snapshot.report
    if report is None:
        return None
    more_s = snapshot.since_report_s(now_s)
    at_s = report.at_s + more_s
    laggards = [host_values(host, at_s=at_s) for host in report.laggards]
    return {**report_values(report, more_s=more_s), "not_ready": laggards}


def _program_values(snapshot: Snapshot, now_s: float) -> JsonValue:
    program = snapshot.program
    if program is None:
        return None
    return {
        "pid": program.pid,
        "np": program.np,
        "hosts": program.host_count,
        "running_s": snapshot.running_s(now_s),
    }


def _render(values: JsonObject) -> str:
    return render_json(values, indent=2) + "\n"
