"""The job's keys: found in the mount, copied into our own directory, never changed in place.

A Secret's mount is read-only, owned by root and of any mode, while OpenSSH refuses a private key
that others may read and cannot use one that we may not read. So the agent works from a copy.

Source: mpi-operator v0.8.2 makes an ECDSA P-521 key as `EC PRIVATE KEY` (SEC1); `ssh-keygen -m PEM`
writes `RSA PRIVATE KEY` (PKCS#1), ssh-keygen of OpenSSH since 7.8 `OPENSSH PRIVATE KEY`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_agent.errors import ClientKeyError
from mpi_agent.state import StateDirectory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import SSHCertPrivateKeyTypes

    from mpi_agent.container import Account

__all__ = [
    "JobKey",
    "KeyCopy",
    "copy_job_key",
    "copy_private_key",
    "find_private_key",
    "key_directories",
    "load_private_key",
    "make_job_key",
    "mount_hint",
    "private_text",
    "public_half",
    "read_key_file",
    "where_it_was_looked_for",
]

_LONGEST_BYTES = 1 << 20
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCopy:
    """Our private copy of the job's private key, mode 0600, and where it was taken from."""

    path: Path
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


def where_it_was_looked_for(directories: Iterable[Path], account: Account) -> str:
    """Return in words where no key was found, and which directories we could not look into."""
    closed = [d for d in directories if _is_closed(d)]
    looked_in = ", ".join(str(d) for d in directories if d not in closed) or "any place"
    if not closed:
        return f"in {looked_in}"
    return f"in {looked_in}; uid {account.uid} may not enter {', '.join(map(str, closed))}"


def mount_hint(account: Account) -> str | None:
    """Return where to mount the job's keys, None where we may enter each place that is common."""
    if not any(_is_closed(d) for d in key_directories(account)):
        return None
    return _mount_elsewhere(account)


def _mount_elsewhere(account: Account) -> str:
    common = (_OPERATOR_MOUNTS[1], *key_directories(account))
    closed = ", ".join(str(d) for d in dict.fromkeys(common) if _is_closed(d))
    places = [d for d in common if not _is_closed(d)]
    setting = f"sshAuthMountPath: {places[0]}" if places else "sshAuthMountPath"
    return (
        f"mount the job's ssh Secret where uid {account.uid} may read it"
        f"{f', not in {closed}' if closed else ''} (with mpi-operator: `{setting}`)"
    )


def _is_closed(directory: Path) -> bool:
    """Return whether we may not even see what is in a directory, so that keys may lie there."""
    try:
        (directory / _KEY_NAMES[0]).stat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def read_key_file(path: Path) -> bytes:
    """Return a file with keys; a pipe that nobody writes to is not waited for.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return stream.read(_LONGEST_BYTES)


def copy_job_key(wanted: str | None, account: Account, state: StateDirectory) -> JobKey:
    """Return the job's key, copied into our own directory with mode 0600.

    Raises:
        ClientKeyError: there is no key, we may not read it, or it is no usable private key.
    """
    copy = copy_private_key(wanted, account, state)
    public = public_half(load_private_key(copy.path.read_bytes(), copy.origin))
    return JobKey(path=copy.path, public=public, origin=copy.origin)


def copy_private_key(wanted: str | None, account: Account, state: StateDirectory) -> KeyCopy:
    """Return our copy of the job's private key, which nobody has tried to understand yet.

    Raises:
        ClientKeyError: there is no key, or we may not read it.
    """
    directories = key_directories(account)
    origin = Path(wanted) if wanted else find_private_key(directories)
    if origin is None:
        places = where_it_was_looked_for(directories, account)
        raise ClientKeyError(
            f"cannot find the job's private key: none of {', '.join(_KEY_NAMES)} {places}",
            hint=mount_hint(account)
            or "the operator mounts it into the pod's first container only, at "
            "sshAuthMountPath; name another place with --ssh-key",
        )
    return KeyCopy(path=state.write("job_key", _read_key(origin, account)), origin=origin)


def make_job_key(state: StateDirectory) -> JobKey:
    """Return a fresh ed25519 key pair, made for a job that has no operator to make one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    path = state.write("job_key", private_text(key))
    return JobKey(path=path, public=public_half(key), origin=path)


def load_private_key(content: bytes, origin: Path) -> SSHCertPrivateKeyTypes:
    """Return the private key that a file holds, in any of the forms that ssh-keygen writes.

    Args:
        origin: where it was found, for the message.

    Raises:
        ClientKeyError: it is none, or none that can be used without a passphrase.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    in_openssh_form = b"BEGIN OPENSSH PRIVATE KEY" in content
    load = (
        serialization.load_ssh_private_key
        if in_openssh_form
        else serialization.load_pem_private_key
    )
    try:
        key = load(content, password=None)
    except TypeError as error:
        raise _unusable(origin, "it has a passphrase") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unusable(origin, "it is no private key in PEM or in OpenSSH's form") from error
    if not isinstance(
        key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    ):
        raise _unusable(origin, "ssh has no use for a key of its kind")
    return key


def public_half(key: SSHCertPrivateKeyTypes) -> str:
    """Return the public half as `TYPE BASE64`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def private_text(key: SSHCertPrivateKeyTypes) -> bytes:
    """Return the text of a private key in OpenSSH's form, without a passphrase."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _read_key(origin: Path, account: Account) -> bytes:
    try:
        content = read_key_file(origin)
    except PermissionError as error:
        raise _unreadable(origin, account) from error
    except OSError as error:
        raise ClientKeyError(
            f'cannot read the job\'s private key "{origin}": {error.strerror}',
            hint="check the Secret and its mount, or name another key with --ssh-key",
        ) from error
    return content if content.endswith(b"\n") else content + b"\n"


def _unreadable(origin: Path, account: Account) -> ClientKeyError:
    what = f'cannot read the job\'s private key "{origin}" as uid {account.uid}'
    try:
        found = origin.stat()
    except OSError:
        return ClientKeyError(
            f"{what}: it lies in a directory that this uid may not enter",
            hint=_mount_elsewhere(account),
        )
    mode = stat.S_IMODE(found.st_mode)
    return ClientKeyError(
        f"{what}: it belongs to uid {found.st_uid} gid {found.st_gid} with mode {mode:04o}",
        hint=f"set `securityContext: {{fsGroup: {account.gid}}}` in the pod template and "
        "`defaultMode: 0440` on the Secret's volume (with mpi-operator: sshAuthMountPath in the "
        "home of the user that runs)",
    )


def _unusable(origin: Path, why: str) -> ClientKeyError:
    return ClientKeyError(
        f'cannot use the job\'s private key "{origin}": {why}',
        hint="the key must be a private key without a passphrase",
    )
