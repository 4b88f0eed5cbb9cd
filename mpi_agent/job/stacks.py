"""An installed MPI as a value, and what `mpirun --version` and a program's libraries say of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

__all__ = ["Implementation", "MpiStack", "implementation_of_library", "recognise_version"]


class Implementation(Enum):
    """A family of MPI implementations, as its people call it."""

    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"
    INTEL_MPI = "Intel MPI"
    MVAPICH = "MVAPICH"
    SPECTRUM_MPI = "IBM Spectrum MPI"


_PATTERNS: tuple[tuple[Implementation, re.Pattern[str]], ...] = (
    (Implementation.SPECTRUM_MPI, re.compile(r"IBM Spectrum MPI\D*(\d+)\.(\d+)(?:\.(\d+))?")),
    (Implementation.OPEN_MPI, re.compile(r"\((?:Open MPI|OpenRTE)\) (\d+)\.(\d+)(?:\.(\d+))?")),
    (
        Implementation.INTEL_MPI,
        re.compile(r"Intel\(R\) MPI Library\D*(\d+)(?:\.(\d+))?(?:\.(\d+))?"),
    ),
    (Implementation.MVAPICH, re.compile(r"mvapich2?\D*(\d+)\.(\d+)(?:\.(\d+))?", re.IGNORECASE)),
    (
        Implementation.MPICH,
        re.compile(r"HYDRA build details:\s+Version:\s+(\d+)\.(\d+)(?:\.(\d+))?"),
    ),
)
"""First match wins, so a derivative stands before what it derives from.

Source: `mpirun --version` of Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19, 2026-11;
Open MPI 4 calls itself OpenRTE under any other name than mpirun.
"""

_FAMILIES = {
    "libmpi.so.20": Implementation.OPEN_MPI,
    "libmpi.so.40": Implementation.OPEN_MPI,
    "libmpi.so.12": Implementation.MPICH,
    "libmpich.so.12": Implementation.MPICH,
}
"""Which family a program needs, by the library it is linked with.

Source: `readelf -d` of programs built with Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 (Debian) and
5.0.2; the MPICH ABI initiative for libmpi.so.12, which Intel MPI and MVAPICH carry too.
"""

_MPICH_ABI = frozenset({Implementation.MPICH, Implementation.INTEL_MPI, Implementation.MVAPICH})


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiStack:
    """One installed MPI.

    Attributes:
        version: three numbers.
        mpirun: the real launcher, absolute, never a shim.
    """

    implementation: Implementation
    version: tuple[int, int, int]
    mpirun: str

    @property
    def prefix(self) -> str:
        """The directory above the `bin` that holds mpirun."""
        return str(PurePath(self.mpirun).parent.parent)

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{self.implementation.value} {'.'.join(str(n) for n in self.version)}"

    @property
    def short_name(self) -> str:
        """What --mpi calls it, such as `openmpi5`."""
        name = self.implementation.value.lower().replace(" ", "")
        return f"{name}{self.version[0]}"

    def runs_with(self, family: Implementation) -> bool:
        """Return whether a program linked with that family finds its peers under this mpirun.

        Source: measured 2026-11 with Open MPI 4.1.4/5.0.11, MPICH 4.0.2/5.0.2 and Intel MPI
        2021.19: within a family every mix made one world, across families six singletons.
        """
        return family is self.implementation or {family, self.implementation} <= _MPICH_ABI


def recognise_version(text: str) -> tuple[Implementation, tuple[int, int, int]] | None:
    """Return what `mpirun --version` says it is, None when it is nothing known."""
    for implementation, pattern in _PATTERNS:
        if match := pattern.search(text):
            major, minor, patch = (int(number or 0) for number in match.groups())
            return implementation, (major, minor, patch)
    return None


def implementation_of_library(soname: str) -> Implementation | None:
    """Return the family that a library such as `libmpi.so.40` belongs to, None for an unknown."""
    return _FAMILIES.get(soname)
