"""What the kernel's account of memory says, in both versions of cgroups, and when it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mpi_agent.cgroup import MemoryAccount, memory_account
from mpi_agent.job.events import Noted
from mpi_agent.job.worker_events import MemoryExceeded
from mpi_agent.worker.memory import MemoryWatch, watch_memory
from tests.fakes import EventRecorder

GIB = 1 << 30


def write_second(root: Path, *, kills: int, peak: str | None = "33000000000\n") -> None:
    """Make a container's files as the second version of cgroups shows them."""
    (root / "memory.max").write_text(f"{32 * GIB}\n")
    (root / "memory.current").write_text("1000\n")
    (root / "memory.events").write_text(
        f"low 0\nhigh 3\nmax 7\noom 9\noom_kill {kills}\noom_group_kill 0\n"
    )
    if peak is not None:
        (root / "memory.peak").write_text(peak)


def write_first(root: Path, *, kills: int, limit: str) -> None:
    """Make a container's files as the first version of cgroups shows them."""
    below = root / "memory"
    below.mkdir(exist_ok=True)
    (below / "memory.limit_in_bytes").write_text(limit)
    (below / "memory.usage_in_bytes").write_text("1000\n")
    (below / "memory.max_usage_in_bytes").write_text("2000\n")
    (below / "memory.oom_control").write_text(
        f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
    )


def test_the_second_version_of_cgroups_is_read(tmp_path: Path) -> None:
    """Processes killed are counted by `oom_kill` and not by `oom`."""
    write_second(tmp_path, kills=2)

    assert memory_account(tmp_path) == MemoryAccount(
        limit_bytes=32 * GIB, used_bytes=1000, most_used_bytes=33000000000, kills=2
    )


def test_the_first_version_of_cgroups_is_read(tmp_path: Path) -> None:
    """It lies one folder deeper."""
    write_first(tmp_path, kills=1, limit=f"{GIB}\n")

    assert memory_account(tmp_path) == MemoryAccount(
        limit_bytes=GIB, used_bytes=1000, most_used_bytes=2000, kills=1
    )


@pytest.mark.parametrize("limit", ["9223372036854771712\n", "max\n", ""])
def test_no_limit_is_none(tmp_path: Path, limit: str) -> None:
    """Whatever the number that stands for it."""
    write_first(tmp_path, kills=0, limit=limit)

    assert memory_account(tmp_path).limit_bytes is None


def test_where_nothing_tells_all_is_unknown(tmp_path: Path) -> None:
    """As on a machine without such files, or before Linux 4.13."""
    assert memory_account(tmp_path) == MemoryAccount()
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert memory_account(tmp_path).kills is None


def test_kills_are_told_once_and_only_those_since_the_watch_began(tmp_path: Path) -> None:
    """Those before were of another job."""
    write_second(tmp_path, kills=5)
    watch = MemoryWatch(tmp_path)
    before = watch.look()
    write_second(tmp_path, kills=7)

    assert before is None
    assert watch.look() == MemoryExceeded(
        kills=2, used_bytes=33000000000, limit_bytes=32 * GIB, total_kills=7
    )
    assert watch.look() is None


def test_without_a_peak_the_most_that_was_seen_is_told(tmp_path: Path) -> None:
    """What is in use after a kill is less than what was before it."""
    write_second(tmp_path, kills=0, peak=None)
    (tmp_path / "memory.current").write_text("900000\n")
    watch = MemoryWatch(tmp_path)
    write_second(tmp_path, kills=1, peak=None)

    exceeded = watch.look()

    assert exceeded is not None
    assert exceeded.used_bytes == 900000


def test_a_counter_that_appears_later_is_no_news(tmp_path: Path) -> None:
    """Nobody knows what it was before."""
    watch = MemoryWatch(tmp_path)
    write_second(tmp_path, kills=3)

    assert watch.look() is None
    assert watch.look() is None


def test_a_watch_tells_each_growth_until_it_is_cancelled(tmp_path: Path) -> None:
    """And is silent between them."""
    told: list[int] = []
    enough = asyncio.Event()

    def tell(exceeded: MemoryExceeded) -> None:
        told.append(exceeded.kills)
        write_second(tmp_path, kills=4)
        if len(told) == 2:
            enough.set()

    async def watched() -> None:
        write_second(tmp_path, kills=0)
        watch = MemoryWatch(tmp_path)
        write_second(tmp_path, kills=1)
        task = asyncio.create_task(
            watch_memory(watch, tell=tell, pace_s=0.001, emit=lambda _: None)
        )
        await asyncio.wait_for(enough.wait(), timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(watched())

    assert told == [1, 3]


def test_trouble_with_one_look_is_told_once_and_the_next_one_is_made(tmp_path: Path) -> None:
    """Whatever it is; a kill that follows must still have its reason."""
    events = EventRecorder()
    seen: list[int] = []
    enough = asyncio.Event()

    def tell(exceeded: MemoryExceeded) -> None:
        seen.append(exceeded.kills)
        write_second(tmp_path, kills=len(seen) + 1)
        if len(seen) == 4:
            enough.set()
        raise RuntimeError("nobody listens" if len(seen) < 4 else "nor here")

    async def watched() -> None:
        write_second(tmp_path, kills=0)
        watch = MemoryWatch(tmp_path)
        write_second(tmp_path, kills=1)
        task = asyncio.create_task(watch_memory(watch, tell=tell, pace_s=0.001, emit=events))
        await asyncio.wait_for(enough.wait(), timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(watched())

    assert seen == [1, 1, 1, 1]
    assert [event.text for event in events.events if isinstance(event, Noted)] == [
        f"cannot watch the container's memory: RuntimeError: {why}; it is tried again"
        for why in ("nobody listens", "nor here")
    ]
