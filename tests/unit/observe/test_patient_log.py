"""A log whose reader is slow: nobody waits for it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from mpi_agent.job.events import Event, Noted
from mpi_agent.job.worker_events import SshServerSpoke
from mpi_agent.observe.log import Log
from mpi_agent.observe.patient_log import PatientLog
from tests.waiting import wait_until

SOON_S = 10.0
"""Ten times and more what it takes alone; whoever waited would wait for ever."""


def numbered(count: int) -> Iterator[SshServerSpoke]:
    """Give events in an order that can be seen."""
    return (SshServerSpoke(line=str(number)) for number in range(count))


def test_events_are_written_in_their_order() -> None:
    """All of them, before `with` ends."""
    seen: list[Event] = []

    with PatientLog(seen.append) as log:
        for event in numbered(1000):
            log(event)

    assert seen == list(numbered(1000))


def test_nobody_waits_for_a_log_that_hangs() -> None:
    """And what was left out is said, once somebody reads again."""
    read_again = threading.Event()
    seen: list[Event] = []

    def hang(event: Event) -> None:
        read_again.wait()
        seen.append(event)

    with PatientLog(hang, most=10) as log:
        started_s = time.monotonic()
        for event in numbered(10_000):
            log(event)
        took_s = time.monotonic() - started_s
        read_again.set()

    assert took_s < SOON_S
    assert seen[:10] == list(numbered(10))
    assert isinstance(seen[-1], Noted)
    left_out = 10_000 - (len(seen) - 1)
    assert f"left {left_out} events out" in seen[-1].text


def test_an_end_does_not_wait_for_ever() -> None:
    """A worker that is told to end does."""
    never = threading.Event()

    def hang(_: Event) -> None:
        never.wait(10 * SOON_S)

    with PatientLog(hang, end_limit_s=0.05) as log:
        log(SshServerSpoke(line="x"))
        started_s = time.monotonic()

    took_s = time.monotonic() - started_s
    never.set()
    assert took_s < SOON_S


def test_a_pipe_that_nobody_reads_holds_up_the_log_alone(tmp_path: Path) -> None:
    """A real one, which takes 64 KB and then no more."""
    lines = 5000
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, PatientLog(Log(stream)) as log:
        started_s = time.monotonic()
        for event in numbered(lines):
            log(event)
        took_s = time.monotonic() - started_s
        drained = threading.Thread(target=_drain, args=(reading, tmp_path / "read"))
        drained.start()
        wait_until("the last line came", lambda: str(lines - 1) in _text(tmp_path / "read"))
    drained.join()

    assert took_s < SOON_S
    assert len(_text(tmp_path / "read").splitlines()) == lines


def _drain(descriptor: int, target: Path) -> None:
    with target.open("ab") as stream, contextlib.closing(os.fdopen(descriptor, "rb", 0)) as pipe:
        while piece := pipe.read(65536):
            stream.write(piece)
            stream.flush()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
