"""What an image costs: its size, and how much later mpirun answers through the shim."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.e2e.engine import Engine

__all__ = ["MOST_ADDED_MS", "MOST_LARGER_MB", "ShimWalls", "shim_walls", "size_mb"]

MOST_LARGER_MB = 60
"""by which an image may be larger than one with the same MPI and OpenSSH, without the agent"""
MOST_ADDED_MS = 60
"""by which `mpirun --version` may be later through the shim, on a machine that is not busy"""
_SHIM, _REAL = "mpirun --version", "mpirun.real --version"
_PYTHON = "/opt/mpi-agent/bin/python -c pass"
# All in turn, so that whatever else the machine does meets them all; the first round warms the
# caches.
_MEASURE = """
import json, subprocess, sys, time
rounds, lines = int(sys.argv[1]), sys.argv[2:]
walls_s = {line: [] for line in lines}
for _ in range(rounds + 1):
    for line in lines:
        begun_s = time.monotonic()
        subprocess.run(line.split(), stdout=subprocess.DEVNULL, check=True)
        walls_s[line].append(time.monotonic() - begun_s)
print(json.dumps({line: series[1:] for line, series in walls_s.items()}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimWalls:
    """How long commands took in one container, in every round.

    Attributes:
        shim_s: `mpirun --version` through the shim.
        real_s: that of the real one.
        python_s: the agent's Python, which does nothing.
    """

    shim_s: tuple[float, ...]
    real_s: tuple[float, ...]
    python_s: tuple[float, ...]

    def added_s(self, of_series: Callable[[Sequence[float]], float]) -> float:
        """Return how much later the answer comes, by one figure of each series."""
        return of_series(self.shim_s) - of_series(self.real_s)


def size_mb(engine: Engine, image: str) -> float:
    """Return the sum of an image's layers, unpacked, as `podman images` shows it."""
    return int(engine.do("image", "inspect", "--format={{.Size}}", image)) / 1e6


def shim_walls(engine: Engine, image: str, *, rounds: int) -> ShimWalls:
    """Measure in one container, by the image's own Python."""
    lines = (_SHIM, _REAL, _PYTHON)
    said = engine.output_of(image, "python3", "-c", _MEASURE, str(rounds), *lines)
    shim_s, real_s, python_s = (tuple(json.loads(said)[line]) for line in lines)
    return ShimWalls(shim_s=shim_s, real_s=real_s, python_s=python_s)
