"""The built-in ssh server, for images without sshd and for accounts that sshd refuses.

Public key only, one account, commands only; no terminal, no file transfer, nothing forwarded.
"""

from __future__ import annotations

import asyncio

import asyncssh

from mpi_agent.children import Children
from mpi_agent.container import Account
from mpi_agent.errors import SshdConfigError, SshdEndedError
from mpi_agent.worker.session import SessionRunner
from mpi_agent.worker.sshd_config import SshdPlan, announcement_of

__all__ = ["BuiltinServer"]

_LOGIN_LIMIT_S = 30
_KEEPALIVE_S = 15
_KEEPALIVES_MISSED = 4
_BACKLOG = 1024
_LAST_WORDS_S = 2.0


class BuiltinServer:
    """An asyncssh listener in this process."""

    def __init__(self, plan: SshdPlan, account: Account, children: Children) -> None:
        self._plan = plan
        self._children = children
        self._runner = SessionRunner(plan, account, children)
        self._sessions: set[asyncio.Task[None]] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        """Start listening.

        Raises:
            SshdConfigError: a key file cannot be understood.
            SshdEndedError: the port cannot be listened on.
        """
        try:
            keys = asyncssh.read_authorized_keys(self._plan.authorized_keys)
            self._acceptor = await self._listen(keys)
        except (ValueError, asyncssh.KeyImportError) as error:
            raise SshdConfigError(
                f'cannot use "{self._plan.authorized_keys}" or the host key: {error}',
                hint="check authorized_keys in the job's ssh Secret",
            ) from error
        except OSError as error:
            where = f"{self._plan.listen_address or '*'} port {self._plan.port}"
            raise SshdEndedError(
                f"cannot listen on {where}: {error.strerror}",
                hint="choose another port with --ssh-port on workers and launcher, or check "
                "--listen-address",
            ) from error

    async def wait(self) -> str:
        """Return once the listener is closed, which it is by `stop` alone."""
        assert self._acceptor is not None
        await self._acceptor.wait_closed()
        return "the built-in ssh server stopped listening"

    async def stop(self, grace_s: float) -> int:
        """Stop listening, end all sessions; return how many processes had to be killed."""
        if self._acceptor is not None:
            self._acceptor.close()
        killed = await self._children.sweep(grace_s)
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=_LAST_WORDS_S)
        return killed

    async def _listen(self, keys: asyncssh.SSHAuthorizedKeys) -> asyncssh.SSHAcceptor:
        plan = self._plan
        identity = (plan.host_key, plan.host_certificate) if plan.host_certificate else None
        return await asyncssh.listen(
            plan.listen_address or "",
            plan.port,
            backlog=_BACKLOG,
            server_factory=lambda: _OneAccount(plan.account, keys),
            process_factory=self._serve,
            encoding=None,
            server_host_keys=[identity or plan.host_key],
            server_version=f"asyncssh_{asyncssh.__version__} {announcement_of(plan.worker_name)}",
            config=None,
            allow_pty=False,
            allow_scp=False,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            compression_algs=None,
            login_timeout=_LOGIN_LIMIT_S,
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=_KEEPALIVES_MISSED,
        )

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run one session as a task of ours: asyncssh's own ends when the connection does."""
        session = asyncio.create_task(self._runner.run(process))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)


class _OneAccount(asyncssh.SSHServer):
    """Lets one account in, by key; every request to forward is refused by asyncssh's defaults."""

    def __init__(self, account: str, keys: asyncssh.SSHAuthorizedKeys) -> None:
        self._account = account
        self._keys = keys
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Remember the connection."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Offer our keys to the one account; another has none that could match."""
        if username == self._account and self._connection is not None:
            self._connection.set_authorized_keys(self._keys)
        return True
