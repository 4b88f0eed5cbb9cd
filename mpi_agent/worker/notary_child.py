"""The notary's own process: makes and certifies the host key, and tries one login.

It is run as `python -m mpi_agent.worker.notary_child`, takes questions on its input and ends with
it. What it imports, some 20 MB, goes with it. The keys need less than the login does, so they are
made while the login's part is still being loaded: the worker starts its ssh server meanwhile.

Source: CPython 3.11, cryptography 50.0 and asyncssh 2.24, 2026-11-30: loaded in 45 ms and 200 ms.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_agent.errors import ClientKeyError, MpiAgentError
from mpi_agent.limits import forbid_core_dumps
from mpi_agent.ssh.keys import load_private_key, private_text, public_half
from mpi_agent.state import StateDirectory
from mpi_agent.worker.notary_words import (
    Answer,
    CertificateQuestion,
    IdentityQuestion,
    LoginQuestion,
    Question,
    parse_question,
    render_answer,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import SSHCertPrivateKeyTypes

__all__ = ["answer_question", "main"]

_VALID_BEFORE_NOW_S = 3600
_SWITCH_INTERVAL_S = 0.0005
"""How long an answer waits for the thread that loads; CPython waits ten times as long, 5 ms."""

_NO_SESSION = "a command ended with code {code}: check the account's shell and its start-up files"


def main() -> None:
    """Answer questions until there are no more."""
    forbid_core_dumps()
    _load_for_keys()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    loading = threading.Thread(target=_load_for_login, daemon=True)
    loading.start()
    for line in sys.stdin.buffer:
        number, question = parse_question(line)
        if isinstance(question, LoginQuestion):
            loading.join()
        sys.stdout.buffer.write(render_answer(answer_question(number, question)))
        sys.stdout.buffer.flush()
    os._exit(0)  # at once: nothing is left to be written, and the worker waits


def _load_for_keys() -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: F401
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: F401


def _load_for_login() -> None:
    """Load what a login needs, beside the first answers, and nothing that it does not need.

    Source: asyncssh 2.24, crypto/umac.py and crypto/pq.py look for libnettle and liboqs, CPython
    3.11 for both of them with ldconfig, gcc and ld: 30 ms.
    """
    import ctypes.util

    ctypes.util.find_library = lambda name: None  # noqa: ARG005
    import asyncssh  # noqa: F401


def answer_question(number: int, question: Question) -> Answer:
    """Return the answer to one question."""
    try:
        if isinstance(question, IdentityQuestion):
            return Answer(number=number, public=_make_identity(question))
        if isinstance(question, CertificateQuestion):
            _certify(question, _job_key(question.job_key, question.origin))
            return Answer(number=number)
        assert isinstance(question, LoginQuestion)
        return Answer(number=number, refusal=_refusal_of(question))
    except MpiAgentError as error:
        return Answer(
            number=number, error=type(error).__name__, summary=error.summary, hint=error.hint
        )


def _make_identity(question: IdentityQuestion) -> str:
    """Write a fresh host key and its certificate; return the public half of the job's key.

    An ed25519 key, because every OpenSSH that can be met offers it first. A certificate of an
    earlier start is removed: it would be for another key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    state = StateDirectory(Path(question.directory))
    authority = None
    if question.job_key is not None:
        authority = _job_key(question.job_key, question.origin)
    state.file("host_key-cert.pub").unlink(missing_ok=True)
    state.write("host_key", private_text(Ed25519PrivateKey.generate()))
    if authority is None:
        return ""
    _certify(question, authority)
    return public_half(authority)


def _job_key(path: str, origin: str) -> SSHCertPrivateKeyTypes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ClientKeyError(
            f'cannot read our copy of the job\'s private key "{path}": {error.strerror}',
            hint="nobody but the agent may touch its private directory; start the worker anew",
        ) from error
    return load_private_key(content, Path(origin))


def _certify(
    question: IdentityQuestion | CertificateQuestion, authority: SSHCertPrivateKeyTypes
) -> None:
    """Write a certificate for the host key that is there, signed by the job's key.

    An RSA key signs with SHA-512; OpenSSH refuses SHA-1 since 8.2.
    Source: cryptography 50.0, SSHCertificateBuilder.sign: `rsa-sha2-512`.
    """
    from cryptography.hazmat.primitives.serialization import (
        SSHCertificateBuilder,
        SSHCertificateType,
    )

    state = StateDirectory(Path(question.directory))
    host_key = state.file("host_key")
    own = load_private_key(host_key.read_bytes(), host_key)
    now_s = int(time.time())
    certificate = (
        SSHCertificateBuilder()
        .public_key(own.public_key())
        .type(SSHCertificateType.HOST)
        .key_id(question.principals[0].encode())
        .valid_principals([name.encode() for name in question.principals])
        .valid_after(now_s - _VALID_BEFORE_NOW_S)
        .valid_before(now_s + max(1, round(question.lifetime_s)))
        .sign(authority)
    )
    state.write("host_key-cert.pub", certificate.public_bytes() + b"\n")


def _refusal_of(question: LoginQuestion) -> str | None:
    """Return why a login with a command fails, None when it does not."""
    import asyncio

    return asyncio.run(_try_login(question))


async def _try_login(question: LoginQuestion) -> str | None:
    import asyncio

    import asyncssh

    try:
        async with asyncio.timeout(question.limit_s):
            code = await _log_in(question)
    except asyncssh.HostKeyNotVerifiable as error:
        return (
            f'the host key is not certified by the job\'s key for "{question.alias}":'
            f" {_reason(error)}"
        )
    except asyncssh.PermissionDenied:
        return f'the job\'s key is refused for user "{question.user}"'
    except TimeoutError:
        return f"no end within {question.limit_s:g} s"
    except (asyncssh.Error, OSError, ValueError) as error:
        return f"it broke off: {_reason(error)}"
    return None if code == 0 else _NO_SESSION.format(code=code)


async def _log_in(question: LoginQuestion) -> int | None:
    """Log in by address, run a command that does nothing, and return its exit code.

    The command goes by the account's shell, which `nologin` would not be. X.509 is switched off,
    because asyncssh 2.24 looks for it in HOME, which may be closed to this uid.
    """
    import asyncssh

    from mpi_agent.ssh.trust import BUILTIN_CIPHERS, BUILTIN_KEY_EXCHANGES

    async with asyncssh.connect(
        question.address,
        question.port,
        username=question.user,
        client_keys=[asyncssh.read_private_key(question.job_key)],
        known_hosts=asyncssh.import_known_hosts(f"@cert-authority * {question.job_public}\n"),
        host_key_alias=question.alias,
        preferred_auth="publickey",
        kex_algs=BUILTIN_KEY_EXCHANGES,
        encryption_algs=BUILTIN_CIPHERS,
        compression_algs=None,
        agent_path=None,
        config=None,
        x509_trusted_certs=None,
        x509_trusted_cert_paths=None,
    ) as connection:
        ended = await connection.run(
            "exit 0",
            stdin=asyncssh.DEVNULL,
            stdout=asyncssh.DEVNULL,
            stderr=asyncssh.DEVNULL,
            encoding=None,
        )
        return ended.exit_status


def _reason(error: Exception) -> str:
    """Return an error's reason on one line; asyncio's own words say little."""
    said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return " ".join((said or type(error).__name__).split())


if __name__ == "__main__":
    main()
