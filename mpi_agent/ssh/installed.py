"""Which ssh client this image has, and what its own configuration says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.errors import SettingsError
from mpi_agent.settings import Backend
from mpi_agent.state import StateDirectory

__all__ = ["builtin_client_command", "choose_client", "configured_port"]

_DEFAULT_PORT = 22
_LIMIT_S = 10.0


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


def configured_port(host: str) -> int | None:
    """Return the port that the image's ssh configuration gives for a host, None for none.

    22 is what ssh says without any configuration, so it counts as none.

    Source: ssh(1), option -G prints the configuration after evaluating Host and Match blocks.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        return None
    try:
        child = subprocess.run(
            [ssh, "-G", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in child.stdout.decode(errors="replace").splitlines():
        key, _, value = line.partition(" ")
        if key == "port" and value.isdigit():
            return int(value) if int(value) != _DEFAULT_PORT else None
    return None


def builtin_client_command(state: StateDirectory) -> str:
    """Return the command that mpirun calls in place of ssh.

    mpirun splits it at blanks and knows no quotes, so a path with blanks is hidden in a script.
    """
    program = Path(sys.executable).with_name("mpi-agent")
    if program.exists() and " " not in str(program):
        return f"{program} ssh"
    quoted = str(sys.executable).replace("'", "'\\''")
    script = f"#!/bin/sh\nexec '{quoted}' -m mpi_agent ssh \"$@\"\n"
    return str(state.write("ssh_client", script, mode=0o700))
