"""The worker's login to itself: before it says that it is ready, it was let in once as others are.

It goes by address, never by name: a pod's name resolves only once the pod is ready, unless the
Service publishes it before, and with `launcherCreationPolicy: WaitForWorkersReady` nobody would
ever be ready.

Source: Kubernetes API v1.34, ServiceSpec, publishNotReadyAddresses.
"""

from __future__ import annotations

from mpi_agent.container import own_address_towards, own_addresses
from mpi_agent.ssh.keys import JobKey
from mpi_agent.ssh.trust import host_key_alias
from mpi_agent.worker.notary import Notary
from mpi_agent.worker.notary_words import LoginQuestion
from mpi_agent.worker.sshd_config import SshdPlan

__all__ = ["OwnLogin", "own_login_address"]

_LIMIT_S = 15.0
_ANYWHERE = ("", "0.0.0.0", "::", "[::]")
_FAR_AWAY = ("198.51.100.1", "2001:db8::1")
"""Addresses for documentation (RFC 5737, RFC 3849): the default route leads to them."""


class OwnLogin:
    """Tries the login; the notary, who has done its work with the first success, is ended then."""

    def __init__(self, notary: Notary, plan: SshdPlan, job_key: JobKey) -> None:
        self._notary = notary
        self._plan = plan
        self._job_key = job_key

    async def __call__(self) -> str | None:
        """Return why the login fails, None when it does not."""
        plan, address = self._plan, own_login_address(self._plan.listen_address)
        refusal = await self._notary.try_login(
            LoginQuestion(
                address=address,
                port=plan.port,
                user=plan.account,
                job_key=str(self._job_key.path),
                job_public=self._job_key.public,
                alias=host_key_alias(plan.worker_name),
                limit_s=_LIMIT_S,
            )
        )
        if refusal is None:
            await self._notary.end()
            return None
        return f"a login on {address} port {plan.port} fails: {refusal}"


def own_login_address(listen_address: str | None) -> str:
    """Return by which address the worker logs in to itself: as others do, if it can be found.

    That is where it listens, else the pod's address on the way out, else another of its own.
    """
    if listen_address is not None and listen_address not in _ANYWHERE:
        return listen_address
    for address in _FAR_AWAY:
        if found := own_address_towards(address):
            return found[0]
    return next(iter(own_addresses()), "127.0.0.1")
