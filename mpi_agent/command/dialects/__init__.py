"""How each MPI implementation says what every launch needs.

A dialect is a value: what differs between the launchers stands in its table, and what is done
about a topic, whoever says it, stands once, in `command.mpirun_plan` and what it calls.
"""

from __future__ import annotations

from mpi_agent.command.dialects.dialect import Dialect, DialectName, Knob, Spelling, TagForm
from mpi_agent.command.dialects.intel import INTEL_MPI
from mpi_agent.command.dialects.mpich import MPICH
from mpi_agent.command.dialects.openmpi4 import OPEN_MPI_4
from mpi_agent.command.dialects.openmpi5 import OPEN_MPI_5
from mpi_agent.command.topics import Family
from mpi_agent.errors import StackUnsupportedError
from mpi_agent.job.stacks import Implementation, MpiStack

__all__ = ["Dialect", "DialectName", "Knob", "Spelling", "TagForm", "dialect_of", "family_of"]

_OF_OPEN_MPI = {4: OPEN_MPI_4, 5: OPEN_MPI_5}
_OLDEST = {Implementation.MPICH: 3, Implementation.INTEL_MPI: 2019}


def dialect_of(stack: MpiStack) -> Dialect:
    """Return the dialect of an installed MPI.

    Raises:
        StackUnsupportedError: it has none.
    """
    major = stack.version[0]
    if stack.implementation is Implementation.OPEN_MPI and major in _OF_OPEN_MPI:
        return _OF_OPEN_MPI[major]
    if stack.implementation in _OLDEST and major >= _OLDEST[stack.implementation]:
        return MPICH if stack.implementation is Implementation.MPICH else INTEL_MPI
    raise StackUnsupportedError(
        f'cannot build a command for {stack.title} ("{stack.mpirun}"): it has no dialect',
        hint="Open MPI 4.1 and 5, MPICH and Intel MPI have one; choose an installed one with --mpi",
    )


def family_of(stack: MpiStack | None) -> Family | None:
    """Return the family of an installed MPI, None where there is none or it has no dialect."""
    try:
        return dialect_of(stack).family if stack is not None else None
    except StackUnsupportedError:
        return None
