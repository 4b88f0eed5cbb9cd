"""The built-in ssh server, for images without sshd and for accounts that sshd refuses.

Public key only, one account, commands only; no terminal, no file transfer, nothing forwarded. Of a
client's variables it takes the run's id alone, as our sshd does.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
from collections.abc import Callable, Iterator, Sequence

import asyncssh

from mpi_agent.children import Children
from mpi_agent.errors import SshdConfigError, SshdEndedError
from mpi_agent.job.events import EventSink
from mpi_agent.worker.session import Session, SessionRunner
from mpi_agent.worker.sshd_config import SshdPlan, announcement_of
from mpi_agent.worker.visitor import Hall, Visitor

__all__ = ["BuiltinServer"]

_LOGIN_LIMIT_S = 30.0
_KEEPALIVE_S = 15
_KEEPALIVES_MISSED = 4
_BACKLOG = 1024
_WAITING_ROOM = 1024
_LAST_WORDS_S = 2.0


class BuiltinServer:
    """An asyncssh listener in this process.

    Args:
        login_limit_s: after which a client that has not logged in is sent away.
    """

    def __init__(
        self,
        plan: SshdPlan,
        children: Children,
        *,
        emit: EventSink,
        login_limit_s: float = _LOGIN_LIMIT_S,
    ) -> None:
        self._plan = plan
        self._children = children
        self._emit = emit
        self._login_limit_s = login_limit_s
        self._runner = SessionRunner(plan, children)
        self._sessions: set[asyncio.Task[None]] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        """Start listening.

        Raises:
            SshdConfigError: a key file cannot be read or understood.
            SshdEndedError: the port cannot be listened on.
        """
        with _reading(self._plan.authorized_keys, hint="check it in the job's ssh Secret"):
            keys = asyncssh.read_authorized_keys(self._plan.authorized_keys)
        with _reading(self._plan.host_key, hint="it is made afresh when the worker starts"):
            identity = asyncssh.load_keypairs([self._identity])
        hall = Hall(min(_WAITING_ROOM, _most_open_files() // 2), self._login_limit_s)
        try:
            self._acceptor = await self._listen(keys, identity, hall)
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

    def stop_listening(self) -> None:
        """Close the listener; sessions are tasks of their own."""
        if self._acceptor is not None:
            self._acceptor.close()

    def kill(self) -> None:
        """Close the listener; it is part of this process and cannot hang alone."""
        self.stop_listening()

    def reload_identity(self) -> None:
        """Use the host key's files as they are now."""
        if self._acceptor is not None:
            self._acceptor.update(server_host_keys=[self._identity])

    @property
    def _identity(self) -> str | tuple[str, str]:
        plan = self._plan
        return (plan.host_key, plan.host_certificate) if plan.host_certificate else plan.host_key

    async def stop(self, grace_s: float) -> int:
        """Stop listening, end all sessions; return how many processes had to be killed."""
        if self._acceptor is not None:
            self._acceptor.close()
        killed = await self._children.sweep(grace_s)
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=_LAST_WORDS_S)
        return killed

    async def _listen(
        self,
        keys: asyncssh.SSHAuthorizedKeys,
        identity: Sequence[asyncssh.SSHKeyPair],
        hall: Hall,
    ) -> asyncssh.SSHAcceptor:
        """Listen; a terminal is "allowed", so that a session is asked, which refuses it."""
        plan = self._plan
        return await asyncssh.listen(
            plan.listen_address or "",
            plan.port,
            backlog=_BACKLOG,
            server_factory=lambda: Visitor(
                plan.account, keys, hall, self._emit, self._make_session
            ),
            encoding=None,
            line_editor=False,
            server_host_keys=identity,
            server_version=f"asyncssh_{asyncssh.__version__} {announcement_of(plan.worker_name)}",
            config=None,
            public_key_auth=True,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            allow_pty=True,
            allow_scp=False,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            compression_algs=None,
            login_timeout=self._login_limit_s,
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=_KEEPALIVES_MISSED,
        )

    def _make_session(self, refuse: Callable[[str], None]) -> Session:
        return Session(self._serve, refuse)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run one session as a task of ours: asyncssh's own ends when the connection does."""
        assert isinstance(process, Session)
        session = asyncio.create_task(self._runner.run(process))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)


@contextlib.contextmanager
def _reading(path: str, *, hint: str) -> Iterator[None]:
    """Tell what is wrong with a file of keys that the block reads.

    Raises:
        SshdConfigError: it cannot be read or understood.
    """
    try:
        yield
    except OSError as error:
        raise SshdConfigError(f'cannot read "{path}": {error.strerror}', hint=hint) from error
    except (ValueError, asyncssh.KeyImportError) as error:
        raise SshdConfigError(f'cannot use "{path}": {error}', hint=hint) from error


def _most_open_files() -> int:
    """Return how many files this process may have open; a connection has one, a session four."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
