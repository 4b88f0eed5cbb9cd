"""The program that `tests.farm_launch` runs on the hosts: each rank tells what it sees.

Called as `farm_rank.py DIRECTORY [--meet] [--no-finalize] [--hold] [--code N]`. A rank writes
DIRECTORY/<rank>.json, and one line of JSON to its output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

_SHORTEST_LIFE_S = 0.7
"""Source: mpirun of Open MPI 5.0.11 now and then does not return after a program without MPI that
lives less than 0.5 s; measured 2026-11."""
_LONGEST_HOLD_S = 60.0
_TURN_S = 0.3
_ITEM_BYTES = 256 * 1024
"""More than any MPI sends before the other side agrees, so that every pair must really connect."""


def main() -> int:
    """Tell, and end with the wanted code."""
    started_at_s = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--meet", action="store_true")
    parser.add_argument("--no-finalize", action="store_true")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--code", type=int, default=0)
    wanted = parser.parse_args()
    told: dict[str, object] = {"host": os.uname().nodename, "rank": _rank()}
    if wanted.meet:
        told["world"] = _meet(finalizes=not wanted.no_finalize)
    os.write(1, f"{json.dumps(told)}\n".encode())  # at once: launchers mix what ranks write
    _write(wanted.directory, {**told, "environ": _environ(), "cwd": os.getcwd()})
    if wanted.no_finalize:
        _leave_in_turn(wanted.directory, told)
    if wanted.hold:
        _wait_for(wanted.directory / "go", started_at_s + _LONGEST_HOLD_S)
    elif not wanted.meet:
        time.sleep(max(0.0, started_at_s + _SHORTEST_LIFE_S - time.monotonic()))
    code: int = wanted.code
    return code


def _rank() -> int:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    raise SystemExit("no launcher told a rank")


def _environ() -> dict[str, str]:
    """Return every variable, byte for byte: each byte is one character."""
    return {k.decode("latin-1"): v.decode("latin-1") for k, v in os.environb.items()}


def _meet(*, finalizes: bool) -> dict[str, object]:
    """Return what a world of MPI says; every rank sends every other one a large message."""
    import mpi4py

    mpi4py.rc.finalize = finalizes
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    heard = world.alltoall([bytes([world.rank]) * _ITEM_BYTES] * world.size)
    return {
        "size": world.size,
        "sum": world.allreduce(world.rank + 1),
        "heard": [item[0] for item in heard],
    }


def _write(directory: Path, told: dict[str, object]) -> None:
    path = directory / f"{told['rank']}.json"
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(told))
    beside.rename(path)


def _leave_in_turn(directory: Path, told: dict[str, object]) -> None:
    """Wait until every rank has told, and longer the higher this one's number is.

    Source: MPICH 4.0.2, 2026-12-01: a rank that leaves without MPI_Finalize may have others killed,
    which had not written yet; where all leave at once its proxies fail, and mpiexec ends with 255.
    """
    world = told["world"]
    assert isinstance(world, dict)
    until_s = time.monotonic() + _LONGEST_HOLD_S
    for rank in range(world["size"]):
        _wait_for(directory / f"{rank}.json", until_s)
    time.sleep(_TURN_S * _rank())


def _wait_for(path: Path, until_s: float) -> None:
    while not path.exists():
        if time.monotonic() > until_s:
            raise SystemExit(f"{path} did not come")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
