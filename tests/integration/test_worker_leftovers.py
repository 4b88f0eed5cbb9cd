"""What a worker cannot end: told, tried again, and no reason to end the worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mpi_agent.job.events import Noted
from mpi_agent.job.worker_events import LauncherGone, RanksEnded
from mpi_agent.ssh.worker_protocol import render_call
from mpi_agent.ssh.worker_words import (
    Call,
    Cleaned,
    Farewell,
    OutOfMemory,
    Over,
    Refused,
    Swept,
    Verb,
    Watching,
)
from tests.served_control import OTHER, PI, Served, run, serve_and, serving, until

pytestmark = pytest.mark.integration

LEASE_S = 0.3
TROUBLE = OSError(24, "Too many open files")


def notes_of(served: Served) -> list[str]:
    """Return what was noted."""
    return [note.text for note in served.events(Noted)]


def test_ranks_that_cannot_even_be_looked_for_end_neither_the_worker_nor_the_trying(
    tmp_path: Path,
) -> None:
    """The run stays open, the launcher has its farewell, and once it works the run is over."""

    async def watch(served: Served) -> None:
        served.ending.trouble = TROUBLE
        caller = await served.watch()
        caller.send(Over(exit_code=3))

        assert await caller.hear_all() == [Farewell()]
        assert served.mark.exists()
        assert notes_of(served) == [
            "cannot end the processes of run_id=a: OSError: [Errno 24] Too many open files;"
            " it is tried again"
        ]
        assert await served.ask_clean(PI) == [
            Refused(why="what is left here cannot be ended; the worker's log says why")
        ]
        assert len(notes_of(served)) == 1
        served.ending.trouble = None
        await until("the run is over", lambda: not served.mark.exists())
        assert served.ending.run_ids == ["a", "a", "a"]
        assert served.events(RanksEnded) == [RanksEnded(why="the job is over", count=2, killed=0)]

    serve_and(watch, tmp_path / "state")


def test_a_lease_that_ends_in_trouble_ends_no_worker(tmp_path: Path) -> None:
    """Nobody asked for it, so nobody but the log is told."""

    async def watch(served: Served) -> None:
        served.ending.trouble = ValueError("what is this")
        await (await served.watch()).hang_up()
        await until("it is tried twice", lambda: served.ending.run_ids == ["a", "a"])

        assert not served.task.done()
        assert served.mark.exists()
        served.ending.trouble = None
        assert await served.ask_clean(OTHER) == [Cleaned(ended=2, killed=0)]
        assert not served.mark.exists()

    serve_and(watch, tmp_path / "state", lease_s=LEASE_S)


def test_what_does_not_go_is_told_and_keeps_its_run_open_until_it_goes(tmp_path: Path) -> None:
    """The next launcher has its answer at once, and in numbers."""

    async def watch(served: Served) -> None:
        served.ending.left = 1
        await (await served.watch()).hang_up()
        await until("it is noticed", lambda: bool(served.events(LauncherGone)))

        assert await served.ask_clean(PI) == [Cleaned(ended=1, killed=0, left=1)]
        assert served.mark.exists()
        assert notes_of(served) == [
            "cannot end 1 process of run_id=a: still there after KILL, held by the kernel or of"
            " another account; it is tried again"
        ]
        served.ending.left = 0
        await until("it is gone", lambda: not served.mark.exists())
        assert len(served.events(LauncherGone)) == 2
        assert len(notes_of(served)) == 1

    serve_and(watch, tmp_path / "state")


def test_a_job_is_over_although_something_of_it_does_not_go(tmp_path: Path) -> None:
    """Else a worker that ends with its launcher would never end."""

    async def watch(served: Served) -> None:
        served.ending.left = 1
        caller = await served.watch()
        over = asyncio.create_task(served.control.job_over())
        caller.send(Over(exit_code=3))

        assert await caller.hear_all() == [
            Swept(ended=1, killed=0, left=1, segments=0),
            Farewell(),
        ]
        assert await over == 3
        assert served.mark.exists()

    serve_and(watch, tmp_path / "state")


def test_a_job_is_over_although_its_last_words_cannot_be_said(tmp_path: Path) -> None:
    """The kernel's account may be unreadable at that moment."""

    def stumble() -> tuple[OutOfMemory, ...]:
        raise TROUBLE

    async def watch() -> None:
        async with serving(tmp_path / "state", last_words=stumble) as served:
            caller = await served.watch()
            caller.send(Over(exit_code=3))

            assert await served.control.job_over() == 3
            assert not served.mark.exists()

    run(watch())


def test_a_launcher_that_comes_back_keeps_what_could_not_be_ended(tmp_path: Path) -> None:
    """It is watched again and not tried again; once it is over it is ended like any other."""

    async def watch(served: Served) -> None:
        served.ending.left = 1
        for run_id in ("a", "b"):
            await (await served.watch(run_id)).hang_up()
        await until("it is noticed", lambda: len(served.events(LauncherGone)) == 2)
        assert await served.ask_clean(PI) == [Cleaned(ended=3, killed=0, left=1)]
        again = await served.watch("a")
        await until("the other is tried again", lambda: len(served.ending.asked) == 2)

        assert [run_ids for run_ids, _ in served.ending.asked] == [("a", "b"), ("b",)]
        served.ending.left = 0
        again.send(Over(exit_code=0))
        assert await again.hear_all() == [
            Swept(ended=2, killed=0, left=0, segments=0),
            Farewell(),
        ]
        assert served.ending.asked[-1] == (("a",), "the job is over")
        await until("nothing is left", lambda: not served.mark.exists())

    serve_and(watch, tmp_path / "state")


def test_a_run_that_nobody_holds_is_told_to_end_now_when_it_does(tmp_path: Path) -> None:
    """A status page would count on with the time that it was told before; and it is told once."""

    async def watch(served: Served) -> None:
        await (await served.watch()).hang_up()
        await until("it is noticed", lambda: bool(served.events(LauncherGone)))
        served.ending.may_end.clear()
        answers = [asyncio.create_task(served.ask_clean(PI)) for _ in range(2)]
        await until("it is being ended", lambda: served.ending.run_ids == ["a"])
        served.ending.may_end.set()
        await asyncio.gather(*answers)

        lost, gone = served.events(LauncherGone)
        assert 0 < lost.ends_in_s <= 60
        assert gone == LauncherGone(run_id="a", launcher="pi-launcher", ends_in_s=0.0)

    serve_and(watch, tmp_path / "state")


def test_a_mark_that_cannot_be_written_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    """As on a state directory that is full, or gone."""

    async def watch(served: Served) -> None:
        callers = [await served.connect() for _ in range(2)]
        (tmp_path / "state").rename(tmp_path / "hidden")
        for run_id, caller in zip("ab", callers, strict=True):
            call = Call(verb=Verb.WATCH, launcher=PI, run_id=run_id)
            caller.writer.write(render_call(call))
            assert isinstance(await caller.hear(), Watching)

        mark, launchers = notes_of(served)
        assert mark.endswith("; the next launcher cannot clean up")
        assert launchers.endswith("; the next launcher cannot count its attempt")
        (tmp_path / "hidden").rename(tmp_path / "state")

    serve_and(watch, tmp_path / "state")
