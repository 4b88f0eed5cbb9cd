"""What defaults may take for granted of launcher and hosts, from what they have told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mpi_agent.container import has_rdma
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.surroundings import session_directory, surroundings_of

WITH, WITHOUT, SILENT = HostFacts(has_rdma=True), HostFacts(has_rdma=False), HostFacts()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"a": WITHOUT, "b": WITHOUT}, False),
        ({"a": WITHOUT, "b": WITH}, True),
        ({"a": WITHOUT, "b": SILENT}, True),
        ({"a": WITHOUT}, True),
        ({}, True),
    ],
    ids=["none has", "one has", "one cannot tell", "one was not asked", "nobody was asked"],
)
def test_rdma_is_ruled_out_only_where_every_host_says_that_it_has_none(
    facts: Mapping[str, HostFacts], expected: bool
) -> None:
    """The usual launcher has no device, and its workers have."""
    if has_rdma():
        pytest.skip("this machine has RDMA devices")

    assert surroundings_of({"a": None, "b": None}, facts).has_rdma is expected


def test_the_launcher_alone_speaks_for_itself() -> None:
    """A job on one host asks nobody."""
    assert surroundings_of({}, {}).has_rdma is has_rdma()


def directories(root: Path, *names: str) -> HostFacts:
    """Return a host that may write to these places below a root."""
    return HostFacts(directories=tuple(str(root / name) for name in names))


def test_nothing_is_said_of_a_session_directory_that_is_writable_everywhere(tmp_path: Path) -> None:
    """The MPI's own choice serves then."""
    (tmp_path / "tmp").mkdir()
    facts = {"a": directories(tmp_path, "tmp", "shm")}

    assert session_directory(facts, usual=tmp_path / "tmp") is None
    assert session_directory({}, usual=tmp_path / "tmp") is None


def test_a_launcher_that_cannot_write_to_the_usual_one_needs_another(tmp_path: Path) -> None:
    """The mpirun of a launcher with a read-only root would end, though every worker is fine."""
    (tmp_path / "shm").mkdir()
    facts = {"a": directories(tmp_path, "tmp", "var", "shm"), "b": directories(tmp_path, "shm")}

    assert session_directory(facts, usual=tmp_path / "tmp") == str(tmp_path / "shm")


def test_without_an_answer_of_hosts_the_launchers_own_directory_must_do(tmp_path: Path) -> None:
    """It would not even start without one."""
    assert session_directory({}, usual=tmp_path / "none") is not None


def test_a_host_that_cannot_write_to_the_usual_one_needs_another(tmp_path: Path) -> None:
    """Also where the launcher can."""
    for name in ("tmp", "shm"):
        (tmp_path / name).mkdir()
    facts = {"a": directories(tmp_path, "tmp", "shm"), "b": directories(tmp_path, "shm")}

    assert session_directory(facts, usual=tmp_path / "tmp") == str(tmp_path / "shm")
