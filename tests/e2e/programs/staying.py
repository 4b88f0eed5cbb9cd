"""Computes until it is told to save its work.

Called with `leaving` each rank leaves a process that nobody waits for; with `deaf` it minds no
request; with `agreeing` all ranks finish together once one of them was told.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from mpi4py import MPI

_told = False


def _save(number: int, _: FrameType | None) -> None:
    Path(f"/saved/rank-{MPI.COMM_WORLD.rank}").write_text(signal.Signals(number).name)
    if "agreeing" not in sys.argv:
        os._exit(0)
    global _told
    _told = True


def main() -> None:
    """Stay; a session of its own keeps the left process out of the daemon's reach."""
    signal.signal(signal.SIGUSR1, _save)
    if "deaf" in sys.argv:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "leaving" in sys.argv:
        subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()", "left-behind"],
            start_new_session=True,
        )
    MPI.COMM_WORLD.Barrier()
    print(f"rank {MPI.COMM_WORLD.rank} computes", flush=True)
    while "agreeing" not in sys.argv:
        signal.pause()
    while not MPI.COMM_WORLD.allreduce(_told, MPI.LOR):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
