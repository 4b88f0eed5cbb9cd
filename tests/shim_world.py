"""A world in which the paths that the shims name are the test's own files.

It is a root directory in a mount namespace: the machine's programs, one of several shells as
/bin/sh, an /etc of its own, and fakes of the agent and of the real programs that say how they were
called.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workers import LIMIT_S, REPOSITORY, open_directory, require_program

__all__ = [
    "AGENT",
    "MPI",
    "SBIN",
    "SHELLS",
    "Said",
    "ShimWorld",
    "assert_handed_on",
    "assert_refused",
]

SHELLS = ("dash", "bash", "busybox")
AGENT = "/opt/mpi-agent/bin/mpi-agent"
MPI = "/mpi/bin"
SBIN = "/usr/sbin"
_PATH = f"{MPI}:/usr/bin:/bin"
_FROM_THE_MACHINE = ("bin", "lib", "lib64", "dev")
_FAKE = """#!/bin/sh
printf '%s\\0' "$$" "$0" "$@"
exit "${FAKE_EXIT-0}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of a call.

    Attributes:
        program: the path by which the fake was called; empty when none was.
        arguments: its arguments, each as it arrived.
        keeps_the_process: whether the fake ran in the very process that was called.
    """

    program: str
    arguments: tuple[str, ...]
    code: int
    error: str
    keeps_the_process: bool


def assert_handed_on(said: Said, program: str, *arguments: str) -> None:
    """Check who got the line, and that nothing was said and no process is left in between."""
    assert (said.program.rpartition("/")[2], said.arguments) == (program, arguments)
    assert (said.code, said.error) == (0, "")
    assert said.keeps_the_process


def assert_refused(said: Said, path: str) -> None:
    """Check for one sentence that names the path, and the code of a program that is not there."""
    assert (said.program, said.code) == ("", 127)
    assert said.error.count("\n") == 1
    assert "fatal: cannot run the real" in said.error
    assert path in said.error


class ShimWorld:
    """A root directory with one shell, the shims and the fakes."""

    def __init__(self, root: Path, shell: str) -> None:
        self._root = root
        self._shell = require_program(shell)
        self._enter = _entrance()
        self._hidden: list[str] = []
        for name in ("etc", "tmp", MPI.lstrip("/")):
            (root / name).mkdir(parents=True)
        self.fake(AGENT)
        self.fake(f"{MPI}/mpirun.real")
        self.shim("mpirun", f"{MPI}/mpirun")
        self.fake(f"{SBIN}/sshd.real")
        self.shim("sshd", f"{SBIN}/sshd")

    def path(self, inside: str) -> Path:
        """Return where a path of the world lies on this machine; its directory is there."""
        path = self._root / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def shim(self, which: str, inside: str) -> None:
        """Place a copy of a shim of `entrypoints`."""
        shutil.copy(REPOSITORY / "entrypoints" / which, self.path(inside))

    def fake(self, inside: str) -> None:
        """Place a program that says how it was called."""
        path = self.path(inside)
        path.write_text(_FAKE)
        path.chmod(0o755)

    def link(self, inside: str, target: str) -> None:
        """Place a symlink."""
        self.path(inside).symlink_to(target)

    def hide(self, inside: str) -> None:
        """Let a program of the machine be none."""
        self._hidden.append(inside)

    def be_a_launcher(self) -> None:
        """Mount what the operator mounts into a launcher."""
        self.path("/etc/mpi/hostfile").write_text("pi-worker-0.pi.default.svc slots=1\n")

    def call(self, *argv: str, **variables: str) -> Said:
        """Return what comes of calling a program of this world."""
        with subprocess.Popen(
            [*self._enter, "sh", "-euc", self._script(), "sh", *argv],
            env={"PATH": _PATH, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as popen:
            try:
                out, err = popen.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                popen.kill()
                raise
        pid, program, *arguments = out.decode().split("\0")[:-1] or ("", "")
        return Said(
            program=program,
            arguments=tuple(arguments),
            code=popen.returncode,
            error=err.decode(),
            keeps_the_process=pid == str(popen.pid),
        )

    def _script(self) -> str:
        """Return the lines that lay the machine's programs under the root and enter it."""
        shell = os.path.realpath("/bin/sh")
        return "\n".join(
            [
                *_lay_the_machine_under(self._root),
                f"mount --bind {self._shell} {self._root}{shell}",
                *(f"mount --bind /dev/null {self._root}{path}" for path in self._hidden),
                f'exec {require_program("chroot")} {self._root} "$@"',
            ]
        )


def _lay_the_machine_under(root: Path) -> list[str]:
    """Make the places of the machine's directories; return the lines that mount them.

    /usr/sbin is the world's own, a directory also where the machine's is a symlink to /usr/bin.
    """
    lines = []
    (root / SBIN.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for here in (*(Path("/", name) for name in _FROM_THE_MACHINE), *Path("/usr").iterdir()):
        there = root / here.relative_to("/")
        if str(here) == SBIN or there.is_symlink():
            continue
        if here.is_symlink():
            there.symlink_to(here.readlink())
        elif here.is_dir():
            there.mkdir(exist_ok=True)
            # With the mounts below it: without them it is refused in a user namespace.
            lines.append(f"mount --rbind {here} {there}")
    return lines


def _entrance() -> tuple[str, ...]:
    """Return what to put before a command that may mount; skip where nothing lets it."""
    argv = (require_program("unshare"), "--mount", *(() if os.getuid() == 0 else ("-r",)))
    refusal = _refusal(argv, require_program("chroot"))
    if refusal:
        pytest.skip(f"a root directory of its own needs rights or user namespaces: {refusal}")
    return argv


@functools.cache
def _refusal(argv: tuple[str, ...], chroot: str) -> str:
    """Return why no world can be entered here; empty if one can."""
    with open_directory() as root:
        lines = [*_lay_the_machine_under(root), f"exec {chroot} {root} true"]
        ended = subprocess.run(
            [*argv, "sh", "-euc", "\n".join(lines)],
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode == 0:
        return ""
    return " ".join(ended.stderr.splitlines()[-1:]) or f"exit code {ended.returncode}"
