"""Is the job's key let in, on the terms on which mpirun's ssh will dial."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import asyncssh

from mpi_agent.job.readiness import Obstacle
from mpi_agent.ssh.trust import SshTerms, host_key_alias

__all__ = ["LoginAnswer", "LoginProbe"]

LOGIN_LIMIT_S = 15.0
_CHEAP_KEY_EXCHANGES = ["curve25519-sha256", "ecdh-sha2-nistp256"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAnswer:
    """Whether a login worked; obstacle and detail are set exactly when it did not."""

    obstacle: Obstacle | None = None
    detail: str = ""


class LoginProbe:
    """Logs in and out again, with the job's key, user and known hosts."""

    def __init__(self, terms: SshTerms) -> None:
        self._terms = terms
        self._key = asyncssh.read_private_key(terms.key_path)
        self._known_hosts = (
            asyncssh.read_known_hosts(terms.known_hosts_path) if terms.checks_host_keys else None
        )

    async def try_login(self, host: str, address: str, port: int) -> LoginAnswer:
        """Return whether the host lets the job's key in; never raises for "no"."""
        where = f"{address} port {port}"
        try:
            async with (
                asyncio.timeout(LOGIN_LIMIT_S),
                asyncssh.connect(
                    address,
                    port,
                    username=self._terms.user,
                    client_keys=[self._key],
                    known_hosts=self._known_hosts,
                    host_key_alias=host_key_alias(host),
                    preferred_auth="publickey",
                    kex_algs=_CHEAP_KEY_EXCHANGES,
                    agent_path=None,
                    config=None,
                ),
            ):
                return LoginAnswer()
        except asyncssh.HostKeyNotVerifiable:
            return LoginAnswer(
                obstacle=Obstacle.HOST_KEY_UNKNOWN,
                detail=f"{where} shows a host key that this job does not know",
            )
        except asyncssh.PermissionDenied:
            return LoginAnswer(
                obstacle=Obstacle.KEY_REFUSED,
                detail=f'{where} refuses the job\'s key for user "{self._terms.user}"',
            )
        except (asyncssh.Error, OSError, TimeoutError) as error:
            why = str(error) or f"no end within {LOGIN_LIMIT_S:g} s"
            return LoginAnswer(
                obstacle=Obstacle.LOGIN_BROKEN, detail=f"the login on {where} broke off: {why}"
            )
