"""The ready file on a real disk, in a directory where others may write too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.errors import SettingsError, StateDirectoryError
from mpi_agent.job.worker_events import WorkerNotReady, WorkerReady
from mpi_agent.worker.readiness import Readiness, ReadyFile, probe_readiness
from tests.fakes import EventRecorder
from tests.workers import free_address

pytestmark = pytest.mark.integration

READY = WorkerReady(server="openssh", port=2222, user="mpiuser")


def told_of(address: str, port: int) -> ReadyFile:
    """Return what this process would say if it were a worker."""
    return ReadyFile(pid=os.getpid(), address=address, port=port, announcement="mpi-agent w")


@pytest.fixture
def told() -> ReadyFile:
    """Give the contents of a ready file on whose port nobody answers."""
    return told_of(*free_address())


@pytest.fixture
def events() -> EventRecorder:
    """Give what keeps the events."""
    return EventRecorder()


@pytest.fixture
def readiness(tmp_path: Path, events: EventRecorder) -> Iterator[Readiness]:
    """Give the readiness of a worker that has just started."""
    with Readiness(tmp_path / "ready", events) as readiness:
        yield readiness


def test_a_worker_is_not_ready_before_it_says_so(readiness: Readiness) -> None:
    """Whoever asks over HTTP is told why."""
    assert not readiness.is_ready
    assert readiness.why_not


def test_the_file_comes_and_goes_with_readiness(
    readiness: Readiness, events: EventRecorder, told: ReadyFile, tmp_path: Path
) -> None:
    """And every turn is an event."""
    readiness.claim()
    readiness.announce(told, READY)
    written = (tmp_path / "ready").read_text()
    was_ready = readiness.is_ready
    readiness.withdraw("sshd ended")

    assert ReadyFile.parse(written) == told
    assert was_ready
    assert (readiness.is_ready, readiness.why_not) == (False, "sshd ended")
    assert not (tmp_path / "ready").exists()
    assert events.events == [READY, WorkerNotReady(why="sshd ended")]


def test_a_reason_is_told_once_until_the_worker_is_ready_again(
    readiness: Readiness, events: EventRecorder, told: ReadyFile
) -> None:
    """A login that is tried again and again fails for the same reason each time."""
    for why in ("refused", "no answer", "refused", "no answer"):
        readiness.withdraw(why)
    readiness.announce(told, READY)
    readiness.withdraw("refused")

    reasons = [event.why for event in events.events if isinstance(event, WorkerNotReady)]
    assert reasons == ["refused", "no answer", "refused"]


def test_a_planted_link_is_replaced_and_never_followed(
    readiness: Readiness, told: ReadyFile, tmp_path: Path
) -> None:
    """In a shared /tmp anybody can put one where the file is to be."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    ready = tmp_path / "ready"
    ready.symlink_to(victim)

    readiness.claim()
    ready.symlink_to(victim)  # put there anew behind our back
    readiness.announce(told, READY)

    assert victim.read_text() == "precious"
    assert not ready.is_symlink()
    assert ReadyFile.parse(ready.read_text()) == told


def test_a_link_to_somebody_elses_ready_file_counts_for_nothing(
    readiness: Readiness, told: ReadyFile, tmp_path: Path
) -> None:
    """The probe looks at our file alone."""
    other = tmp_path / "other"
    other.write_text(told.render())
    ready = tmp_path / "ready"
    ready.symlink_to(other)

    refusal = probe_readiness(ready)
    readiness.claim()

    assert refusal is not None
    assert "symbolic link" in refusal
    assert other.exists()


def test_a_pipe_in_place_of_the_file_keeps_nobody_waiting(
    readiness: Readiness, tmp_path: Path
) -> None:
    """Whoever opened it would wait for a writer for ever."""
    os.mkfifo(tmp_path / "ready")

    refusal = probe_readiness(tmp_path / "ready")
    readiness.claim()

    assert refusal is not None
    assert not (tmp_path / "ready").exists()


def test_a_directory_in_place_of_the_file_is_named(readiness: Readiness, tmp_path: Path) -> None:
    """It cannot be replaced."""
    (tmp_path / "ready").mkdir()

    with pytest.raises(SettingsError, match="cannot write the ready file"):
        readiness.claim()


def test_a_worker_whose_file_cannot_be_written_is_not_ready(
    events: EventRecorder, told: ReadyFile, tmp_path: Path
) -> None:
    """Kubernetes would never know."""
    readiness = Readiness(tmp_path / "gone" / "ready", events)

    with pytest.raises(StateDirectoryError, match="No such file"):
        readiness.announce(told, READY)

    assert not readiness.is_ready
    assert events.events == []
