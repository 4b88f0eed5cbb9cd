"""Says for each host how many processes of another program it found there."""

import socket
from pathlib import Path

from mpi4py import MPI


def _count_left_behind() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += b"left-behind" in path.read_bytes()
        except OSError:
            continue
    return found


def main() -> None:
    """Look once, all at the same time."""
    found = MPI.COMM_WORLD.gather((socket.gethostname(), _count_left_behind()), root=0)
    for host, count in found or ():
        print(f"{host} left={count}", flush=True)


if __name__ == "__main__":
    main()
