"""The process that works with keys: what it makes, what it cannot, and what it does not leak."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from mpi_agent.errors import HostKeyError, StateDirectoryError
from mpi_agent.job.events import Event, Noted
from mpi_agent.ssh.keys import JobKey
from mpi_agent.state import StateDirectory
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_start import start_notary
from mpi_agent.worker.notary_words import CertificateQuestion, IdentityQuestion, LoginQuestion
from mpi_agent.worker.renewal import renew_certificate
from tests.fakes import EventRecorder
from tests.waiting import wait_until
from tests.workers import JobKeys, environment_for, free_address, make_job_keys, require_program

pytestmark = pytest.mark.integration

NAMES = ("pi-worker-0", "pi-worker-0.pi", "10.0.0.7")
LIFETIME_S = 30 * 86400.0
_T = TypeVar("_T")


def ask(work: Callable[[Notary], Coroutine[Any, Any, _T]]) -> _T:
    """Return what the work returns; the notary is ended in any case."""

    async def run() -> _T:
        notary = Notary(environment_for(None))
        try:
            return await work(notary)
        finally:
            await notary.end()

    return asyncio.run(run())


def identity_of(
    state: Path, keys: JobKeys | None, *, lifetime_s: float = LIFETIME_S
) -> IdentityQuestion:
    """Return the question for a host key in a state directory."""
    state.mkdir(exist_ok=True)
    key = str(keys.private_path) if keys else None
    return IdentityQuestion(
        directory=str(state),
        job_key=key,
        origin=key or "",
        principals=NAMES,
        lifetime_s=lifetime_s,
    )


def describe(certificate: Path) -> str:
    """Return what ssh-keygen says of a certificate."""
    told = subprocess.run(
        (require_program("ssh-keygen"), "-L", "-f", str(certificate)),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    )
    return told.stdout


@pytest.mark.parametrize("algorithm", ["ecdsa-sha2-nistp521", "ssh-rsa", "ssh-ed25519"])
def test_host_key_is_certified_by_the_job_key(root: Path, algorithm: str) -> None:
    """For all names, from an hour back and for 30 days, and RSA without SHA-1."""
    keys = make_job_keys(root / "mount", algorithm)

    public = ask(lambda notary: notary.make_identity(identity_of(root / "state", keys)))

    told = describe(root / "state" / "host_key-cert.pub")
    assert public == " ".join(keys.public.split()[:2])
    assert "ssh-ed25519-cert-v01@openssh.com host certificate" in told
    assert all(f"        {name}\n" in told for name in NAMES)
    assert ("rsa-sha2-512" in told) == (algorithm == "ssh-rsa")
    assert_valid(told, from_s=time.time() - 3600, to_s=time.time() + LIFETIME_S)


def assert_valid(told: str, *, from_s: float, to_s: float) -> None:
    """Assert between which times a certificate is valid, within a minute."""
    (line,) = (line for line in told.splitlines() if "Valid:" in line)
    _, _, first, _, last = line.split()
    for word, expected_s in ((first, from_s), (last, to_s)):
        told_s = time.mktime(time.strptime(word, "%Y-%m-%dT%H:%M:%S")) - time.timezone
        assert abs(told_s - expected_s) < 60, line


def test_without_the_private_key_there_is_a_host_key_and_no_certificate(root: Path) -> None:
    """One of an earlier start, for another host key, is taken away."""
    question = identity_of(root / "state", None)
    (root / "state" / "host_key-cert.pub").write_text("an old one")

    public = ask(lambda notary: notary.make_identity(question))

    assert public == ""
    assert sorted(path.name for path in (root / "state").iterdir()) == ["host_key"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-t", "ed25519", "-N", "a passphrase"), "it has a passphrase"),
        (("-t", "rsa", "-m", "PEM", "-N", "a passphrase"), "it has a passphrase"),
        (None, "it is no private key in PEM or in OpenSSH's form"),
    ],
    ids=["openssh", "pem", "garbage"],
)
def test_a_key_that_cannot_be_used_is_named_by_its_place_in_the_mount(
    root: Path, arguments: tuple[str, ...] | None, why: str
) -> None:
    """The error is the worker's own, whichever process met it."""
    path = root / "id_rsa"
    if arguments is None:
        path.write_text("-----BEGIN NOTHING-----\n")
    else:
        subprocess.run((require_program("ssh-keygen"), "-q", *arguments, "-f", path), check=True)
    question = identity_of(root / "state", JobKeys(directory=root, public=""))

    with pytest.raises(HostKeyError) as caught:
        ask(lambda notary: notary.make_identity(question))

    assert caught.value.summary == f'cannot use the job\'s private key "{path}": {why}'
    assert caught.value.hint == "the key must be a private key without a passphrase"


def test_a_directory_that_cannot_be_written_is_told(root: Path, keys: JobKeys) -> None:
    """In the words of every other file of ours."""
    question = identity_of(root / "state", keys)
    (root / "state").rmdir()

    with pytest.raises(StateDirectoryError, match=r"cannot write .*host_key"):
        ask(lambda notary: notary.make_identity(question))


def test_no_key_is_in_the_process_for_others_to_see(root: Path, keys: JobKeys) -> None:
    """Neither in its arguments nor in its environment; and it leaves no core."""
    process = start_notary(environment_for(None))
    secret = keys.private_path.read_text().splitlines()[1]

    async def look() -> tuple[list[str], dict[str, str], int]:
        notary = Notary({}, process)
        await notary.make_identity(identity_of(root / "state", keys))
        seen = psutil.Process(process.pid)
        owner = Path(f"/proc/{process.pid}/mem").stat().st_uid
        try:
            return seen.cmdline(), seen.environ(), owner
        finally:
            await notary.end()

    words, environ, owner = asyncio.run(look())

    assert secret not in " ".join((*words, *environ.values()))
    assert str(keys.private_path) not in " ".join(words)
    assert owner == 0  # of a process that the kernel dumps for nobody


def test_the_process_ends_with_the_worker_that_started_it() -> None:
    """Even if the worker was killed: its input ends then."""
    process = start_notary(environment_for(None))
    assert process.stdin is not None
    assert process.stdout is not None

    process.stdin.close()

    wait_until("it is gone", lambda: process.poll() is not None)
    process.stdout.close()


def test_a_notary_that_was_killed_is_told_and_replaced(root: Path, keys: JobKeys) -> None:
    """By the OOM killer, say."""
    process = start_notary(environment_for(None))
    process.kill()

    async def ask_twice() -> str:
        notary = Notary(environment_for(None), process)
        with pytest.raises(HostKeyError, match="it ended before it answered"):
            await notary.make_identity(identity_of(root / "state", keys))
        try:
            return await notary.make_identity(identity_of(root / "state", keys))
        finally:
            await notary.end()

    assert asyncio.run(ask_twice()) == " ".join(keys.public.split()[:2])


def test_a_notary_that_fails_at_a_login_says_that_it_was_a_login(keys: JobKeys) -> None:
    """The reason stands in the log for as long as the worker is not ready."""
    process = start_notary(environment_for(None))
    process.kill()

    refusal = asyncio.run(Notary(environment_for(None), process).try_login(a_login(keys)))

    assert refusal == (
        "cannot try a login on the worker's own port: the process that works with keys failed:"
        " it ended before it answered"
    )


def a_login(keys: JobKeys) -> LoginQuestion:
    """Return the question for a login where nobody listens."""
    address, port = free_address()
    return LoginQuestion(
        address=address,
        port=port,
        user="root",
        job_key=str(keys.private_path),
        job_public=keys.public,
        alias="pi-worker-0",
        limit_s=5.0,
    )


def test_a_login_where_nobody_listens_fails_with_the_reason(keys: JobKeys) -> None:
    """And is no error: it will be tried again."""
    refusal = ask(lambda notary: notary.try_login(a_login(keys)))

    assert refusal is not None
    assert "refused" in refusal.lower()


def test_a_certificate_that_is_signed_anew_is_for_the_same_host_key(
    root: Path, keys: JobKeys
) -> None:
    """Sessions and known hosts notice nothing."""

    async def sign_twice(notary: Notary) -> None:
        await notary.make_identity(identity_of(root / "state", keys, lifetime_s=60))
        (root / "first").write_bytes((root / "state" / "host_key-cert.pub").read_bytes())
        await notary.ask(
            CertificateQuestion(
                directory=str(root / "state"),
                job_key=str(keys.private_path),
                origin="",
                principals=NAMES,
                lifetime_s=LIFETIME_S,
            )
        )

    ask(sign_twice)

    first, second = describe(root / "first"), describe(root / "state" / "host_key-cert.pub")
    assert line_of("Public key:", first) == line_of("Public key:", second)
    assert_valid(second, from_s=time.time() - 3600, to_s=time.time() + LIFETIME_S)


def line_of(word: str, text: str) -> str:
    """Return the line that holds a word."""
    return next(line for line in text.splitlines() if word in line)


def test_certificates_are_renewed_at_half_of_their_life_without_a_process_that_stays(
    root: Path, keys: JobKeys
) -> None:
    """What fails is told and tried again; a key that changed in the mount is told once."""
    events, reloads = EventRecorder(), list[float]()
    state, ours = root / "state", root / "state" / "job_key"

    async def renew_thrice(notary: Notary) -> None:
        await notary.make_identity(identity_of(state, keys))
        ours.write_bytes(keys.private_path.read_bytes())
        keys.private_path.write_text("another one")
        renewing = asyncio.create_task(
            renew_certificate(
                JobKey(path=ours, public=keys.public, origin=keys.private_path),
                "pi-worker-0",
                StateDirectory(state),
                notary=notary,
                reload=lambda: reloads.append(time.monotonic()),
                emit=events,
                lifetime_s=0.4,
            )
        )
        await until(lambda: len(reloads) >= 2)
        ours.rename(root / "hidden")
        await until(lambda: "could not be renewed" in noted(events.events))
        (root / "hidden").rename(ours)
        await until(lambda: len(reloads) >= 3)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)

    ask(renew_thrice)

    assert noted(events.events).count("holds another key") == 1
    assert not living_notaries()


def living_notaries() -> list[int]:
    """Return the pids of our children that are notaries; one that has ended does not count."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "notary" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


def noted(events: list[Event]) -> str:
    """Return all notes."""
    return "\n".join(event.text for event in events if isinstance(event, Noted))


async def until(check: Callable[[], bool], *, limit_s: float = 30.0) -> None:
    """Return once a condition holds."""
    async with asyncio.timeout(limit_s):
        while not check():
            await asyncio.sleep(0.01)
