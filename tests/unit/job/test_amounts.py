"""Memory in words."""

from __future__ import annotations

import pytest

from mpi_agent.job.amounts import render_memory, render_size

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (int(31.9 * _GIB), "31.9 GiB"),
        (int(31.99 * _GIB), "32 GiB"),
        (_GIB, "1 GiB"),
        (512 * _MIB, "512 MiB"),
        (64 * _KIB, "64 KiB"),
        (512, "0.5 KiB"),
        (0, "0 KiB"),
        (1 << 63, "8589934592 GiB"),
    ],
)
def test_a_size_has_one_decimal_if_it_has_any(size_bytes: int, words: str) -> None:
    """In the largest unit of which it has one."""
    assert render_size(size_bytes) == words


@pytest.mark.parametrize(
    ("used", "limit", "words"),
    [
        (int(31.9 * _GIB), 32 * _GIB, "31.9 of 32 GiB"),
        (600 * _MIB, 512 * _MIB, "600 of 512 MiB"),
        (100 * _MIB, 2 * _GIB, "0.1 of 2 GiB"),
        (None, 2 * _GIB, "limit 2 GiB"),
        (3 * _GIB, None, "3 GiB in use"),
        (0, 0, "0 of 0 KiB"),
        (None, None, ""),
    ],
)
def test_memory_is_told_in_the_unit_of_its_limit(
    used: int | None, limit: int | None, words: str
) -> None:
    """So that both numbers can be compared at a glance."""
    assert render_memory(used, limit) == words
