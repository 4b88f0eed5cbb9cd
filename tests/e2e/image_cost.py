"""What an image costs: its size, and how much later mpirun answers through the shim."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

from tests.e2e.engine import Engine

__all__ = ["ShimCost", "shim_cost", "size_bytes"]

_SHIM, _REAL = "mpirun", "mpirun.real"
# Both in turn, so that whatever else the machine does meets both; the first round warms the caches.
_MEASURE = """
import json, subprocess, sys, time
rounds, names = int(sys.argv[1]), sys.argv[2:]
walls_s = {name: [] for name in names}
for _ in range(rounds + 1):
    for name in names:
        begun_s = time.monotonic()
        subprocess.run([name, "--version"], stdout=subprocess.DEVNULL, check=True)
        walls_s[name].append(time.monotonic() - begun_s)
print(json.dumps({name: series[1:] for name, series in walls_s.items()}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimCost:
    """Medians of `mpirun --version` in one container: through the shim, and of the real one."""

    shim_s: float
    real_s: float

    @property
    def added_s(self) -> float:
        """How much later the answer comes."""
        return self.shim_s - self.real_s


def size_bytes(engine: Engine, image: str) -> int:
    """Return the sum of an image's layers, unpacked, as `podman images` shows it."""
    return int(engine.do("image", "inspect", "--format={{.Size}}", image))


def shim_cost(engine: Engine, image: str, *, rounds: int) -> ShimCost:
    """Measure in one container, by the image's own Python."""
    said = engine.output_of(image, "python3", "-c", _MEASURE, str(rounds), _SHIM, _REAL)
    walls_s = json.loads(said)
    return ShimCost(
        shim_s=statistics.median(walls_s[_SHIM]), real_s=statistics.median(walls_s[_REAL])
    )
