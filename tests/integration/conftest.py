"""What tests of workers share: a directory that every uid may enter, a job's keys, both ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers import (
    BUILTIN_CLIENT,
    OPENSSH_CLIENT,
    JobKeys,
    make_job_keys,
    open_directory,
    require_program,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a directory with a short path."""
    with open_directory() as path:
        yield path


@pytest.fixture
def keys(root: Path) -> JobKeys:
    """Give a job's keys in something like the operator's mount."""
    return make_job_keys(root / "mount")


@pytest.fixture(params=["openssh", "builtin"])
def backend(request: pytest.FixtureRequest) -> str:
    """Give each back end's name."""
    name: str = request.param
    if name == "openssh":
        require_program("sshd")
    return name


@pytest.fixture(params=[OPENSSH_CLIENT, BUILTIN_CLIENT], ids=["ssh", "mpi-agent-ssh"])
def client(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Give each client's command."""
    command: tuple[str, ...] = request.param
    if command == OPENSSH_CLIENT:
        require_program("ssh")
    return command
