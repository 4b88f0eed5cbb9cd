"""The worker's own copies of keys, its host key, and the certificate that vouches for it.

The operator's mount is read-only, owned by root and of mode 1777, which sshd refuses; so whatever
is needed is copied into the agent's own directory. The host key is made afresh and signed with the
job's private key, so that launcher and workers can insist on it without knowing it beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_agent.container import Account, own_addresses, own_names
from mpi_agent.errors import ClientKeyError, HostKeyError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.ssh.keys import JobKey, copy_job_key, find_private_key, key_directories
from mpi_agent.ssh.trust import principals_of
from mpi_agent.state import StateDirectory

if TYPE_CHECKING:
    import asyncssh

__all__ = ["Credentials", "prepare_credentials"]

_VALID_BEFORE_NOW_S = 3600
_VALID_AFTER_NOW_S = 30 * 86400
_PUBLIC_NAMES = ("id_rsa.pub", "id_ecdsa.pub", "id_ed25519.pub", "ssh-publickey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files of ours that an ssh server needs.

    Attributes:
        job_key: our copy; None when only its public half is here.
        host_certificate: None when the job's private key is not here to sign one.
    """

    job_key: JobKey | None
    host_key: Path
    host_certificate: Path | None
    authorized_keys: Path


def prepare_credentials(
    wanted_key: str | None,
    worker_name: str,
    account: Account,
    state: StateDirectory,
    emit: EventSink,
) -> Credentials:
    """Return the worker's credentials, made in the state directory, each of mode 0600.

    Raises:
        HostKeyError: there is no key of the job at all, or one that this uid may not read.
    """
    directories = (Path(wanted_key).parent,) if wanted_key else key_directories(account)
    job_key = _job_key_if_any(wanted_key, directories, account, state)
    authorized = _read_authorized_keys(directories, job_key)
    if not authorized:
        raise _no_key(directories)
    host_key, certificate = _make_host_key(job_key, _principals(worker_name))
    if certificate is None:
        emit(
            Noted(
                text="the job's private key is not mounted here: the host key has no certificate,"
                " and a launcher that checks host keys will refuse it"
            )
        )
    return Credentials(
        job_key=job_key,
        host_key=state.write("host_key", host_key),
        host_certificate=state.write("host_key-cert.pub", certificate) if certificate else None,
        authorized_keys=state.write("authorized_keys", authorized),
    )


def _job_key_if_any(
    wanted: str | None, directories: tuple[Path, ...], account: Account, state: StateDirectory
) -> JobKey | None:
    """Return our copy of the job's key pair, None when only its public half is here."""
    if wanted is None and find_private_key(directories) is None:
        return None
    try:
        return copy_job_key(wanted, account, state)
    except ClientKeyError as error:
        raise HostKeyError(error.summary, hint=error.hint, evidence=error.evidence) from error


def _read_authorized_keys(directories: Iterable[Path], job_key: JobKey | None) -> bytes:
    """Return the keys that may log in: the mount's, and in any case the job's own."""
    own = job_key.public.encode() if job_key else b""
    mounted = _mounted_public_keys(directories)
    lines = (mounted, own if own not in mounted else b"")
    return b"".join(line.rstrip(b"\n") + b"\n" for line in lines if line.strip())


def _mounted_public_keys(directories: Iterable[Path]) -> bytes:
    """Return the first authorized_keys, else the first public key, that we may read."""
    for directory in directories:
        for name in ("authorized_keys", *_PUBLIC_NAMES):
            try:
                content = (directory / name).read_bytes()
            except OSError:
                continue
            if content.strip():
                return content
    return b""


def _no_key(directories: tuple[Path, ...]) -> HostKeyError:
    places = ", ".join(str(directory) for directory in directories)
    return HostKeyError(
        f"cannot let anybody in: no key of the job that this uid can read in {places}",
        hint="mount the job's ssh Secret into this container (with mpi-operator: "
        "sshAuthMountPath), or name its private key with --ssh-key",
    )


def _principals(worker_name: str) -> tuple[str, ...]:
    names = dict.fromkeys((worker_name, *own_names()))
    return principals_of(tuple(names), own_addresses())


def _make_host_key(
    job_key: JobKey | None, principals: tuple[str, ...]
) -> tuple[bytes, bytes | None]:
    """Return a fresh private host key and its certificate.

    An ed25519 key, because every OpenSSH that can be met offers it first.
    """
    import asyncssh

    host_key = asyncssh.generate_private_key("ssh-ed25519", comment="mpi-agent host key")
    private = host_key.export_private_key()
    if job_key is None:
        return private, None
    authority = asyncssh.read_private_key(job_key.path)
    now_s = int(time.time())
    certificate = authority.generate_host_certificate(
        host_key.convert_to_public(),
        key_id=principals[0],
        principals=principals,
        valid_after=now_s - _VALID_BEFORE_NOW_S,
        valid_before=now_s + _VALID_AFTER_NOW_S,
        sig_alg=_signature_algorithm(authority),
    )
    return private, certificate.export_certificate()


def _signature_algorithm(authority: asyncssh.SSHKey) -> str | tuple[()]:
    """Return how to sign; plain ssh-rsa means SHA-1, which OpenSSH refuses since 8.2."""
    return "rsa-sha2-512" if authority.get_algorithm() == "ssh-rsa" else ()
