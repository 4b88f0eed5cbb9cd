"""The job's status as JSON: for `/status` while it lives, and for `mpi-agent wait --output json`.

The page docs/reference/status.md explains every field.
"""

from __future__ import annotations

from collections.abc import Callable

from mpi_agent import __version__
from mpi_agent.job.events import Event
from mpi_agent.job.readiness import ReadinessReport
from mpi_agent.observe.attempts import Attempts
from mpi_agent.observe.json_text import JsonObject, JsonValue, render_json
from mpi_agent.observe.json_values import host_values, report_values
from mpi_agent.observe.run_values import ending_values, loss_values, past_values
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
        self._snapshot = Snapshot(since_s=now_s())

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
                "since_s": max(0.0, now_s - snapshot.since_s),
                "job": _job_values(snapshot),
                "wait": _wait_values(snapshot, now_s),
                "attempt": _attempt_values(snapshot.attempts),
                "program": _program_values(snapshot, now_s),
                "ending": None if snapshot.ending is None else ending_values(snapshot.ending),
                "past_endings": [past_values(ending) for ending in snapshot.attempts.past],
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


def _attempt_values(attempts: Attempts) -> JsonObject:
    return {
        "number": attempts.number,
        "run_id": attempts.run_id,
        "max_restarts": attempts.max_restarts,
        "restarts": attempts.restarts,
        "restarts_left": attempts.restarts_left,
        "ranks_after_s": attempts.ranks_after_s,
        "suspects": [{"host": suspect.host, "why": suspect.why} for suspect in attempts.suspects],
        "losses": [loss_values(loss) for loss in attempts.losses],
    }


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
