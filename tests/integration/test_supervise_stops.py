"""Stops of real processes: who is told what, in which order, and what is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.supervised import Wanted, in_python, supervised

pytestmark = pytest.mark.integration

_SOON_S = 10.0
"""Ten times and more what it takes alone."""

_RANK = """
def took(number, _):
    note("rank-got", signal.Signals(number).name)
    if number not in (signal.SIGUSR1, IGNORED):
        sys.exit(4)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, took)
open(f"{HERE}/ranks/rank", "w").write(str(os.getpid()))
while True: signal.pause()
"""
_MPIRUN = """
import subprocess
def took(number, _):
    note("mpirun-got", signal.Signals(number).name)
    if number != signal.SIGUSR1:
        note("mpirun-got", "ends")
        os._exit(1)
rank = subprocess.Popen([sys.executable, "-c", RANK], start_new_session=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, took)
code = rank.wait()
os._exit(code)
"""


def an_mpirun(
    *,
    tell: str,
    rank_ignores_term: bool = False,
    grace_s: float = 20.0,
    stop_signal: str = "SIGTERM",
) -> Wanted:
    """Return something like mpirun, with one rank, which both note what they get.

    The rank ends with 4 when it is told to; mpirun ends with 1, or with the code of its rank.
    """
    ignored = "signal.SIGTERM" if rank_ignores_term else "None"
    rank = in_python(_RANK.replace("IGNORED", ignored))[2]
    argv = in_python(_MPIRUN.replace("RANK]", f"{rank!r}]"))
    return Wanted(argv=argv, tell=tell, grace_s=grace_s, stop_signal=stop_signal)


def test_a_rank_that_was_told_ends_the_job_with_its_own_code(tmp_path: Path) -> None:
    """Mpirun was told nothing."""
    with supervised(an_mpirun(tell="yes"), tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGTERM)
        report = running.report()
        got = running.lines_of("rank-got"), running.lines_of("mpirun-got")

    assert got == (["SIGTERM"], [])
    assert (report.code, report.stopped_by) == (4, "SIGTERM")
    assert (report.ranks_were_told, report.mpirun_was_told) == (True, False)
    assert (report.left, report.new_files) == (0, 0)


@pytest.mark.parametrize("tell", ["no", "fail"])
def test_mpirun_is_told_at_once_where_the_ranks_cannot_be(tell: str, tmp_path: Path) -> None:
    """By the signal that came."""
    with supervised(an_mpirun(tell=tell), tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGINT)
        report = running.report()
        got = running.lines_of("mpirun-got")

    assert got == ["SIGINT", "ends"]
    assert report.told == ("SIGTERM",)
    assert (report.code, report.stopped_by) == (1, "SIGINT")
    assert (report.ranks_were_told, report.mpirun_was_told) == (False, True)
    assert report.left == 0


def test_mpirun_is_told_after_three_seconds_where_the_ranks_do_not_answer(tmp_path: Path) -> None:
    """Not before, and not much later."""
    with supervised(an_mpirun(tell="late"), tmp_path) as running:
        running.wait_for_rank()
        began_s = time.monotonic()
        running.signal(signal.SIGTERM)
        running.wait_for_line("mpirun-got", "SIGTERM")
        took_s = time.monotonic() - began_s
        running.report()

    assert 2.9 < took_s < 3 * _SOON_S


def test_a_rank_that_takes_its_time_has_the_grace_without_the_reserve(tmp_path: Path) -> None:
    """Then mpirun gets TERM, while there is still time for it."""
    wanted = an_mpirun(tell="yes", rank_ignores_term=True, grace_s=4.0)
    with supervised(wanted, tmp_path) as running:
        running.wait_for_rank()
        began_s = time.monotonic()
        running.signal(signal.SIGTERM)
        running.wait_for_line("mpirun-got", "SIGTERM")
        took_s = time.monotonic() - began_s
        report = running.report()

    assert 2.9 < took_s < _SOON_S
    assert (report.code, report.mpirun_was_told, report.left) == (1, True, 0)


def test_the_second_stop_does_not_wait_for_the_ranks(tmp_path: Path) -> None:
    """Mpirun gets TERM at once."""
    wanted = an_mpirun(tell="yes", rank_ignores_term=True, grace_s=600.0)
    with supervised(wanted, tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGINT)
        running.wait_for_line("rank-got", "SIGTERM")
        running.signal(signal.SIGINT)
        report = running.report()
        got = running.lines_of("mpirun-got")

    assert got == ["SIGTERM", "ends"]
    assert report.stopped_by == "SIGINT"


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_a_program_that_ignores_everything_is_killed_by_then(stops: int, tmp_path: Path) -> None:
    """At the end of the grace, three seconds after the second stop, or at the third."""
    script = """
count = 0
def took(number, _):
    global count
    count += 1
    note("got", f"signal {number}, number {count}")
signal.signal(signal.SIGTERM, took)
note("up", "up")
while True: signal.pause()
"""
    wanted = Wanted(argv=in_python(script), grace_s=1.0 if stops == 1 else 600.0)

    with supervised(wanted, tmp_path) as running:
        running.wait_for_line("up", "up")
        began_s = time.monotonic()
        for stop in range(1, stops + 1):
            running.signal(signal.SIGTERM)
            if stop < stops:
                running.wait_for_line("got", f"signal 15, number {stop}")
        report = running.report()

    assert (report.signal, report.stopped_by, report.left) == (signal.SIGKILL, "SIGTERM", 0)
    assert time.monotonic() - began_s < 3 * _SOON_S


def test_usr1_reaches_ranks_that_can_be_told_and_not_mpirun(tmp_path: Path) -> None:
    """Who writes a checkpoint writes one."""
    with supervised(an_mpirun(tell="yes"), tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGUSR1)
        running.wait_for_line("rank-got", "SIGUSR1")
        running.signal(signal.SIGTERM)
        report = running.report()
        got = running.lines_of("rank-got"), running.lines_of("mpirun-got")

    assert got == (["SIGUSR1", "SIGTERM"], [])
    assert report.told == ("SIGUSR1", "SIGTERM")


def test_usr1_goes_by_mpirun_where_the_ranks_cannot_be_told(tmp_path: Path) -> None:
    """Which runs on."""
    with supervised(an_mpirun(tell="no"), tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGUSR1)
        running.wait_for_line("mpirun-got", "SIGUSR1")
        running.signal(signal.SIGTERM)
        report = running.report()
        got = running.lines_of("mpirun-got")

    assert got == ["SIGUSR1", "SIGTERM", "ends"]
    assert report.stopped_by == "SIGTERM"


def test_ranks_that_stop_by_usr1_get_it_whatever_we_were_sent(tmp_path: Path) -> None:
    """Here they go on, so that mpirun gets its TERM at the end."""
    wanted = an_mpirun(tell="yes", stop_signal="SIGUSR1", grace_s=2.0)
    with supervised(wanted, tmp_path) as running:
        running.wait_for_rank()
        running.signal(signal.SIGTERM)
        report = running.report()
        got = running.lines_of("rank-got"), running.lines_of("mpirun-got")

    assert got[0][0] == "SIGUSR1"
    assert got[1] == ["SIGTERM", "ends"]
    assert report.ranks_were_told


def test_an_alarm_ends_the_program_and_is_told(tmp_path: Path) -> None:
    """No rank is asked."""
    with supervised(an_mpirun(tell="yes"), tmp_path) as running:
        running.wait_for_rank()
        running.raise_alarm()
        report = running.report()

    assert report.alarm == "pi-worker-3 is lost"
    assert (report.code, report.stopped_by, report.told, report.left) == (1, None, (), 0)
    assert report.notes == ("pi-worker-3 is lost; the program is ended",)


def test_an_mpirun_that_somebody_else_kills_leaves_nothing(tmp_path: Path) -> None:
    """Neither its rank nor a zombie."""
    with supervised(an_mpirun(tell="no", rank_ignores_term=True), tmp_path) as running:
        rank = running.wait_for_rank()
        os.kill(running.program_pid, signal.SIGKILL)
        report = running.report()

    assert (report.signal, report.stopped_by, report.mpirun_was_told) == (9, None, False)
    assert (report.left, report.new_files) == (0, 0)
    assert not Path(f"/proc/{rank}").exists()


def test_stop_tstp_and_cont_are_never_passed_on(tmp_path: Path) -> None:
    """Floods of CONT upset mpirun; and an agent that was stopped goes on where it was."""
    script = """
for n in (signal.SIGCONT, signal.SIGTSTP, signal.SIGTERM):
    signal.signal(n, lambda n, _: (note("got", signal.Signals(n).name), n == 15 and os._exit(0)))
note("up", "up")
while True: signal.pause()
"""
    with supervised(Wanted(argv=in_python(script)), tmp_path) as running:
        running.wait_for_line("up", "up")
        running.signal(signal.SIGSTOP)
        running.signal(signal.SIGCONT)
        running.signal(signal.SIGCONT)
        running.signal(signal.SIGTERM)
        running.report()
        got = running.lines_of("got")

    assert got == ["SIGTERM"]


def test_a_program_that_ends_at_once_is_a_program(tmp_path: Path) -> None:
    """Its code is there, and nothing else."""
    with supervised(
        Wanted(argv=(sys.executable, "-c", "raise SystemExit(7)")), tmp_path
    ) as running:
        report = running.report()

    assert (report.code, report.signal, report.lines, report.left) == (7, None, (), 0)
