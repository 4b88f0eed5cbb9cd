"""Manifests in examples/ say what the agent understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mpi_agent.observe.heartbeat import Heartbeat
from mpi_agent.observe.pages import worker_pages
from mpi_agent.observe.worker_metrics import WorkerMetrics
from mpi_agent.settings import settings_of
from tests.docs.test_reference_pages import a_worker_status

ROOT = Path(__file__).parents[2]


def sidecar_of(path: Path) -> dict[str, Any]:
    """Return the container of the agent in a pod's manifest."""
    pod = yaml.safe_load(path.read_text())
    containers: list[dict[str, Any]] = pod["spec"]["initContainers"]
    return next(container for container in containers if container["name"] == "mpi-agent")


def test_the_sidecar_of_the_example_gets_options_that_it_knows() -> None:
    """And the port that its probes ask."""
    sidecar = sidecar_of(ROOT / "examples/sidecar/pod.yaml")
    flags = {row.flag for row in settings_of("sidecar")}
    arguments = dict(zip(sidecar["args"][::2], sidecar["args"][1::2], strict=True))

    assert sidecar["command"] == ["mpi-agent", "sidecar"]
    assert set(arguments) <= flags
    assert arguments["--http-port"] == str(sidecar["ports"][0]["containerPort"])


def test_the_probes_of_the_example_ask_for_pages_that_exist() -> None:
    """A 404 is a probe that fails for ever."""
    sidecar = sidecar_of(ROOT / "examples/sidecar/pod.yaml")
    status = a_worker_status()
    pages = worker_pages(status, WorkerMetrics(status), Heartbeat(now_s=lambda: 0.0))

    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert sidecar[probe]["httpGet"]["path"] == path
        assert path in pages
