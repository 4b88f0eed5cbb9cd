"""Which hosts were dialled, and when the rest is given up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from pathlib import Path

import pytest

from mpi_agent.errors import StateDirectoryError
from mpi_agent.run.dialled import DialledHosts
from tests.fakes import VirtualTimeLoop, run_in_virtual_time

_NAMES = ("w-0", "w-1", "w-2")


def dialled_hosts(
    tmp_path: Path, *dialled: str, enough: int | None = None, no_news_s: float = 30.0
) -> DialledHosts:
    """Return the marks of a job of three hosts, some of which were dialled."""
    hosts = DialledHosts(tmp_path / "marks", _NAMES, enough=enough, no_news_s=no_news_s)
    for name in dialled:
        (tmp_path / "marks" / name).touch()
    return hosts


def test_hosts_without_a_mark_are_missing_in_the_order_of_the_job(tmp_path: Path) -> None:
    """The order of ranks, not that of the marks."""
    assert dialled_hosts(tmp_path).missing == _NAMES
    assert dialled_hosts(tmp_path, "w-1").missing == ("w-0", "w-2")
    assert dialled_hosts(tmp_path, *_NAMES).missing == ()


def test_a_mark_of_somebody_else_counts_for_nothing(tmp_path: Path) -> None:
    """A user's own ssh by our configuration may go anywhere."""
    assert dialled_hosts(tmp_path, "github.com").missing == _NAMES


def test_marks_of_an_earlier_launch_do_not_count(tmp_path: Path) -> None:
    """A second launch in the same container starts anew."""
    dialled_hosts(tmp_path, *_NAMES)

    assert dialled_hosts(tmp_path).missing == _NAMES


def test_marks_once_seen_count_though_another_launch_removes_them(tmp_path: Path) -> None:
    """Two launches of one container share the directory; the first one's hosts were dialled."""
    first = dialled_hosts(tmp_path, *_NAMES)
    assert first.missing == ()

    second = dialled_hosts(tmp_path)

    assert first.missing == ()
    assert second.missing == _NAMES


def test_marks_that_cannot_be_removed_end_the_launch(tmp_path: Path) -> None:
    """They would look like hosts that this launch dialled; a link leads to somebody else's."""
    (tmp_path / "elsewhere").mkdir()
    for name in _NAMES:
        (tmp_path / "elsewhere" / name).touch()
    (tmp_path / "marks").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StateDirectoryError, match="cannot note which hosts are dialled"):
        dialled_hosts(tmp_path)


def test_a_name_in_its_absolute_form_is_the_same_host(tmp_path: Path) -> None:
    """`-H w-0.` leaves the mark `w-0.`."""
    assert dialled_hosts(tmp_path, "w-0.", "w-2").missing == ("w-1",)


def test_nobody_is_missing_once_enough_were_dialled(tmp_path: Path) -> None:
    """Under tree spawn hosts dial the rest, and leave no mark here."""
    assert dialled_hosts(tmp_path, enough=1).missing == _NAMES
    assert dialled_hosts(tmp_path, "w-2", enough=1).missing == ()


def test_nobody_is_missing_where_nobody_is_expected(tmp_path: Path) -> None:
    """A job on this host alone dials nobody."""
    assert DialledHosts(tmp_path / "marks", ()).missing == ()


def test_marks_that_are_gone_are_no_error(tmp_path: Path) -> None:
    """Somebody may have removed the directory."""
    hosts = dialled_hosts(tmp_path, *_NAMES)

    hosts.forget()
    hosts.forget()

    assert not (tmp_path / "marks").exists()
    assert hosts.missing == _NAMES


def test_the_rest_is_given_up_after_no_news(tmp_path: Path) -> None:
    """Mpirun that has found no hostfile would run the whole job here."""
    hosts = dialled_hosts(tmp_path, "w-0", no_news_s=30.0)

    async def watch(loop: VirtualTimeLoop) -> tuple[str, float]:
        return await hosts.given_up(), loop.time()

    why, after_s = run_in_virtual_time(watch)

    assert why == "mpirun dialled 1 of 3 hosts and never w-[1-2]"
    assert 30.0 < after_s < 31.0


def test_a_slow_start_goes_on_while_there_is_news(tmp_path: Path) -> None:
    """Each new mark starts the time anew."""
    hosts = dialled_hosts(tmp_path, no_news_s=30.0)

    async def dial_slowly() -> None:
        for name in ("w-0", "w-1"):
            await asyncio.sleep(25.0)
            (tmp_path / "marks" / name).touch()

    async def watch(loop: VirtualTimeLoop) -> float:
        dialling = asyncio.create_task(dial_slowly())
        await hosts.given_up()
        await dialling
        return loop.time()

    assert 80.0 < run_in_virtual_time(watch) < 81.0


def test_nothing_is_ever_given_up_once_every_host_was_dialled(tmp_path: Path) -> None:
    """The alarm is then silent for the rest of the job."""
    hosts = dialled_hosts(tmp_path, "w-0", "w-1", no_news_s=30.0)

    async def watch(_: VirtualTimeLoop) -> bool:
        alarm = asyncio.create_task(hosts.given_up())
        await asyncio.sleep(5.0)
        (tmp_path / "marks" / "w-2").touch()
        done, _pending = await asyncio.wait({alarm}, timeout=86_400.0)
        alarm.cancel()
        return bool(done)

    assert run_in_virtual_time(watch) is False


def test_marks_that_cannot_be_read_now_are_read_later(tmp_path: Path) -> None:
    """There may be no file descriptor left: that is no reason to end a program that runs."""
    hosts = dialled_hosts(tmp_path, "w-0")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        with pytest.raises(OSError, match="Too many open files"):
            os.listdir(tmp_path)

        missing_without_files = hosts.missing

    assert missing_without_files == _NAMES
    assert hosts.missing == ("w-1", "w-2")
