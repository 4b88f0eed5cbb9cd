"""The last rank takes more memory than there is; the others wait for it."""

from mpi4py import MPI

_PIECE_BYTES = 8 << 20


def main() -> None:
    """Fill piece after piece, so that each is really there."""
    world = MPI.COMM_WORLD
    world.Barrier()
    taken = []
    while world.rank == world.size - 1:
        taken.append(bytearray(b"x") * _PIECE_BYTES)
    world.Barrier()


if __name__ == "__main__":
    main()
