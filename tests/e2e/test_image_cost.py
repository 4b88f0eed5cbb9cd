"""By how much an image of ours is larger, and mpirun later, than without the agent."""

from __future__ import annotations

import pytest

from tests.e2e.engine import Engine
from tests.e2e.image_cost import MOST_ADDED_MS, MOST_LARGER_MB, shim_walls, size_mb
from tests.e2e.images import Images, Mpi

pytestmark = pytest.mark.e2e

_ROUNDS = 21
_BUSY = 10
"""times the promise, which is for a quiet machine; benchmarks/images.py tells the figure itself"""


def test_an_image_is_larger_by_less_than_60_mb(mpi: Mpi, engine: Engine, images: Images) -> None:
    """Than the same base with the same MPI and OpenSSH, by apt, built in the same run."""
    ours_mb = size_mb(engine, images.reference(mpi))
    plain_mb = size_mb(engine, images.plain(mpi))

    print(f"{mpi.value}: {ours_mb:.1f} MB, plain {plain_mb:.1f} MB")
    assert ours_mb - plain_mb < MOST_LARGER_MB


def test_the_shim_starts_no_python(mpi: Mpi, engine: Engine, images: Images) -> None:
    """`mpirun --version` is asked by scripts and by every build of a program.

    The least of many times is the one that the rest of the machine has disturbed least.
    """
    walls = shim_walls(engine, images.reference(mpi), rounds=_ROUNDS)

    added_s, python_s = walls.added_s(min), min(walls.python_s)
    print(f"{mpi.value}: the shim adds {added_s * 1e3:.1f} ms, Python takes {python_s * 1e3:.1f}")
    assert added_s < python_s / 2
    assert added_s * 1e3 < _BUSY * MOST_ADDED_MS
