"""Computes until one of its ranks is told to fail, until it is told to stop, or for some steps.

Called as `faulty.py [saving | deaf] [steps=N]`: with `saving` all ranks finish together, with 0,
once one of them was told to stop; with `deaf` they mind no such request. A rank fails when a file
/orders/rank-N names one of the deeds below.

Ranks wait for each other without spinning: handlers of Python run only between its own steps, and
the hosts of these tests share few cores.
"""

import array
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from mpi4py import MPI

_PAUSE_S = 0.01
_PIECE_BYTES = 8 << 20
_told = False


def _take_all_memory() -> None:
    taken = []
    while True:
        taken.append(bytearray(b"x") * _PIECE_BYTES)


_DEEDS: dict[str, Callable[[], object]] = {
    "exit-7": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "abort-3": lambda: MPI.COMM_WORLD.Abort(3),
    "take-all-memory": _take_all_memory,
}


def _hear(_: int, __: FrameType | None) -> None:
    global _told
    _told = True


def _meet() -> bool:
    """Return whether any rank was told to stop; all ranks come here together."""
    mine, all_together = array.array("i", [_told]), array.array("i", [0])
    request = MPI.COMM_WORLD.Iallreduce(mine, all_together)
    while not request.Test():
        time.sleep(_PAUSE_S)
    return all_together[0] > 0


def main() -> None:
    """Compute."""
    rank = MPI.COMM_WORLD.rank
    for number in (signal.SIGTERM, signal.SIGINT):
        if "deaf" in sys.argv:
            signal.signal(number, signal.SIG_IGN)
        if "saving" in sys.argv:
            signal.signal(number, _hear)
    steps = next((int(word[6:]) for word in sys.argv if word.startswith("steps=")), sys.maxsize)
    order = Path(f"/orders/rank-{rank}")
    _meet()
    count = os.environ.get("MPI_AGENT_RESTART_COUNT", "none")
    os.write(1, f"rank {rank} computes on {socket.gethostname()} restarts={count}\n".encode())
    for _ in range(steps):
        if order.exists():
            _DEEDS[order.read_text()]()
        time.sleep(_PAUSE_S)
        if _meet():
            os.write(1, f"rank {rank} saved its work\n".encode())
            break


if __name__ == "__main__":
    main()
