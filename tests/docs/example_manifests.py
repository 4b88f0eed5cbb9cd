"""What the tests of pages read out of the manifests of examples/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NewType

import click
import yaml

from mpi_agent.cli import main

__all__ = [
    "EXAMPLES",
    "ROOT",
    "Container",
    "Document",
    "agent_call_in",
    "containers_of",
    "document_of",
    "first_container_of",
    "header_of",
    "mpi_jobs",
    "parse_agent_call",
    "pod_of",
]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

Document = NewType("Document", dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a manifest; `fields` is all that the manifest says of it."""

    name: str
    image: str
    argv: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    fields: Document

    @property
    def agent_call(self) -> tuple[str, ...]:
        """The words behind `mpi-agent`; empty where something else is called."""
        return agent_call_in(self.argv)


def agent_call_in(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words behind `mpi-agent`; empty where something else is called."""
    return argv[1:] if argv and Path(argv[0]).name == "mpi-agent" else ()


def parse_agent_call(call: tuple[str, ...]) -> tuple[str, ...]:
    """Return what stands behind the options of a call of the agent.

    Raises:
        click.UsageError: it has no such command, or the command has no such option.
    """
    with click.Context(main) as context:
        command = main.get_command(context, call[0])
        assert command is not None, f"mpi-agent has no command {call[0]}"
        made = command.make_context(call[0], list(call[1:]), parent=context)
    return tuple(made.params.get("program", ()))


def document_of(path: Path) -> Document:
    """Return the one document of a manifest."""
    return Document(yaml.safe_load(path.read_text()))


def header_of(path: Path) -> str:
    """Return the comment above the manifest, as one text without its marks."""
    lines = re.match(r"(?:#.*\n)*", path.read_text())
    assert lines is not None
    return re.sub(r"^# ?", "", lines[0], flags=re.MULTILINE).replace("\\\n", " ")


def mpi_jobs() -> tuple[Path, ...]:
    """Return the manifests of kind MPIJob."""
    paths = sorted(EXAMPLES.rglob("*.yaml"))
    return tuple(path for path in paths if document_of(path)["kind"] == "MPIJob")


def pod_of(job: Document, role: str) -> Document:
    """Return the pod's spec of a role."""
    return Document(job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"])


def first_container_of(job: Document, role: str) -> Container:
    """Return the container of a role into which the operator mounts its files."""
    return next(containers_of(pod_of(job, role)["containers"]))


def containers_of(document: Any) -> Iterator[Container]:
    """Yield every container of a document of any kind, those of `initContainers` included."""
    if isinstance(document, list):
        for item in document:
            yield from containers_of(item)
    elif isinstance(document, dict):
        if "image" in document:
            yield Container(
                name=document.get("name", ""),
                image=document["image"],
                argv=(*document.get("command", ()), *document.get("args", ())),
                variables=tuple((e["name"], e.get("value", "")) for e in document.get("env", ())),
                fields=Document(document),
            )
        for value in document.values():
            yield from containers_of(value)
