"""What the agent adds to an image that has the MPI and OpenSSH anyway."""

from __future__ import annotations

import pytest

from tests.e2e.engine import Engine
from tests.e2e.image_cost import shim_cost, size_bytes
from tests.e2e.images import Images, Mpi

pytestmark = pytest.mark.e2e

_MOST_ADDED_MB = 60
_MOST_ADDED_S = 0.6
"""ten times what is promised of a machine that does nothing else; see benchmarks/images.py"""


def test_the_agent_adds_less_than_60_mb(mpi: Mpi, engine: Engine, images: Images) -> None:
    """Its Python included, beside the same base, MPI and OpenSSH, built in the same run."""
    with_agent = size_bytes(engine, images.reference(mpi))
    without = size_bytes(engine, images.plain(mpi))

    print(f"{mpi.value}: {with_agent / 1e6:.1f} MB, plain {without / 1e6:.1f} MB")
    assert (with_agent - without) / 1e6 < _MOST_ADDED_MB


def test_the_shim_is_not_felt(mpi: Mpi, engine: Engine, images: Images) -> None:
    """`mpirun --version` is asked by scripts and by every build of a program."""
    cost = shim_cost(engine, images.reference(mpi), rounds=11)

    print(f"{mpi.value}: {cost.shim_s * 1e3:.0f} ms, of which the shim {cost.added_s * 1e3:.0f} ms")
    assert cost.added_s < _MOST_ADDED_S
