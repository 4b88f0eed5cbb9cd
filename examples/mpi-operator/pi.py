"""Computes pi with all ranks of the job, and says where each of them ran."""

from mpi4py import MPI

STEPS = 1_000_000


def main() -> None:
    world = MPI.COMM_WORLD
    width = 1.0 / STEPS
    middles = ((step + 0.5) * width for step in range(world.rank, STEPS, world.size))
    share = sum(4.0 / (1.0 + middle * middle) for middle in middles) * width
    pi = world.reduce(share, op=MPI.SUM, root=0)
    hosts = world.gather(MPI.Get_processor_name(), root=0)
    if world.rank == 0:
        for rank, host in enumerate(hosts):
            print(f"rank {rank} of {world.size} on {host}")
        print(f"pi = {pi:.9f}", flush=True)


if __name__ == "__main__":
    main()
