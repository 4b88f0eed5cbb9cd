"""Which ssh client this image has, how it is called, and what its own configuration says.

OpenSSH's client is called by its name. Where it cannot be (there is none, or this uid has no passwd
entry), launchers call a script of ours; see `client_command`. So does a launcher whose ssh would
share its stdout; see `apart_command`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.container import Account, own_python, real_program
from mpi_agent.errors import SettingsError
from mpi_agent.setting_words import Backend
from mpi_agent.ssh.nss_wrapper import find_nss_wrapper, nss_wrapper_variables, write_accounts
from mpi_agent.state import StateDirectory

__all__ = [
    "ImageConfiguration",
    "apart_command",
    "choose_client",
    "client_command",
    "client_program",
    "image_configuration",
    "programs_directory",
    "put_mpirun_in_front",
    "put_ssh_in_front",
    "ssh_variables",
    "write_client",
]

_DEFAULT_PORT = 22
_LIMIT_S = 10.0
_CLIENT_NAME = "ssh_client"
_STREAM_OF_ITS_OWN = """\
stream=/proc/$$/fd/{fd}
[ -p $stream ] && (: {fd}<>$stream) 2>/dev/null && exec {fd}<>$stream {fd}>>$stream
"""
"""Opens a pipe again, so that ssh changes a description of its own; OpenSSH makes stdout and stderr
non-blocking where they are no terminal, for everybody who has the same description. It is opened
for reading too, and not for long: a pipe whose reader is gone would let the shell wait for ever.
What cannot be opened again, as a socket or another user's pipe, stays as it is.

Source: OpenSSH 9.2, set_nonblock in ssh_session2_open, ssh.c; fcntl(2), F_SETFL; fifo(7). Open MPI
5.0.11 into a pipe that is read 3 s late: 0.06 MB of 41.6 MB came and its code was 0; by an ssh
apart all 41.6 MB; measured 2026-11-30.
"""


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
        SettingsError: OpenSSH is asked for and not installed, or refuses this uid.
    """
    installed = shutil.which("ssh") is not None
    takes_account = account.has_passwd_entry or find_nss_wrapper() is not None
    if wanted is Backend.OPENSSH and not installed:
        raise SettingsError(
            "cannot use OpenSSH's client: there is no ssh in PATH",
            hint="install openssh-client, or leave --ssh out and the built-in client dials",
        )
    if wanted is Backend.OPENSSH and not takes_account:
        raise SettingsError(
            f"cannot use OpenSSH's client: it refuses uid {account.uid}, which has no passwd entry",
            hint="install libnss-wrapper, or leave --ssh out and the built-in client dials",
        )
    if wanted is not Backend.AUTO:
        return wanted
    return Backend.OPENSSH if installed and takes_account else Backend.BUILTIN


def image_configuration(
    host: str, variables: tuple[tuple[str, str], ...] = ()
) -> ImageConfiguration:
    """Return what the image's ssh configuration says of a host; blocks for as long as ssh takes.

    Args:
        variables: for ssh's environment, from `ssh_variables`.


    22 is what ssh says without any configuration, so it counts as no port.

    Source: ssh(1) of OpenSSH 9.2, option -G prints the configuration after evaluating Host and
    Match blocks; key exchanges are in it with those of a system-wide policy.
    """
    values: dict[str, str] = {}
    for line in _say_configuration(host, variables).splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, value)
    port = values.get("port", "")
    return ImageConfiguration(
        port=int(port) if port.isdigit() and int(port) != _DEFAULT_PORT else None,
        key_exchanges=tuple(values.get("kexalgorithms", "").split(",")),
    )


def _say_configuration(host: str, variables: tuple[tuple[str, str], ...]) -> str:
    ssh = shutil.which("ssh")
    if ssh is None:
        return ""
    try:
        child = subprocess.run(
            [ssh, "-G", host],
            env={**os.environ, **dict(variables)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return child.stdout.decode(errors="replace")


def ssh_variables(account: Account, state: StateDirectory) -> tuple[tuple[str, str], ...]:
    """Return what OpenSSH's client must find in its environment, the files for it written."""
    library = None if account.has_passwd_entry else find_nss_wrapper()
    if library is None:
        return ()
    write_accounts(account, state)
    return nss_wrapper_variables(library, state, os.environ.get("LD_PRELOAD", ""))


def client_command(client: Backend, account: Account, state: StateDirectory) -> str | None:
    """Return the command that Open MPI calls in place of ssh; None for ssh itself.

    It is the same on launcher and workers, because daemons look for it on every host. mpirun splits
    it at blanks and knows no quotes.

    Source: Open MPI 4.1.4, 2026-11: its daemons crash or hang where the command is missing, even if
    they dial nobody.
    """
    if client is Backend.OPENSSH:
        return None if account.has_passwd_entry else apart_command(state)
    program = Path(sys.executable).with_name("mpi-agent")
    if program.exists() and " " not in str(program):
        return f"{program} ssh"
    return str(state.file(_CLIENT_NAME))


def apart_command(state: StateDirectory) -> str:
    """Return the command that calls a client which leaves its caller's streams as they are.

    It needs no file that can be executed, and is the same on launcher and workers.
    """
    return f"/bin/sh {state.file(_CLIENT_NAME)}"


def client_program(client: Backend, account: Account, state: StateDirectory) -> str | None:
    """Return the program that Hydra calls in place of ssh, one file; None for ssh itself."""
    if client is Backend.OPENSSH and account.has_passwd_entry:
        return None
    return str(state.file(_CLIENT_NAME))


def write_client(client: Backend, account: Account, state: StateDirectory) -> None:
    """Write the file that all three may name; workers have it too, each with a client of its own.

    Source: PRRTE 3.0.14 says `-x` to an agent that is called `ssh` alone; an `-X` behind it wins.
    """
    no_display = " -x" if client is Backend.OPENSSH else ""
    text = f'#!/bin/sh\n{_call_of(client, account, state, "ssh")}{no_display} "$@"\n'
    state.write(_CLIENT_NAME, os.fsencode(text), mode=0o700)


def _call_of(client: Backend, account: Account, state: StateDirectory, ssh: str) -> str:
    """Return lines of sh, the last without its arguments, that become a client."""
    if client is Backend.BUILTIN:
        return f"exec {shlex.join((*own_python(), '-m', 'mpi_agent', 'ssh'))}"
    variables = ssh_variables(account, state)
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in variables)
    streams = (_STREAM_OF_ITS_OWN.format(fd=fd) for fd in (1, 2))
    return f"{''.join(streams)}{''.join(exports)}exec {shlex.quote(ssh)}"


def programs_directory(state: StateDirectory) -> Path | None:
    """Return where programs for launchers are that find theirs in PATH.

    None where files of the private directory cannot be executed.
    """
    return state.file("bin") if _can_execute_in(state.path) else None


def put_ssh_in_front(
    config_path: str,
    client: Backend,
    account: Account,
    state: StateDirectory,
    *,
    checks_host_keys: bool,
) -> None:
    """Write an `ssh` that dials by a configuration whatever its caller says.

    For launchers that find their ssh in PATH and switch the host-key check off themselves. It runs
    the LocalCommand of the configuration whatever shell the account has, as mpirun's ssh does.
    Nothing is written where programs of ours could not be executed.

    Source: OpenSSH 9.2, ssh_local_cmd in sshconnect.c: run by $SHELL, by /bin/sh where it is unset.
    """
    directory = programs_directory(state)
    if directory is None:
        return
    directory.mkdir(mode=0o700, exist_ok=True)
    others = os.pathsep.join(p for p in os.get_exec_path() if p != str(directory))
    call = _call_of(client, account, state, shutil.which("ssh", path=others) or "ssh")
    options = f"-F {shlex.quote(config_path)}"
    if client is Backend.OPENSSH:
        options += f" -o StrictHostKeyChecking={'yes' if checks_host_keys else 'no'}"
    text = f'#!/bin/sh\nunset SHELL\n{call} {options} "$@"\n'
    StateDirectory(directory).write("ssh", os.fsencode(text), mode=0o700)


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
