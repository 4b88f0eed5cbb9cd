"""The pages that are served over HTTP: which path shows what, and with which code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mpi_agent.observe.text import printable

if TYPE_CHECKING:
    from mpi_agent.observe.heartbeat import Heartbeat
    from mpi_agent.observe.metrics import Metrics
    from mpi_agent.observe.status import Status
    from mpi_agent.observe.worker_metrics import WorkerMetrics
    from mpi_agent.observe.worker_status import WorkerStatus

__all__ = ["Page", "Pages", "launcher_pages", "text_page", "worker_pages"]

_TEXT = "text/plain; charset=utf-8"
_PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Source: Prometheus documentation, "Exposition formats", text-based format."""
_OK, _UNAVAILABLE = 200, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer.

    Attributes:
        code: of HTTP; a probe of the kubelet passes with 200 and fails with 503.
    """

    content_type: str
    body: bytes
    code: int = _OK


Pages: TypeAlias = Mapping[str, Callable[[], Page]]


def text_page(line: str, *, code: int = _OK) -> Page:
    """Return one line as a page."""
    return Page(content_type=_TEXT, body=f"{printable(line)}\n".encode(), code=code)


def launcher_pages(status: Status, metrics: Metrics) -> Pages:
    """Return the pages of a job."""
    return {
        "/healthz": lambda: text_page("ok"),
        "/status": lambda: _json_page(status.render()),
        "/metrics": lambda: _metrics_page(metrics.render()),
    }


def worker_pages(status: WorkerStatus, metrics: WorkerMetrics, heartbeat: Heartbeat) -> Pages:
    """Return the pages of a worker, or of the sidecar beside one."""
    return {
        "/readyz": lambda: _probe_page("ready", heartbeat.failure or status.refusal),
        "/healthz": lambda: _probe_page("ok", heartbeat.failure),
        "/status": lambda: _json_page(status.render(indent=2)),
        "/metrics": lambda: _metrics_page(metrics.render()),
    }


def _probe_page(word: str, refusal: str | None) -> Page:
    if refusal is None:
        return text_page(word)
    return text_page(f"not {word}: {refusal}", code=_UNAVAILABLE)


def _json_page(text: str) -> Page:
    return Page(content_type="application/json", body=text.encode())


def _metrics_page(text: bytes) -> Page:
    return Page(content_type=_PROMETHEUS_TEXT, body=text)
