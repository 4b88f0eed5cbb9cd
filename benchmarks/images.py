"""By how much an image is larger with the agent, and `mpirun --version` later through its shim.

Each reference image beside a plain base with the same MPI and OpenSSH, built in the same run; and
in one container each, mpirun through the shim beside the real one and a Python that does nothing,
in turn. Engine and images are those of the end-to-end tests.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.measure import Record, arguments, recording
from tests.e2e.base_images import engine_with_bases
from tests.e2e.engine import Engine
from tests.e2e.image_cost import MOST_ADDED_MS, MOST_LARGER_MB, shim_walls, size_mb
from tests.e2e.images import Images, Mpi

_HEADINGS = (
    *("MPI", "size MB", "plain MB", "larger by MB"),
    *("shim ms", "real ms", "added ms", "python ms", "version"),
)


def main() -> None:
    """Measure one image after the other."""
    parser = arguments(__doc__ or "", repeat=50)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_with_bases(Path(directory)) as engine,
        recording(given.json, *_HEADINGS) as record,
    ):
        images = Images(engine)
        for mpi in Mpi:
            if mpi.value not in given.without:
                _measure(mpi, engine, images, given.repeat, record)


def _measure(mpi: Mpi, engine: Engine, images: Images, repeat: int, record: Record) -> None:
    reference, plain = images.reference(mpi), images.plain(mpi)
    ours_mb, plain_mb = (size_mb(engine, image) for image in (reference, plain))
    walls = shim_walls(engine, reference, rounds=repeat)
    shim_ms, real_ms, python_ms = (
        statistics.median(series) * 1e3 for series in (walls.shim_s, walls.real_s, walls.python_s)
    )
    added_ms = walls.added_s(statistics.median) * 1e3
    figures_mb = (ours_mb, plain_mb, ours_mb - plain_mb)
    figures_ms = (shim_ms, real_ms, added_ms, python_ms)
    record.run(mpi=mpi.value, size_mb=ours_mb, plain_mb=plain_mb, shim_ms=shim_ms, real_ms=real_ms)
    record.row(
        mpi.value,
        *(f"{figure:.1f}" for figure in (*figures_mb, *figures_ms)),
        _version(engine, reference),
    )
    record.verdict(f"{mpi.value}: image - plain image, MB", ours_mb - plain_mb, MOST_LARGER_MB)
    record.verdict(f"{mpi.value}: shim - real mpirun, ms", added_ms, MOST_ADDED_MS)
    record.verdict(f"{mpi.value}: shim / real mpirun", shim_ms / real_ms)


def _version(engine: Engine, image: str) -> str:
    """Return the line of `mpirun --version` in which a version stands."""
    lines = engine.output_of(image, "mpirun", "--version").splitlines()
    return next(" ".join(line.split()) for line in lines if any(c.isdigit() for c in line))


if __name__ == "__main__":
    main()
