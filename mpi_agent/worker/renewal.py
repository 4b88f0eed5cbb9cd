"""The host certificate is signed anew at half of its life, as long as the worker lives.

The host key stays, so whoever is logged in notices nothing. It is signed by the key with which the
worker was started: that is the one its launcher was started with too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mpi_agent.errors import MpiAgentError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.ssh.keys import JobKey
from mpi_agent.state import StateDirectory
from mpi_agent.worker.credentials import CERTIFICATE_LIFETIME_S, own_principals
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_words import CertificateQuestion

__all__ = ["renew_certificate"]

_TRIES_IN_THE_OTHER_HALF = 10


async def renew_certificate(
    job_key: JobKey,
    worker_name: str,
    state: StateDirectory,
    *,
    notary: Notary,
    reload: Callable[[], None],
    emit: EventSink,
    lifetime_s: float = CERTIFICATE_LIFETIME_S,
) -> None:
    """Renew for ever; what fails is told once and tried again well before the certificate ends.

    Args:
        reload: has the ssh server show the certificate that is in its file now.
        lifetime_s: of the certificate that is there, and of each that follows.
    """
    half_s, has_told = lifetime_s / 2, False
    told: set[str] = set()
    pause_s = half_s
    while True:
        await asyncio.sleep(pause_s)
        try:
            await _sign(job_key, worker_name, state, notary, lifetime_s)
            reload()
        except Exception as error:  # whatever is wrong: without another try nobody gets in one day
            pause_s = half_s / _TRIES_IN_THE_OTHER_HALF
            text = _trouble(error, good_for_s=half_s, every_s=pause_s)
            if text not in told:
                told.add(text)
                emit(Noted(text=text))
            continue
        pause_s = half_s
        told.clear()
        emit(Noted(text=f"the host certificate was signed anew, for {lifetime_s:.0f} s"))
        if not has_told and _is_another_now(job_key):
            has_told = True
            emit(
                Noted(
                    text=f'"{job_key.origin}" holds another key than at the start of this worker,'
                    " which goes on with the former"
                )
            )


async def _sign(
    job_key: JobKey, worker_name: str, state: StateDirectory, notary: Notary, lifetime_s: float
) -> None:
    try:
        await notary.ask(
            CertificateQuestion(
                directory=str(state.path),
                job_key=str(job_key.path),
                origin=str(job_key.origin),
                principals=own_principals(worker_name),
                lifetime_s=lifetime_s,
            )
        )
    finally:
        await notary.end()


def _trouble(error: Exception, *, good_for_s: float, every_s: float) -> str:
    ours = error.summary if isinstance(error, MpiAgentError) else None
    why = ours or f"{type(error).__name__}: {error}"
    return (
        f"the host certificate could not be renewed and is good for another {good_for_s:.0f} s"
        f" at most, tried again every {every_s:.0f} s: {why}"
    )


def _is_another_now(job_key: JobKey) -> bool:
    """Return whether the mount holds another key than our copy of it."""
    try:
        mounted, ours = job_key.origin.read_bytes(), job_key.path.read_bytes()
    except OSError:
        return False
    return mounted.strip() != ours.strip()
