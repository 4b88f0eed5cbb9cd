"""How each MPI implementation spells what every launch needs.

A dialect is a value: options that differ between the launchers stand in its fields, and what all
launchers of a family have in common stands once, in `command.build`.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Dialect
from mpi_agent.command.dialects.openmpi4 import OPEN_MPI_4
from mpi_agent.command.dialects.openmpi5 import OPEN_MPI_5
from mpi_agent.errors import StackUnsupportedError
from mpi_agent.job.stacks import Implementation, MpiStack

__all__ = ["Dialect", "dialect_of"]

_TABLE = {
    (Implementation.OPEN_MPI, 4): OPEN_MPI_4,
    (Implementation.OPEN_MPI, 5): OPEN_MPI_5,
}


def dialect_of(stack: MpiStack) -> Dialect:
    """Return the dialect of an installed MPI.

    Raises:
        StackUnsupportedError: it has none.
    """
    dialect = _TABLE.get((stack.implementation, stack.version[0]))
    if dialect is None:
        raise StackUnsupportedError(
            f'cannot build a command for {stack.title} ("{stack.mpirun}"): it has no dialect yet',
            hint="Open MPI 4.1 and 5 have one; choose an installed one with --mpi",
        )
    return dialect
