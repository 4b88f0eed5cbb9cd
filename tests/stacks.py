"""The MPIs that tests launch with: two of Debian's packages, three of wheels.

Open MPI 5 lies beside the interpreter of the tests; tests/make-stacks.sh makes the others. One that
is not installed skips the test by its name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workers import LIMIT_S, REPOSITORY

__all__ = ["STACK_NAMES", "MpiStack", "installed_stacks", "require_stack"]

_ROOT = REPOSITORY / ".venv-stacks"
_SYSTEM = Path("/usr/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiStack:
    """An MPI on this machine.

    Attributes:
        name: of the family and its major version.
        mpirun: the launcher, by the path that says which MPI it is.
        python: an interpreter whose mpi4py is linked with this MPI. It needs no variable.
    """

    name: str
    mpirun: Path
    python: Path

    @property
    def is_hydra(self) -> bool:
        """Whether it has the launcher of MPICH."""
        return not self.name.startswith("openmpi")

    @property
    def is_installed(self) -> bool:
        """Whether both its programs are there."""
        return all(os.access(path, os.X_OK) for path in (self.mpirun, self.python))

    def library_version(self) -> str:
        """Return the first line by which the library under its mpi4py calls itself."""
        program = "from mpi4py import rc; rc.initialize = False; from mpi4py import MPI;"
        child = subprocess.run(
            [self.python, "-c", f"{program} print(MPI.Get_library_version())"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        return child.stdout.partition("\n")[0].rstrip("\0")


_DEBIAN, _MPICH, _IMPI = (_ROOT / name / "bin" for name in ("debian", "mpich", "impi"))
_OWN = Path(sys.executable).parent
_STACKS = {
    stack.name: stack
    for stack in (
        MpiStack(
            name="openmpi4", mpirun=_SYSTEM / "mpirun.openmpi", python=_DEBIAN / "python-openmpi"
        ),
        MpiStack(name="openmpi5", mpirun=_OWN / "mpirun", python=_OWN / "python"),
        MpiStack(name="mpich4", mpirun=_SYSTEM / "mpiexec.mpich", python=_DEBIAN / "python-mpich"),
        MpiStack(name="mpich5", mpirun=_MPICH / "mpiexec", python=_MPICH / "python"),
        MpiStack(name="intelmpi", mpirun=_IMPI / "mpiexec.hydra", python=_IMPI / "python"),
    )
}
STACK_NAMES = tuple(_STACKS)


def installed_stacks() -> tuple[MpiStack, ...]:
    """Return those of the five that are on this machine."""
    return tuple(stack for stack in _STACKS.values() if stack.is_installed)


def require_stack(name: str) -> MpiStack:
    """Return one of the five; skip the test where it is not installed."""
    stack = _STACKS[name]
    if not stack.is_installed:
        pytest.skip(f"{name} is not installed; `make system integration` installs all MPIs")
    return stack
