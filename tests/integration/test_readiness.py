"""The ready file on a real disk, in a directory where others may write too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpi_agent.errors import SettingsError, StateDirectoryError
from mpi_agent.job.worker_events import WorkerNotReady, WorkerReady
from mpi_agent.worker.readiness import Readiness, ReadyFile, probe_readiness
from tests.fakes import EventRecorder
from tests.workers import free_address, ordinary_uid

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


def test_the_file_of_a_worker_that_is_alive_and_slow_is_not_taken_away(
    readiness: Readiness, events: EventRecorder, told: ReadyFile, tmp_path: Path
) -> None:
    """Its port does not answer the probe in time, as on a node without a free core."""
    readiness.announce(told, READY)

    with pytest.raises(SettingsError, match="another worker is ready"):
        Readiness(tmp_path / "ready", events).claim()

    assert ReadyFile.parse((tmp_path / "ready").read_text()) == told


def test_the_file_of_a_worker_that_was_killed_is_taken_away(
    readiness: Readiness, tmp_path: Path
) -> None:
    """Though its process id may be somebody else's by now, as PID 1 of a container is ours."""
    with subprocess.Popen(
        [sys.executable, "-c", ANNOUNCES, str(tmp_path / "ready")], stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        try:
            with pytest.raises(SettingsError, match="another worker is ready"):
                readiness.claim()
        finally:
            worker.kill()
    assert (tmp_path / "ready").exists()

    readiness.claim()

    assert not (tmp_path / "ready").exists()


ANNOUNCES = """
import os, sys, time
from pathlib import Path
from mpi_agent.job.worker_events import WorkerReady
from mpi_agent.worker.readiness import Readiness, ReadyFile
told = ReadyFile(pid=1, address="127.0.0.1", port=1, announcement="mpi-agent w")
readiness = Readiness(Path(sys.argv[1]), lambda event: None)
readiness.announce(told, WorkerReady(server="openssh", port=1, user="mpiuser"))
print("ready", flush=True)
time.sleep(600)
"""


def test_the_file_of_another_account_counts_for_nothing(told: ReadyFile, tmp_path: Path) -> None:
    """In a shared /tmp anybody can write one; root's is believed."""
    ready = tmp_path / "ready"
    ready.write_text(told.render())
    own = probe_readiness(ready)
    os.chown(ready, ordinary_uid(), -1)

    refusal = probe_readiness(ready)

    assert own is not None
    assert "no ssh banner" in own
    assert refusal is not None
    assert f"belongs to uid {ready.stat().st_uid}" in refusal


@pytest.mark.parametrize("address", ["x" * 70, "..", "\0", "999.1.1.1", "\ud800"])
def test_an_address_that_is_none_is_a_refusal_and_no_crash(address: str, tmp_path: Path) -> None:
    """Whoever planted it."""
    ready = tmp_path / "ready"
    text = f"1 {os.getpid()} {address} 2222 mpi-agent w"
    ready.write_bytes(text.encode(errors="surrogatepass"))

    assert probe_readiness(ready) is not None
