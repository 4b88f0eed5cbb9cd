"""Which ssh client this image has, and what its own configuration says."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.container import Account, real_program
from mpi_agent.errors import SettingsError
from mpi_agent.settings import Backend
from mpi_agent.state import StateDirectory

__all__ = [
    "ImageConfiguration",
    "builtin_client_command",
    "builtin_client_program",
    "choose_client",
    "image_configuration",
    "programs_directory",
    "put_mpirun_in_front",
    "put_ssh_in_front",
    "write_builtin_client",
]

_DEFAULT_PORT = 22
_LIMIT_S = 10.0
_BUILTIN_NAME = "ssh_client"
_BUILTIN = f"{shlex.quote(sys.executable)} -m mpi_agent ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfiguration:
    """What the image's own ssh configuration says of one host.

    Attributes:
        port: None where it names none.
        key_exchanges: those that the client may use, by preference.
    """

    port: int | None = None
    key_exchanges: tuple[str, ...] = ()


def choose_client(wanted: Backend, account: Account) -> Backend:
    """Return which client mpirun will use: OpenSSH where it is there and can work.

    Raises:
        SettingsError: OpenSSH is asked for and not installed.
    """
    installed = shutil.which("ssh") is not None
    if wanted is Backend.OPENSSH and not installed:
        raise SettingsError(
            "cannot use OpenSSH's client: there is no ssh in PATH",
            hint="install openssh-client, or leave --ssh out and the built-in client dials",
        )
    if wanted is not Backend.AUTO:
        return wanted
    usable = installed and account.has_passwd_entry
    return Backend.OPENSSH if usable else Backend.BUILTIN


def image_configuration(host: str) -> ImageConfiguration:
    """Return what the image's ssh configuration says of a host; blocks for as long as ssh takes.

    22 is what ssh says without any configuration, so it counts as no port.

    Source: ssh(1) of OpenSSH 9.2, option -G prints the configuration after evaluating Host and
    Match blocks; key exchanges are in it with those of a system-wide policy.
    """
    values: dict[str, str] = {}
    for line in _say_configuration(host).splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, value)
    port = values.get("port", "")
    return ImageConfiguration(
        port=int(port) if port.isdigit() and int(port) != _DEFAULT_PORT else None,
        key_exchanges=tuple(values.get("kexalgorithms", "").split(",")),
    )


def _say_configuration(host: str) -> str:
    ssh = shutil.which("ssh")
    if ssh is None:
        return ""
    try:
        child = subprocess.run(
            [ssh, "-G", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return child.stdout.decode(errors="replace")


def builtin_client_command(state: StateDirectory) -> str:
    """Return the command that Open MPI calls in place of ssh, the same on launcher and workers.

    mpirun splits it at blanks and knows no quotes, so a path with blanks is hidden in a script.

    Source: Open MPI 4.1.4, 2026-11: its daemons look for the command on every host, and crash or
    hang where it is missing, even if they dial nobody.
    """
    program = Path(sys.executable).with_name("mpi-agent")
    if program.exists() and " " not in str(program):
        return f"{program} ssh"
    return builtin_client_program(state)


def builtin_client_program(state: StateDirectory) -> str:
    """Return the program that Hydra calls in place of ssh: one file, on the launcher alone."""
    return str(state.file(_BUILTIN_NAME))


def write_builtin_client(state: StateDirectory) -> None:
    """Write the file that `builtin_client_program` names."""
    state.write(_BUILTIN_NAME, f'#!/bin/sh\nexec {_BUILTIN} "$@"\n', mode=0o700)


def programs_directory(state: StateDirectory) -> Path | None:
    """Return where programs for launchers are that find theirs in PATH.

    None where files of the private directory cannot be executed.
    """
    return state.file("bin") if _can_execute_in(state.path) else None


def put_ssh_in_front(
    directory: Path, config_path: str, client: Backend, *, checks_host_keys: bool
) -> None:
    """Write an `ssh` that dials by a configuration whatever its caller says.

    For launchers that find their ssh in PATH and switch the host-key check off themselves. It runs
    the LocalCommand of the configuration whatever shell the account has, as mpirun's ssh does.

    Source: OpenSSH 9.2, ssh_local_cmd in sshconnect.c: run by $SHELL, by /bin/sh where it is unset.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    config = shlex.quote(config_path)
    if client is Backend.OPENSSH:
        strict = "yes" if checks_host_keys else "no"
        others = os.pathsep.join(p for p in os.get_exec_path() if p != str(directory))
        ssh = shlex.quote(shutil.which("ssh", path=others) or "ssh")
        call = f"{ssh} -F {config} -o StrictHostKeyChecking={strict}"
    else:
        call = f"{_BUILTIN} -F {config}"
    StateDirectory(directory).write(
        "ssh", f'#!/bin/sh\nunset SHELL\nexec {call} "$@"\n', mode=0o700
    )


def put_mpirun_in_front(directory: Path, mpirun: str) -> None:
    """Let scripts that find `mpirun` in PATH find the one that was chosen, in a directory of ours.

    Nothing is put there where PATH leads to it anyway: Open MPI 4 behaves otherwise when it is
    called by its path.
    """
    for name in ("mpirun", "mpiexec"):
        others = os.pathsep.join(p for p in os.get_exec_path() if p != str(directory))
        found = shutil.which(name, path=others)
        if found is not None and real_program(Path(found)).resolve() == Path(mpirun).resolve():
            (directory / name).unlink(missing_ok=True)
            continue
        call = f'#!/bin/sh\nexec {shlex.quote(mpirun)} "$@"\n'
        StateDirectory(directory).write(name, call, mode=0o700)


def _can_execute_in(directory: Path) -> bool:
    return not os.statvfs(directory).f_flag & os.ST_NOEXEC
