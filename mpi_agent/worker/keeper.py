"""Keeps an ssh server up: starts it, says when it is ready, starts it again when it ends.

A server that is started says nothing, so it is asked: a banner with the worker's own name must
come back, and before the worker is ready for the first time, a login must succeed. What the server
leaves behind when it dies, sessions of running jobs above all, is not touched by its restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mpi_agent.errors import (
    MpiAgentError,
    SshdConfigError,
    SshdEndedError,
    StateDirectoryError,
)
from mpi_agent.job.events import EventSink
from mpi_agent.job.worker_events import SshServerEnded, WorkerReady
from mpi_agent.ssh.banner import NotSshError, find_banner
from mpi_agent.worker.readiness import Readiness, ReadyFile
from mpi_agent.worker.restarts import Life, RestartPolicy, decide_restart
from mpi_agent.worker.server import SshServer
from mpi_agent.worker.sshd_config import SshdPlan, announcement_of

__all__ = ["ServerKeeper"]

_PAUSE_S = 0.01
_BANNER_LIMIT_S = 2.0
_STRANGER_LIMIT_S = 1.0
_LAST_WORDS_S = 2.0
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 5.0
_PORT_HINT = (
    "something else listens on that port, as another pod of this node may with hostNetwork: choose"
    " another with --ssh-port on workers and launcher"
)
_HINT = "see the lines above; `mpi-agent worker --sshd builtin` needs no sshd"


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How one life of the server ended.

    Attributes:
        error: that kept it from starting; None when it was started.
    """

    why: str
    was_ready: bool
    error: MpiAgentError | None = None


class ServerKeeper:
    """One server after the other, on one plan.

    Args:
        make_server: makes the next one, which has not been started.
        event: what is told when the worker is ready.
        check_login: returns why a login fails, None when it does not; None where none can be
            tried.
    """

    def __init__(
        self,
        make_server: Callable[[], SshServer],
        plan: SshdPlan,
        readiness: Readiness,
        *,
        event: WorkerReady,
        check_login: Callable[[], Awaitable[str | None]] | None,
        emit: EventSink,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._make_server = make_server
        self._plan = plan
        self._readiness = readiness
        self._event = event
        self._check_login = check_login
        self._emit = emit
        self._policy = policy or RestartPolicy()
        self._server: SshServer | None = None
        self._was_let_in = check_login is None
        self._was_ever_ready = False
        self._stopping = asyncio.Event()

    @property
    def server(self) -> SshServer | None:
        """The server of the current life, or of the last one; None before the first."""
        return self._server

    async def keep(self) -> None:
        """Keep a server up; return once it was stopped on purpose.

        Raises:
            SshdEndedError: it is given up.
            SshdConfigError, StateDirectoryError: it could not be started.
        """
        clock, failures = asyncio.get_running_loop().time, 0
        while not self._stopping.is_set():
            started_at_s = clock()
            end = await self._live()
            if self._stopping.is_set():
                break
            life = Life(lived_s=clock() - started_at_s, was_ready=end.was_ready)
            decision = decide_restart(self._policy, life, failures=failures)
            failures = decision.failures
            self._readiness.withdraw(end.why)
            self._emit(SshServerEnded(why=end.why, restart_in_s=decision.pause_s))
            if decision.pause_s is None:
                raise self._giving_up(end, failures)
            await self._pause(decision.pause_s)

    def stop_listening(self) -> None:
        """Take no new logins for good; sessions that are open go on."""
        self._stopping.set()
        if self._server is not None:
            self._server.stop_listening()

    def reload_identity(self) -> None:
        """Have the server show the host certificate that is in its file now."""
        if self._server is not None:
            self._server.reload_identity()

    async def stop(self, grace_s: float) -> int:
        """Stop the server and end what sessions started; return how many had to be killed."""
        self._stopping.set()
        return 0 if self._server is None else await self._server.stop(grace_s)

    async def _live(self) -> _End:
        """Return how a server that was started ended, or why it could not be."""
        server = self._server = self._make_server()
        try:
            await server.start()
        except (SshdConfigError, SshdEndedError, StateDirectoryError) as error:
            if not self._may_heal(error):
                raise
            return _End(why=error.summary, was_ready=False, error=error)
        if self._stopping.is_set():
            server.stop_listening()
        ended = asyncio.create_task(server.wait())
        becoming = asyncio.create_task(self._become_ready())
        try:
            await asyncio.wait((ended, becoming), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done() and (why := becoming.result()):
                await _put_away(server, ended)
                return _End(why=why, was_ready=False)
            return _End(why=await ended, was_ready=becoming.done() and not becoming.result())
        finally:
            for task in (ended, becoming):
                task.cancel()
            await asyncio.gather(ended, becoming, return_exceptions=True)

    def _may_heal(self, error: MpiAgentError) -> bool:
        """Return whether a start that failed may succeed later.

        A port that is taken may become free. What a server refused at its first start it will
        refuse again; what it once took it may take again, when the disk has room.
        """
        if isinstance(error, SshdEndedError):
            cause = error.__cause__
            return not (isinstance(cause, OSError) and cause.errno == errno.EACCES)
        return self._was_ever_ready

    async def _become_ready(self) -> str | None:
        """Return None once the worker is ready, or why this server cannot make it so."""
        if why := await self._until_own_banner():
            return why
        retry_s = _FIRST_RETRY_S
        while why := await self._refusal():
            self._readiness.withdraw(why)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
        return None

    async def _refusal(self) -> str | None:
        """Return why the worker cannot be said to be ready; None once it was said."""
        if not self._was_let_in and self._check_login is not None:
            if why := await self._check_login():
                return why
            self._was_let_in = True
        try:
            self._readiness.announce(self._told, self._event)
        except StateDirectoryError as error:
            return error.summary
        self._was_ever_ready = True
        return None

    @property
    def _told(self) -> ReadyFile:
        plan = self._plan
        return ReadyFile(
            pid=os.getpid(),
            address=plan.dial_address,
            port=plan.port,
            announcement=announcement_of(plan.worker_name),
        )

    async def _until_own_banner(self) -> str | None:
        """Return None once our own server answered, or why that is not to be expected any more.

        A stranger on the port is given a moment: the server that was started may not have found
        out yet that it cannot have the port.
        """
        clock = asyncio.get_running_loop().time
        deadline_s, stranger_since_s = clock() + self._policy.answer_limit_s, 0.0
        told, why = self._told, ""
        while (now_s := clock()) < deadline_s:
            try:
                banner = await _read_banner(told.address, told.port)
            except (OSError, NotSshError) as error:
                why = f"no ssh banner on {told.address} port {told.port}: {error}"
                stranger_since_s = 0.0
            else:
                if banner.endswith(told.announcement):
                    return None
                why = f"another ssh server answers on {told.address} port {told.port}: {banner}"
                stranger_since_s = stranger_since_s or now_s
                if now_s - stranger_since_s > _STRANGER_LIMIT_S:
                    break
            await asyncio.sleep(_PAUSE_S)
        return why

    async def _pause(self, pause_s: float) -> None:
        """Sleep, unless the server is stopped on purpose."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()

    def _giving_up(self, end: _End, failures: int) -> MpiAgentError:
        if end.error is not None:
            return end.error
        about_the_port = "bind" in end.why.lower() or "another ssh server" in end.why
        return SshdEndedError(
            f"cannot serve ssh on port {self._plan.port}: {end.why}",
            hint=_PORT_HINT if about_the_port else _HINT,
            evidence=(f"{failures} starts in a row failed",),
        )


async def _put_away(server: SshServer, ended: asyncio.Task[str]) -> None:
    """End a server that does not answer, so that the next one finds its port free."""
    for end in (server.stop_listening, server.kill):
        end()
        await asyncio.wait((ended,), timeout=_LAST_WORDS_S)
        if ended.done():
            return


async def _read_banner(address: str, port: int) -> str:
    """Return what an ssh server says of itself.

    Raises:
        OSError: nothing listens, or nothing came in time.
        NotSshError: what came is not SSH.
    """
    async with asyncio.timeout(_BANNER_LIMIT_S):
        reader, writer = await asyncio.open_connection(address, port)
        received = b""
        try:
            while (banner := find_banner(received)) is None:
                piece = await reader.read(1024)
                if not piece:
                    raise ConnectionError("closed before a banner came")
                received += piece
            return banner
        finally:
            writer.close()
