"""The worker's agent at a real socket: launchers that come, go, and come back."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.cgroup import CpuAccount
from mpi_agent.container import container_identity
from mpi_agent.job.events import Noted
from mpi_agent.job.worker_events import LauncherGone, RanksEnded, RunBegan, RunOver
from mpi_agent.job_processes import JobProcess
from mpi_agent.run_id import RunId
from mpi_agent.ssh.worker_words import (
    Alive,
    Call,
    Cleaned,
    Draining,
    Farewell,
    GraceOver,
    LauncherId,
    Measure,
    OutOfMemory,
    Over,
    PassSignal,
    Refused,
    Restarting,
    Signalled,
    Sweep,
    Swept,
    Throttled,
    Usage,
    Verb,
    Watching,
)
from mpi_agent.state import open_state_directory
from mpi_agent.worker.launchers_seen import LaunchersSeen
from mpi_agent.worker.ranks import RanksTold
from tests.fakes import EventRecorder
from tests.served_control import (
    LIMIT_S,
    OTHER,
    PI,
    PI_RESTARTED,
    Served,
    run,
    serve_and,
    serving,
    until,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.integration

SHORT_LEASE_S = 0.3
LEASE_S = 3.0
DRAINING = Draining(signal_name="SIGTERM", grace_s=30.0, ranks=1)
SWEPT = Swept(ended=2, killed=0, left=0, segments=0)
KILLS = OutOfMemory(kills=1, used_bytes=90, limit_bytes=100)


def test_a_person_is_answered_with_the_status_in_one_line(tmp_path: Path) -> None:
    """And the conversation is over."""

    async def ask(served: Served) -> None:
        caller = await served.call(Call(verb=Verb.STATUS))

        assert await caller.hear_raw() == b'{ "ready": true}\n'
        assert await caller.hear_raw() == b""

    serve_and(ask, tmp_path / "state")


def test_a_watch_is_answered_with_the_workers_name_and_the_lease(tmp_path: Path) -> None:
    """The launcher knows then how often to say that it is alive."""

    async def watch(served: Served) -> None:
        caller = await served.call(Call(verb=Verb.WATCH, launcher=PI, run_id="a"))

        watching = await caller.hear()
        assert watching == Watching(
            worker="pi-worker-0", lease_s=60.0, container=container_identity()
        )
        assert served.mark.exists()
        assert served.events(RunBegan) == [RunBegan(run_id="a", launcher="pi-launcher")]
        caller.send(Alive())
        assert await caller.hear() == Alive()

    serve_and(watch, tmp_path / "state")


def test_over_ends_what_is_left_then_says_the_last_words_and_farewell(tmp_path: Path) -> None:
    """In this order, and the job's code is known then."""

    async def watch() -> None:
        async with serving(tmp_path / "state", killed=1, last_words=lambda: (KILLS,)) as served:
            caller = await served.watch()
            over = asyncio.create_task(served.control.job_over())
            served.ending.may_end.clear()
            caller.send(Over(exit_code=3))
            await until("the run is being ended", lambda: served.ending.run_ids == ["a"])
            assert served.mark.exists()
            assert not over.done()
            served.ending.may_end.set()

            assert await caller.hear_all() == [
                KILLS,
                Swept(ended=2, killed=1, left=0, segments=0),
                Farewell(),
            ]
            assert await over == 3
            assert not served.mark.exists()
            assert served.events(RunOver) == [RunOver(run_id="a", exit_code=3)]
            assert served.events(RanksEnded) == [
                RanksEnded(why="the job is over", count=2, killed=1)
            ]
            assert served.events(LauncherGone) == []

    run(watch())


def test_the_end_goes_on_when_the_launcher_does_not_wait_for_the_farewell(tmp_path: Path) -> None:
    """It has its own reasons to hurry."""

    async def watch(served: Served) -> None:
        caller = await served.watch()
        served.ending.may_end.clear()
        caller.send(Over(exit_code=0))
        await until("the run is being ended", lambda: served.ending.run_ids == ["a"])
        await caller.hang_up()
        served.ending.may_end.set()

        assert await served.control.job_over() == 0
        assert not served.mark.exists()

    serve_and(watch, tmp_path / "state")


@pytest.mark.parametrize("hangs_up", [True, False])
def test_ranks_of_a_launcher_that_is_not_heard_are_ended(tmp_path: Path, hangs_up: bool) -> None:
    """Whether its connection is lost or silent; one lease after its last word, not before."""

    async def watch(served: Served) -> None:
        began_s = time.monotonic()
        caller = await served.watch()
        if hangs_up:
            await caller.hang_up()
        await until("the run is over", lambda: not served.mark.exists())

        assert time.monotonic() - began_s >= SHORT_LEASE_S
        assert served.ending.run_ids == ["a"]
        (gone,) = served.events(LauncherGone)
        assert gone.ends_in_s == 0 if not hangs_up else 0 < gone.ends_in_s <= SHORT_LEASE_S
        (ended,) = served.events(RanksEnded)
        assert ended.why == 'launcher "pi-launcher" was not heard for 0.3 s'
        if not hangs_up:
            assert await caller.hear() is None

    serve_and(watch, tmp_path / "state", lease_s=SHORT_LEASE_S)


def test_a_launcher_that_says_it_is_alive_keeps_its_ranks(tmp_path: Path) -> None:
    """For longer than one that came after it and says nothing."""

    async def watch(served: Served) -> None:
        caller = await served.watch("a", PI)
        await served.watch("b", OTHER)
        async with asyncio.timeout(LIMIT_S):
            while not served.ending.asked:
                caller.send(Alive())
                assert await caller.hear() == Alive()
                await asyncio.sleep(LEASE_S / 30)

        assert served.ending.run_ids == ["b"]

    serve_and(watch, tmp_path / "state", lease_s=LEASE_S)


def test_a_launcher_that_comes_back_in_time_keeps_its_ranks(tmp_path: Path) -> None:
    """Again and again, the run stays the same one; one that does not come back is ended."""

    async def watch(served: Served) -> None:
        await served.watch("a", PI)
        await (await served.watch("b", OTHER)).hang_up()
        async with asyncio.timeout(LIMIT_S):
            while not served.ending.asked:
                caller = await served.watch("a", PI)
                await caller.hang_up()
                await asyncio.sleep(LEASE_S / 30)

        assert served.ending.run_ids == ["b"]
        assert [event.run_id for event in served.events(RunBegan)] == ["a", "b"]

    serve_and(watch, tmp_path / "state", lease_s=LEASE_S)


def test_a_launcher_that_comes_back_closes_its_older_conversation(tmp_path: Path) -> None:
    """Which it may hold for open; the newer one holds the run alone."""

    async def watch(served: Served) -> None:
        older = await served.watch()
        newer = await served.watch()

        assert await older.hear() is None
        served.control.tell(KILLS)
        assert await newer.hear() == KILLS
        assert served.events(LauncherGone) == []

    serve_and(watch, tmp_path / "state")


def test_without_a_lease_ranks_live_on_and_it_is_said(tmp_path: Path) -> None:
    """Until the next launcher cleans up."""

    async def watch(served: Served) -> None:
        caller = await served.watch()
        await caller.hang_up()
        await until("it is told", lambda: bool(served.events(Noted)))

        assert served.events(Noted)[0].text == (
            'launcher "pi-launcher" is gone; its ranks may go on for ever'
        )
        assert served.mark.exists()
        assert await served.ask_clean(PI) == [Cleaned(ended=2, killed=0)]

    serve_and(watch, tmp_path / "state", lease_s=None)


def test_time_in_which_the_worker_was_frozen_does_not_count(tmp_path: Path) -> None:
    """The word of the launcher may be on its way still."""

    async def watch() -> None:
        async with serving(tmp_path / "state", lease_s=LEASE_S, status=freeze) as served:
            caller = await served.watch()
            asked = await served.call(Call(verb=Verb.STATUS))
            assert await asked.hear_all() == [Alive()]
            caller.send(Alive())

            assert await caller.hear() == Alive()
            assert served.ending.asked == []

    def freeze() -> str:
        ends_s = time.monotonic() + 1.5 * LEASE_S
        wait_until("more than a lease has passed", lambda: time.monotonic() > ends_s)
        return '{"kind":"alive"}'

    run(watch())


def test_two_launchers_at_a_time_leave_each_other_alone(tmp_path: Path) -> None:
    """In two containers, and in one."""

    async def watch(served: Served) -> None:
        first = await served.watch("a", PI)
        second = await served.watch("b", PI)
        third = await served.watch("c", OTHER)

        for asker in (PI, OTHER):
            assert await served.ask_clean(asker) == [Cleaned(ended=0, killed=0)]
        second.send(Over(exit_code=0))
        assert await second.hear_all() == [SWEPT, Farewell()]
        assert served.ending.run_ids == ["b"]
        for caller in (first, third):
            caller.send(Alive())
            assert await caller.hear() == Alive()
        assert served.mark.exists()

    serve_and(watch, tmp_path / "state")


def test_the_job_is_over_once_no_launcher_is_left(tmp_path: Path) -> None:
    """With `--exit-with-launcher` one launch must not take the worker from another."""

    async def watch(served: Served) -> None:
        first, second = await served.watch("a"), await served.watch("b")
        over = asyncio.create_task(served.control.job_over())
        first.send(Over(exit_code=0))
        await first.hear_all()
        assert not over.done()
        second.send(Over(exit_code=7))

        assert await over == 7

    serve_and(watch, tmp_path / "state")


def test_a_launcher_that_was_restarted_has_its_former_life_cleaned_up(tmp_path: Path) -> None:
    """Another container of the same name, although the connection looks open."""

    async def watch(served: Served) -> None:
        former = await served.watch("a", PI)
        other = await served.watch("b", OTHER)

        assert await served.ask_clean(PI_RESTARTED) == [Cleaned(ended=2, killed=1)]
        assert await former.hear() is None
        assert served.ending.run_ids == ["a"]
        assert served.events(LauncherGone) == [
            LauncherGone(run_id="a", launcher="pi-launcher", ends_in_s=0.0)
        ]
        other.send(Alive())
        assert await other.hear() == Alive()

    serve_and(watch, tmp_path / "state", killed=1)


@pytest.mark.parametrize("asker", [PI, OTHER, None])
def test_a_run_whose_launcher_hung_up_is_cleaned_up_for_everybody(
    tmp_path: Path, asker: LauncherId | None
) -> None:
    """The answer comes when nothing is left."""

    async def watch(served: Served) -> None:
        await (await served.watch()).hang_up()
        await until("it is noticed", lambda: bool(served.events(LauncherGone)))

        assert await served.ask_clean(asker) == [Cleaned(ended=2, killed=0)]
        assert not served.mark.exists()
        assert await served.ask_clean(asker) == [Cleaned(ended=0, killed=0)]

    serve_and(watch, tmp_path / "state")


def test_clean_waits_for_what_is_being_ended_already(tmp_path: Path) -> None:
    """Else the next attempt would start beside ranks that still hold their memory."""

    async def watch(served: Served) -> None:
        former = await served.watch()
        served.ending.may_end.clear()
        former.send(Over(exit_code=0))
        await until("the run is being ended", lambda: served.ending.run_ids == ["a"])
        answers = [asyncio.create_task(served.ask_clean(asker)) for asker in (PI, OTHER)]
        await served.watch("b", OTHER)
        assert not any(answer.done() for answer in answers)
        served.ending.may_end.set()

        for answer in answers:
            assert await answer == [Cleaned(ended=2, killed=0)]
        assert served.ending.run_ids == ["a"]

    serve_and(watch, tmp_path / "state")


def test_every_watcher_is_told_at_once_and_late_ones_when_they_come(tmp_path: Path) -> None:
    """That we drain, and how many ranks of its own run know; whoever starts one must know too."""

    async def watch(served: Served) -> None:
        first = await served.watch("a", PI)
        second = await served.watch("b", OTHER)
        told = RanksTold(("a", "a", "b", None))
        served.control.tell_draining(replace(DRAINING, ranks=4), told)
        late = await served.watch("c", OTHER)

        for caller, ranks in ((first, 2), (second, 1), (late, 0)):
            assert await caller.hear() == replace(DRAINING, ranks=ranks)

    serve_and(watch, tmp_path / "state")


def test_the_farewell_is_the_last_line_and_nobody_may_watch_behind_it(tmp_path: Path) -> None:
    """A launcher need not guess why the connection ended."""

    async def watch(served: Served) -> None:
        callers = [await served.watch(run_id) for run_id in "abc"]
        served.control.tell(KILLS)
        await served.control.say_farewell(limit_s=5.0)

        for caller in callers:
            assert await caller.hear_all() == [KILLS, Farewell()]
        late = await served.call(Call(verb=Verb.WATCH, launcher=PI, run_id="d"))
        assert await late.hear_all() == [Refused(why="this worker is ending")]
        assert served.events(LauncherGone) == []

    serve_and(watch, tmp_path / "state")


def test_a_watcher_that_does_not_read_is_let_go(tmp_path: Path) -> None:
    """Neither memory nor the farewell waits for it."""

    async def watch(served: Served) -> None:
        deaf = await served.watch()
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
        while not served.events(LauncherGone):
            for _ in range(1000):
                served.control.tell(KILLS)
            await asyncio.sleep(0)
        await served.control.say_farewell(limit_s=0.1)
        await deaf.hang_up()

    serve_and(watch, tmp_path / "state")


def test_ranks_of_the_launchers_own_run_get_a_signal_that_it_asks_for(tmp_path: Path) -> None:
    """One that does not exist is passed to nobody."""

    async def watch(served: Served) -> None:
        caller = await served.watch("a")
        await served.watch("b")

        for name, ranks in (("SIGUSR1", 2), ("SIGNOTHING", 0), ("__class__", 0)):
            caller.send(PassSignal(signal_name=name))
            assert await caller.hear() == Signalled(ranks=ranks)
        assert served.ranks.signalled == [("a", signal.SIGUSR1)]

    serve_and(watch, tmp_path / "state")


def test_a_launcher_that_measures_hears_what_its_ranks_used(tmp_path: Path) -> None:
    """Those of its own run."""

    async def watch(served: Served) -> None:
        caller = await served.watch("a")

        caller.send(Measure())

        assert await caller.hear() == Usage(rank_numbers=(0, 1), cpu_s=(1.5, 2.25))

    serve_and(watch, tmp_path / "state")


def test_a_run_that_is_begun_again_is_swept_and_the_job_goes_on(tmp_path: Path) -> None:
    """The worker stays for the next attempt, although it ends with its launcher."""

    async def watch(served: Served) -> None:
        over = asyncio.create_task(served.control.job_over())
        caller = await served.watch("a")
        caller.send(Restarting(exit_code=201, summary="pi-worker-3 lost"))

        assert await caller.hear_all() == [SWEPT, Farewell()]
        assert not served.mark.exists()
        assert not over.done()
        assert served.events(RunOver) == [
            RunOver(run_id="a", exit_code=201, summary="pi-worker-3 lost", is_begun_again=True)
        ]
        again = await served.watch("b")
        again.send(Over(exit_code=0, summary="succeeded"))
        assert await over == 0
        assert served.events(RunOver)[1] == RunOver(run_id="b", exit_code=0, summary="succeeded")

    serve_and(watch, tmp_path / "state")


def test_a_launcher_has_its_run_swept_and_says_later_how_the_job_ended(tmp_path: Path) -> None:
    """What explains an ending comes before it is weighed; the farewell comes behind the word."""

    async def watch() -> None:
        async with serving(tmp_path / "state", last_words=lambda: (KILLS,)) as served:
            over = asyncio.create_task(served.control.job_over())
            caller = await served.watch("a")
            caller.send(Sweep())

            assert [await caller.hear(), await caller.hear()] == [KILLS, SWEPT]
            assert not served.mark.exists()
            assert served.events(RunOver) == []
            caller.send(Alive())
            assert await caller.hear() == Alive()
            assert not over.done()
            caller.send(Over(exit_code=3, summary="rank 0 failed"))
            nothing = Swept(ended=0, killed=0, left=0, segments=0)
            assert await caller.hear_all() == [KILLS, nothing, Farewell()]
            assert await over == 3
            assert served.ending.run_ids == ["a"]
            assert [event.run_id for event in served.events(RunOver)] == ["a"]

    run(watch())


def test_a_sweep_is_answered_also_where_nothing_could_be_looked_for(tmp_path: Path) -> None:
    """The launcher waits for it; the run stays open and is tried again."""

    async def watch(served: Served) -> None:
        served.ending.trouble = OSError(24, "Too many open files")
        caller = await served.watch("a")
        caller.send(Sweep())

        assert await caller.hear() == Swept(ended=0, killed=0, left=0, segments=0)
        assert served.mark.exists()
        served.ending.trouble = None
        caller.send(Over(exit_code=0))
        assert await caller.hear_all() == [SWEPT, Farewell()]
        assert not served.mark.exists()

    serve_and(watch, tmp_path / "state")


def test_a_run_that_is_over_already_takes_the_last_word_on_a_new_channel(tmp_path: Path) -> None:
    """No next attempt came about, and the worker is to end with its launcher's code."""

    async def watch(served: Served) -> None:
        over = asyncio.create_task(served.control.job_over())
        caller = await served.watch("a")
        caller.send(Restarting(exit_code=201))
        await caller.hear_all()
        again = await served.watch("a")
        again.send(Over(exit_code=201, summary="no next attempt"))

        assert await again.hear_all() == [SWEPT, Farewell()]
        assert await over == 201

    serve_and(watch, tmp_path / "state")


def test_what_is_left_after_the_last_word_has_less_time_than_the_launcher_waits(
    tmp_path: Path,
) -> None:
    """After a stop that is three seconds for TERM, KILL and the answer; mpirun is gone by then."""

    async def watch(served: Served) -> None:
        for run_id, word in (("a", Over(exit_code=0)), ("b", Restarting(exit_code=1))):
            caller = await served.watch(run_id)
            caller.send(word)
            await caller.hear_all()
        caller = await served.watch("c")
        caller.send(Sweep())
        await caller.hear()

        assert served.ending.run_ids == ["a", "b", "c"]
        assert max(served.ending.graces_s) <= 1.0

    serve_and(watch, tmp_path / "state")


def test_ranks_that_nobody_told_to_end_have_three_seconds(tmp_path: Path) -> None:
    """Of a launcher that is gone; they may have something to save."""

    async def watch(served: Served) -> None:
        await (await served.watch("a")).hang_up()
        await until("the lease ends them", lambda: served.ending.run_ids == ["a"])
        await (await served.watch("b")).hang_up()
        await served.ask_clean(OTHER)

        assert served.ending.graces_s == [3.0, 3.0]

    serve_and(watch, tmp_path / "state", lease_s=SHORT_LEASE_S)


def a_rank_of(run_id: str) -> JobProcess:
    """Return a process that is found."""
    return JobProcess(
        pid=1 << 22, started_at_s=1.0, run_id=run_id, rank=0, local_rank=0, leads_rank=True
    )


def test_clean_ends_former_runs_of_the_askers_job_that_no_launcher_spoke_of(
    tmp_path: Path,
) -> None:
    """Their launcher was gone before it could; runs of others and those under --exec stay."""
    former = RunId.of_launcher(name="pi-launcher-x7k2p", container="1", launch="0" * 8)
    own = RunId.of_launcher(name="pi-launcher-9fq4z", container="2", launch="1" * 8)
    other = RunId.of_launcher(name="tau-launcher", container="3", launch="2" * 8)

    async def watch(served: Served) -> None:
        ids = (str(former), str(own), str(other), "exec-0badcafe")
        served.ranks.processes = tuple(a_rank_of(run_id) for run_id in ids)

        assert await served.ask_clean(None) == [Cleaned(ended=0, killed=0)]
        assert await served.ask_clean(None, run_id=str(own)) == [Cleaned(ended=2, killed=0)]
        assert served.ending.run_ids == [str(former)]

    serve_and(watch, tmp_path / "state")


def test_clean_leaves_a_former_run_alone_whose_launcher_is_connected(tmp_path: Path) -> None:
    """Its pod has its own grace period; two launchers may also have names that look alike."""
    former = RunId.of_launcher(name="pi-launcher-x7k2p", container="1", launch="0" * 8)
    own = RunId.of_launcher(name="pi-launcher-9fq4z", container="2", launch="1" * 8)

    async def watch(served: Served) -> None:
        served.ranks.processes = (a_rank_of(str(former)),)
        await served.watch(str(former), LauncherId(name="pi-launcher-x7k2p", container="1"))

        assert await served.ask_clean(None, run_id=str(own)) == [Cleaned(ended=0, killed=0)]
        assert served.ending.run_ids == []
        assert served.mark.exists()

    serve_and(watch, tmp_path / "state")


def test_a_run_that_was_held_back_by_the_cpu_limit_is_told_so_at_its_end(tmp_path: Path) -> None:
    """What came to pass since its begin, once, and in time for the ending to be weighed."""

    async def watch(served: Served) -> None:
        served.cpu = CpuAccount(periods=1000, throttled=900)
        caller, other = await served.watch("a"), await served.watch("b")
        served.cpu = CpuAccount(periods=1200, throttled=1050)
        caller.send(Sweep())

        assert await caller.hear() == Throttled(periods=200, throttled=150)
        assert await caller.hear() == SWEPT
        caller.send(Over(exit_code=0))
        assert not [line for line in await caller.hear_all() if isinstance(line, Throttled)]
        other.send(Over(exit_code=0))
        assert (await other.hear_all())[0] == Throttled(periods=200, throttled=150)

    serve_and(watch, tmp_path / "state")


def test_what_may_not_have_been_heard_is_told_again_to_the_launcher_that_comes_back(
    tmp_path: Path,
) -> None:
    """Behind the answer to its watch, what was said while it was away among it."""

    async def watch(served: Served) -> None:
        caller = await served.watch("a")
        served.control.tell(KILLS)
        await caller.hang_up()
        await until("it is noticed", lambda: bool(served.events(LauncherGone)))
        served.control.tell(GraceOver(), run_ids=("a",))
        again = await served.watch("a")

        assert [await again.hear(), await again.hear()] == [KILLS, GraceOver()]
        for _ in range(2):
            again.send(Alive())
            assert await again.hear() == Alive()
        once_more = await served.watch("a")
        once_more.send(Alive())
        assert await once_more.hear() == Alive()

    serve_and(watch, tmp_path / "state")


def test_what_was_told_of_a_run_is_forgotten_with_it(tmp_path: Path) -> None:
    """A run of the same name is another one."""

    async def watch(served: Served) -> None:
        caller = await served.watch("a")
        served.control.tell(KILLS)
        caller.send(Over(exit_code=0))
        assert await caller.hear_all() == [KILLS, SWEPT, Farewell()]
        again = await served.watch("a")
        again.send(Alive())

        assert await again.hear() == Alive()

    serve_and(watch, tmp_path / "state")


def test_of_very_many_launchers_the_latest_stand_there(tmp_path: Path) -> None:
    """Of jobs that are long over; the own former lives are among the last."""
    seen = LaunchersSeen(open_state_directory(str(tmp_path / "state")), EventRecorder())
    for number in range(1001):
        seen.add(f"run {number}", LauncherId(name="pi-launcher", container=str(number)))

    first, last = (
        RunId.of_launcher(name="pi-launcher", container=container, launch="").launcher
        for container in ("1", "1000")
    )
    lines = (tmp_path / "state" / "launchers").read_text().splitlines()
    assert (len(lines), lines[0], lines[-1]) == (1000, first, last)


def test_the_launchers_that_began_runs_here_stand_in_a_file_once_each(tmp_path: Path) -> None:
    """By its job and its container, as in a run's id; not those of the worker's former life."""

    async def watch(served: Served) -> None:
        run_id = RunId.of_launcher(name="pi-launcher", container="first", launch="0" * 8)
        for one in (str(run_id), "of an older launcher"):
            await served.watch(one, PI)
        await served.watch("b", PI_RESTARTED)

        second = RunId.of_launcher(name="pi-launcher", container="second", launch="0" * 8)
        assert served.state.file("launchers").read_text() == (
            f"{run_id.launcher}\n{second.launcher}\n"
        )

    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "launchers").write_text("0badcafe\n")
    serve_and(watch, tmp_path / "state")
