"""What the kernel's account of CPUs says, in both versions of cgroups, and when it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpi_agent.cgroup import CpuAccount, cpu_account
from mpi_agent.ssh.worker_words import Throttled
from mpi_agent.worker.throttling import Throttling, is_noticeable

SAMPLES = Path(__file__).parent / "cpu_stat"
"""Recorded 2026-11-30 but for one, which is written after cgroup-v2.rst, "CPU Interface Files"."""


def account_of(root: Path, sample: str, *, below: str) -> CpuAccount:
    """Return the account of a container that shows a sample."""
    (root / below).mkdir(exist_ok=True)
    (root / below / "cpu.stat").write_text((SAMPLES / sample).read_text())
    return cpu_account(root)


@pytest.mark.parametrize(
    ("sample", "below", "account"),
    [
        ("v2-limit-as-documented-linux-6.18", "", CpuAccount(periods=127, throttled=119)),
        ("v2-no-limit-linux-6.18", "", CpuAccount()),
        ("v1-limit-half-a-cpu-linux-6.18", "cpu", CpuAccount(periods=121, throttled=120)),
    ],
)
def test_both_versions_of_cgroups_are_read(
    tmp_path: Path, sample: str, below: str, account: CpuAccount
) -> None:
    """The first lies one folder deeper; without a limit nothing is counted."""
    assert account_of(tmp_path, sample, below=below) == account


def test_where_nothing_tells_nothing_was_throttled(tmp_path: Path) -> None:
    """As on a machine without such files."""
    assert cpu_account(tmp_path) == CpuAccount()
    (tmp_path / "cpu.stat").write_text("nr_periods\nnr_throttled many\n")
    assert cpu_account(tmp_path) == CpuAccount()


@pytest.mark.parametrize(
    ("periods", "throttled", "is_told"),
    [
        (0, 0, False),
        (100, 19, False),
        (100, 20, True),
        (400, 20, True),
        (401, 20, False),
        (100000, 4999, False),
    ],
)
def test_only_what_happens_often_is_told(periods: int, throttled: int, *, is_told: bool) -> None:
    """Every program runs into its limit for a moment when it starts."""
    assert is_noticeable(CpuAccount(periods=periods, throttled=throttled)) is is_told


def test_a_run_is_told_what_came_to_pass_since_its_begin_and_once() -> None:
    """A launcher that comes back to its run does not begin it anew."""
    now = CpuAccount(periods=500, throttled=400)
    throttling = Throttling(lambda: now)
    throttling.begin("a")
    now = CpuAccount(periods=600, throttled=450)
    throttling.begin("a")
    throttling.begin("b")
    now = CpuAccount(periods=700, throttled=500)

    assert throttling.last_words("a") == (Throttled(periods=200, throttled=100),)
    assert throttling.last_words("a") == ()
    throttling.keep(())
    assert throttling.last_words("b") == ()
