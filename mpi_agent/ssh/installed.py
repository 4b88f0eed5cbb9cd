"""Which ssh client this image has, and what its own configuration says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.errors import SettingsError
from mpi_agent.settings import Backend
from mpi_agent.state import StateDirectory

__all__ = ["ImageConfiguration", "builtin_client_command", "choose_client", "image_configuration"]

_DEFAULT_PORT = 22
_LIMIT_S = 10.0


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
    """Return the command that mpirun calls in place of ssh.

    mpirun splits it at blanks and knows no quotes, so a path with blanks is hidden in a script.
    """
    program = Path(sys.executable).with_name("mpi-agent")
    if program.exists() and " " not in str(program):
        return f"{program} ssh"
    quoted = str(sys.executable).replace("'", "'\\''")
    script = f"#!/bin/sh\nexec '{quoted}' -m mpi_agent ssh \"$@\"\n"
    return str(state.write("ssh_client", script, mode=0o700))
