"""The worker's own copies of keys, its host key, and the certificate that vouches for it.

The operator's mount is read-only, owned by root and of mode 1777, which sshd refuses; so whatever
is needed is copied into the agent's own directory. The host key is made afresh and signed with the
job's private key, so that launcher and workers can insist on it without knowing it beforehand.
What needs cryptography is done by the notary, a child process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.container import Account, own_addresses, own_names
from mpi_agent.errors import ClientKeyError, HostKeyError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.ssh.keys import (
    JobKey,
    KeyCopy,
    copy_private_key,
    find_private_key,
    key_directories,
    mount_hint,
    read_key_file,
    where_it_was_looked_for,
)
from mpi_agent.ssh.trust import principals_of
from mpi_agent.state import StateDirectory
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_words import IdentityQuestion

__all__ = ["CERTIFICATE_LIFETIME_S", "Credentials", "own_principals", "prepare_credentials"]

CERTIFICATE_LIFETIME_S = 30 * 86400.0
"""Of a host certificate, which is signed anew at half of it."""

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


async def prepare_credentials(
    wanted_key: str | None,
    worker_name: str,
    account: Account,
    state: StateDirectory,
    *,
    notary: Notary,
    emit: EventSink,
    lifetime_s: float = CERTIFICATE_LIFETIME_S,
) -> Credentials:
    """Return the worker's credentials, made in the state directory, each of mode 0600.

    Args:
        lifetime_s: of the host certificate.

    Raises:
        HostKeyError: there is no key of the job at all, or one that this uid may not read.
        StateDirectoryError: the files cannot be written.
    """
    directories = (Path(wanted_key).parent,) if wanted_key else key_directories(account)
    copy = _copy_if_any(wanted_key, directories, account, state)
    mounted = _mounted_public_keys(directories)
    if copy is None and not mounted:
        raise _no_key(directories, account)
    public = await notary.make_identity(
        IdentityQuestion(
            directory=str(state.path),
            job_key=str(copy.path) if copy else None,
            origin=str(copy.origin) if copy else "",
            principals=own_principals(worker_name),
            lifetime_s=lifetime_s,
        )
    )
    if copy is None:
        await notary.end()
        emit(Noted(text=_NO_CERTIFICATE))
    return Credentials(
        job_key=JobKey(path=copy.path, public=public, origin=copy.origin) if copy else None,
        host_key=state.file("host_key"),
        host_certificate=state.file("host_key-cert.pub") if copy else None,
        authorized_keys=state.write("authorized_keys", _authorized_keys(mounted, public)),
    )


_NO_CERTIFICATE = (
    "the job's private key is not mounted here: the host key has no certificate, a launcher that"
    " checks host keys will refuse it, and no login is tried before the worker says it is ready"
)


def own_principals(worker_name: str) -> tuple[str, ...]:
    """Return what the host certificate is valid for: our names and addresses as they are now."""
    names = dict.fromkeys((worker_name, *own_names()))
    return principals_of(tuple(names), own_addresses())


def _copy_if_any(
    wanted: str | None, directories: tuple[Path, ...], account: Account, state: StateDirectory
) -> KeyCopy | None:
    """Return our copy of the job's private key, None when only its public half is here."""
    if wanted is None and find_private_key(directories) is None:
        return None
    try:
        return copy_private_key(wanted, account, state)
    except ClientKeyError as error:
        raise HostKeyError(error.summary, hint=error.hint, evidence=error.evidence) from error


def _authorized_keys(mounted: bytes, job_public: str) -> bytes:
    """Return the keys that may log in: the mount's, and in any case the job's own."""
    own = job_public.encode()
    lines = (mounted, own if own not in mounted else b"")
    return b"".join(line.rstrip(b"\n") + b"\n" for line in lines if line.strip())


def _mounted_public_keys(directories: Iterable[Path]) -> bytes:
    """Return the first authorized_keys, else the first public key, that we may read."""
    for directory in directories:
        for name in ("authorized_keys", *_PUBLIC_NAMES):
            try:
                content = read_key_file(directory / name)
            except OSError:
                continue
            if content.strip():
                return content
    return b""


def _no_key(directories: tuple[Path, ...], account: Account) -> HostKeyError:
    places = where_it_was_looked_for(directories, account)
    return HostKeyError(
        f"cannot let anybody in: no key of the job that this uid can read {places}",
        hint=mount_hint(account)
        or "mount the job's ssh Secret into this container (with mpi-operator: "
        "sshAuthMountPath), or name its private key with --ssh-key",
    )
