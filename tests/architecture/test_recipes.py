"""The rules of the images' recipes: steps stand once, bases are arguments, names are real."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mpi_agent

ROOT = Path(__file__).parents[2]
STEPS = sorted((ROOT / "images/steps").iterdir())
RECIPES = [ROOT / "Dockerfile.openmpi", *sorted((ROOT / "images").glob("Dockerfile.*"))]
OF_ONE_ARCHITECTURE = {"Dockerfile.intel"}
"""Intel makes its MPI for amd64 alone"""
ARCHITECTURES = re.compile(r"amd64|x86.64|aarch64|arm64|linux-gnu")
STEPS_OF_ALL = re.compile(
    r"apt-get|useradd|ssh_host|Port 2222|/run/sshd|-m venv|dpkg-divert|mpi-agent shim|perm /6000"
)
"""what every image needs, so it stands in images/steps"""
ADDED_BY_A_BUILDER = re.compile(
    r"RUN /opt/mpi-agent/steps/install-packages [\w .+-]+"
    r"|COPY --from=mpi-devel (\S+) \1"
    r"|(?:ENV|LABEL) .+"
)
DEBIAN = re.compile(r"docker\.io/library/debian:(bookworm|trixie)-slim")
TAG = re.compile(r"(?<![\w/.-])mpi-agent/[a-z0-9-]+:[a-z0-9.-]+")
BUILT_TAG = re.compile(rf"-t ({TAG.pattern})")
ROW = re.compile(rf"^\| `({TAG.pattern})` \|", re.MULTILINE)
PAGES = ("*.md", "*.yaml", "Dockerfile*")
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)


def instructions(recipe: Path) -> tuple[str, ...]:
    """Return the lines of a recipe that are no comments, continued ones joined."""
    lines = (line for line in recipe.read_text().splitlines() if not line.startswith("#"))
    return tuple(filter(None, "\n".join(lines).replace("\\\n", " ").splitlines()))


def values(recipe: Path, instruction: str) -> tuple[str, ...]:
    """Return what stands behind an instruction, each time."""
    found = (line.partition(" ") for line in instructions(recipe))
    return tuple(value for name, _, value in found if name == instruction)


def stage(recipe: Path, name: str) -> tuple[str, ...]:
    """Return the lines of a stage, its FROM first; none where there is no such stage."""
    lines = instructions(recipe)
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    for start, end in zip(starts, (*starts[1:], len(lines)), strict=True):
        if lines[start].endswith(f" AS {name}"):
            return lines[start:end]
    return ()


def pages() -> Iterator[Path]:
    """Give every file in which a reader finds names of images."""
    for folder in (ROOT / "docs", ROOT / "examples", ROOT / "images"):
        for pattern in PAGES:
            yield from folder.rglob(pattern)
    yield from (ROOT / "README.md", ROOT / "Dockerfile.openmpi")


def test_there_is_a_recipe_for_each_image() -> None:
    """Three MPIs, two releases of one by an argument, and the agent alone."""
    assert [path.name for path in RECIPES] == [
        *("Dockerfile.openmpi", "Dockerfile.intel", "Dockerfile.mpich", "Dockerfile.sidecar")
    ]


@pytest.mark.parametrize("path", [*RECIPES, *STEPS], ids=lambda path: path.name)
def test_nothing_ties_an_image_to_an_architecture(path: Path) -> None:
    """Whoever has another machine builds the same image on it."""
    found = ARCHITECTURES.findall(path.read_text())

    assert found == [] or path.name in OF_ONE_ARCHITECTURE


@every_recipe
def test_what_every_image_needs_stands_in_no_recipe(recipe: Path) -> None:
    """It is written once, in images/steps."""
    assert STEPS_OF_ALL.findall("\n".join(instructions(recipe))) == []


def test_every_step_is_taken() -> None:
    """By a recipe or by another step; and can be run by whoever builds on an image of ours."""
    text = "\n".join(path.read_text() for path in (*RECIPES, *STEPS))

    for step in STEPS:
        assert re.search(rf"/{step.name}\b", text), step.name
        assert os.access(step, os.X_OK), step.name
        assert step.read_text().startswith("#!/bin/sh\n"), step.name
        assert "\nset -eu\n" in step.read_text(), step.name


@every_recipe
def test_the_base_is_an_argument_that_names_a_release(recipe: Path) -> None:
    """Every stage comes from it, or from another stage."""
    defaults = dict(value.split("=") for value in values(recipe, "ARG") if "=" in value)
    stages = [value.split(" AS ") for value in values(recipe, "FROM")]
    names = {stage[1] for stage in stages if len(stage) > 1}

    assert DEBIAN.fullmatch(defaults["BASE"])
    assert stages
    assert {stage[0] for stage in stages} <= {"${BASE}", *names}


@every_recipe
def test_an_image_without_a_wish_is_the_one_without_compilers(recipe: Path) -> None:
    """The last stage is built when no target is named, and adds nothing; a builder is a target."""
    if "sidecar" in recipe.name:
        assert stage(recipe, "builder") == ()
    else:
        assert instructions(recipe)[-1] == "FROM runtime"
        assert stage(recipe, "builder")


@every_recipe
def test_a_builder_is_its_image_with_compilers_and_headers(recipe: Path) -> None:
    """What must not be in the image's layers is not looked for again in the builder's."""
    start, *added = stage(recipe, "builder") or ("FROM runtime AS builder",)

    assert start == "FROM runtime AS builder"
    assert [line for line in added if not ADDED_BY_A_BUILDER.fullmatch(line)] == []


@every_recipe
def test_the_label_tells_the_version_of_the_agent(recipe: Path) -> None:
    """The argument's default is this tree's."""
    assert f"VERSION={mpi_agent.__version__}" in values(recipe, "ARG")


@every_recipe
def test_a_recipe_says_how_its_images_are_built(recipe: Path) -> None:
    """Each command of the header names this file and an image that the table lists."""
    listed = set(ROW.findall((ROOT / "images/README.md").read_text()))
    comments = (line for line in recipe.read_text().splitlines() if line.startswith("#"))
    commands = [line for line in comments if "podman build" in line]

    assert commands
    for command in commands:
        assert f"-f {recipe.relative_to(ROOT)} " in command
        tags = BUILT_TAG.findall(command)
        assert tags, command
        assert set(tags) <= listed


def test_every_name_of_an_image_is_listed_or_built_on_a_page() -> None:
    """A reader who copies a name finds the command that builds it, here or on another page."""
    listed = set(ROW.findall((ROOT / "images/README.md").read_text()))
    built = {tag for page in pages() for tag in BUILT_TAG.findall(page.read_text())}
    unknown = [
        f"{page.relative_to(ROOT)}: {tag}"
        for page in pages()
        for tag in TAG.findall(page.read_text())
        if tag not in listed | built
    ]

    assert unknown == []
