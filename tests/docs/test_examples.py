"""Manifests in examples/ say what the agent understands, whatever engine they are for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpi_agent.observe.heartbeat import Heartbeat
from mpi_agent.observe.pages import worker_pages
from mpi_agent.observe.worker_metrics import WorkerMetrics
from mpi_agent.settings import settings_of, unknown_variables, variable_of
from tests.docs.example_manifests import (
    EXAMPLES,
    ROOT,
    Container,
    agent_call_in,
    containers_of,
    document_of,
    header_of,
    parse_agent_call,
)
from tests.docs.test_reference_pages import a_worker_status

SSH_PORT = 2222
OF_OURS = "mpi-agent/"
OF_THE_READER = "example/"
PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
every_manifest = pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)


@every_manifest
def test_the_agent_is_called_with_options_that_it_has(path: Path) -> None:
    """By every container's command, and by its probes."""
    for container in containers_of(document_of(path)):
        asked = (container.fields.get(probe, {}).get("exec", {}) for probe in PROBES)
        probes = (agent_call_in(tuple(probe.get("command", ()))) for probe in asked)
        for call in filter(None, (container.agent_call, *probes)):
            parse_agent_call(call)


@every_manifest
def test_the_agents_variables_are_those_of_settings(path: Path) -> None:
    """And of settings that the command knows for which they are set."""
    for container in containers_of(document_of(path)):
        variables = {name for name, _ in container.variables if name.startswith("MPI_AGENT_")}
        assert unknown_variables(dict.fromkeys(variables, "")) == ()
        if container.agent_call:
            known = {variable_of(row.name) for row in settings_of(container.agent_call[0])}
            assert variables <= known


@every_manifest
def test_probes_ask_a_port_and_a_page_that_are_there(path: Path) -> None:
    """A 404 is a probe that fails for ever, and so is a port on which nobody listens."""
    status = a_worker_status()
    pages = worker_pages(status, WorkerMetrics(status), Heartbeat(now_s=lambda: 0.0))

    for container in containers_of(document_of(path)):
        ports = {port["name"]: port["containerPort"] for port in container.fields.get("ports", ())}
        for probe in (container.fields[kind] for kind in PROBES if kind in container.fields):
            if "tcpSocket" in probe:
                assert probe["tcpSocket"]["port"] == SSH_PORT
            if "httpGet" in probe:
                port = probe["httpGet"]["port"]
                assert str(ports.get(port, port)) == http_port_of(container)
                assert probe["httpGet"].get("path", "/") in pages


def http_port_of(container: Container) -> str | None:
    """Return on which port the agent of a container serves its pages."""
    call = container.agent_call
    if "--http-port" in call:
        return call[call.index("--http-port") + 1]
    return dict(container.variables).get(variable_of("http-port"))


@every_manifest
def test_an_image_has_a_name_of_ours_or_stands_for_one_of_the_reader(path: Path) -> None:
    """Whether a name of ours is listed or built, `tests/architecture/test_recipes.py` tells."""
    for container in containers_of(document_of(path)):
        assert container.image.startswith((OF_OURS, OF_THE_READER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A `podman build` of a header, whose paths are relative to the repository."""

    options: tuple[tuple[str, str], ...]
    context: str

    def values_of(self, flag: str) -> tuple[str, ...]:
        """Return the values of an option."""
        return tuple(value for name, value in self.options if name == flag)

    @property
    def recipe(self) -> Path:
        """The Dockerfile."""
        return ROOT / next(iter(self.values_of("-f")), f"{self.context}/Dockerfile")


def builds_in_headers() -> Iterator[Build]:
    """Yield every `podman build` in the headers of manifests and recipes."""
    for path in (*EXAMPLES.rglob("*.yaml"), *EXAMPLES.rglob("Dockerfile*")):
        for line in re.findall(r"podman build (.*)", header_of(path)):
            *words, context = shlex.split(line)
            yield Build(options=tuple(zip(words[::2], words[1::2], strict=True)), context=context)


def test_the_builds_in_headers_name_recipes_and_arguments_that_exist() -> None:
    """They are meant to be pasted at the root of the repository."""
    for build in builds_in_headers():
        recipe = build.recipe.read_text()
        arguments = dict(argument.split("=", 1) for argument in build.values_of("--build-arg"))

        assert (ROOT / build.context).is_dir()
        assert set(arguments) <= set(re.findall(r"^ARG (\w+)", recipe, flags=re.MULTILINE))
