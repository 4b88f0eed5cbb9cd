"""The job's keys: found in the mount, copied into our own directory, never changed in place.

A Secret's mount is read-only, owned by root and of any mode, while OpenSSH refuses a private key
that others may read and cannot use one that we may not read. So the agent works from a copy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.errors import ClientKeyError
from mpi_agent.state import StateDirectory

__all__ = ["JobKey", "copy_job_key", "find_private_key", "key_directories", "make_job_key"]

_KEY_NAMES = ("id_rsa", "id_ecdsa", "id_ed25519", "ssh-privatekey")
_OPERATOR_MOUNTS = (Path("/root/.ssh"), Path("/home/mpiuser/.ssh"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKey:
    """The job's key pair as the agent uses it.

    Attributes:
        path: our private copy, mode 0600.
        public: `TYPE BASE64`.
        origin: where the copy was taken from.
    """

    path: Path
    public: str
    origin: Path


def key_directories(account: Account) -> tuple[Path, ...]:
    """Return where a job's keys are looked for: our home first, then the operator's mounts.

    Source: mpi-operator v0.8.2, `sshAuthMountPath` defaults to /root/.ssh; its non-root examples
    use /home/mpiuser/.ssh.
    """
    home = os.environ.get("HOME")
    own = [d / ".ssh" for d in (account.home, Path(home) if home else None) if d is not None]
    return tuple(dict.fromkeys([*own, *_OPERATOR_MOUNTS]))


def find_private_key(directories: Iterable[Path]) -> Path | None:
    """Return the first private key that exists, whether we may read it or not."""
    for directory in directories:
        for name in _KEY_NAMES:
            try:
                (directory / name).stat()
            except OSError:
                continue
            return directory / name
    return None


def _key_behind_a_closed_door(directories: Iterable[Path]) -> Path | None:
    """Return where a key may lie in a directory that we may not enter, None without one."""
    for directory in directories:
        try:
            (directory / _KEY_NAMES[0]).stat()
        except PermissionError:
            return directory / _KEY_NAMES[0]
        except OSError:
            continue
    return None


def copy_job_key(wanted: str | None, account: Account, state: StateDirectory) -> JobKey:
    """Return the job's key, copied into our own directory with mode 0600.

    Raises:
        ClientKeyError: there is no key, we may not read it, or it is no usable private key.
    """
    directories = key_directories(account)
    origin = Path(wanted) if wanted else find_private_key(directories)
    if origin is None:
        origin = _key_behind_a_closed_door(directories)
    if origin is None:
        places = ", ".join(str(d) for d in directories)
        raise ClientKeyError(
            f"cannot find the job's private key: none of {', '.join(_KEY_NAMES)} in {places}",
            hint="the operator mounts it into the pod's first container only, at "
            "sshAuthMountPath; name another place with --ssh-key",
        )
    content = _read_key(origin, account)
    public = _public_half(content, origin)
    return JobKey(path=state.write("job_key", content), public=public, origin=origin)


def make_job_key(state: StateDirectory) -> JobKey:
    """Return a fresh ed25519 key pair, made for a job that has no operator to make one."""
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519", comment="mpi-agent job")
    path = state.write("job_key", key.export_private_key())
    return JobKey(path=path, public=key.export_public_key().decode().strip(), origin=path)


def _read_key(origin: Path, account: Account) -> bytes:
    try:
        content = origin.read_bytes()
    except PermissionError as error:
        raise _unreadable(origin, account) from error
    except OSError as error:
        raise ClientKeyError(
            f'cannot read the job\'s private key "{origin}": {error.strerror}',
            hint="check the Secret and its mount, or name another key with --ssh-key",
        ) from error
    return content if content.endswith(b"\n") else content + b"\n"


def _unreadable(origin: Path, account: Account) -> ClientKeyError:
    try:
        found = origin.stat()
        whose = f"belongs to uid {found.st_uid} gid {found.st_gid} with mode "
        whose += f"{stat.S_IMODE(found.st_mode):04o}"
    except OSError:
        whose = "lies in a directory that this uid may not enter"
    return ClientKeyError(
        f'cannot read the job\'s private key "{origin}" as uid {account.uid}: it {whose}',
        hint=f"set `securityContext: {{fsGroup: {account.gid}}}` in the pod template and "
        "`defaultMode: 0440` on the Secret's volume (with mpi-operator: sshAuthMountPath in the "
        "home of the user that runs)",
    )


def _public_half(content: bytes, origin: Path) -> str:
    import asyncssh

    try:
        key = asyncssh.import_private_key(content)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise ClientKeyError(
            f'cannot use the job\'s private key "{origin}": {error}',
            hint="the key must be a private key without a passphrase",
        ) from error
    return " ".join(key.export_public_key().decode().split()[:2])
