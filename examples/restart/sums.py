"""Sums the squares up to LIMIT with all ranks, and saves its work so that it can go on from there.

Called as `sums.py DIRECTORY [SECONDS]`: the directory is shared by all hosts, a round takes at
least these seconds. Whoever starts it again, on however many ranks, loses one round at most.
"""

import json
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

LIMIT = 3_000_000
ROUND = 50_000


def main() -> None:
    world = MPI.COMM_WORLD
    saved = Path(sys.argv[1]) / "sums.json"
    pause_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    begin, total = world.bcast(load(saved) if world.rank == 0 else None, root=0)
    if world.rank == 0:
        restarts = os.environ.get("MPI_AGENT_RESTART_COUNT", "0")
        print(f"restarts={restarts}: {world.size} ranks go on at {begin}", flush=True)
    while begin < LIMIT:
        end = min(begin + ROUND, LIMIT)
        share = sum(
            number * number for number in range(begin + 1 + world.rank, end + 1, world.size)
        )
        total += world.allreduce(share)
        begin = end
        if world.rank == 0:
            save(saved, begin, total)
            print(f"saved at {begin}", flush=True)
        time.sleep(pause_s)
    if world.rank == 0:
        print(f"sum of squares = {total}", flush=True)


def load(saved: Path) -> tuple[int, int]:
    """Return up to where the sum is known, and the sum."""
    if not saved.exists():
        return 0, 0
    begin, total = json.loads(saved.read_text())
    return begin, total


def save(saved: Path, begin: int, total: int) -> None:
    """Write beside and rename: whoever reads sees the old state or the new one, not half of it."""
    beside = saved.with_suffix(".new")
    beside.write_text(json.dumps([begin, total]))
    beside.rename(saved)


if __name__ == "__main__":
    main()
