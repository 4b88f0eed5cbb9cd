"""Compute pi over all ranks, and say where each rank runs.

Run it with `mpi-agent local --workers 2 --slots 2 -- python examples/local/pi.py`.
"""

import os

from mpi4py import MPI

INTERVALS = 1_000_000

world = MPI.COMM_WORLD
step = 1.0 / INTERVALS
mine = range(world.rank, INTERVALS, world.size)
partial = step * sum(4.0 / (1.0 + ((i + 0.5) * step) ** 2) for i in mine)
pi = world.reduce(partial, op=MPI.SUM, root=0)

host = os.environ.get("MPI_AGENT_WORKER_NAME", MPI.Get_processor_name())
places = world.gather(host, root=0)
if world.rank == 0 and places is not None:
    for rank, place in enumerate(places):
        print(f"rank {rank} of {world.size} on {place}")
    print(f"pi is approximately {pi:.12f}")
