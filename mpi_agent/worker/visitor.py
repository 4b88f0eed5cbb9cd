"""Who comes to the built-in server's door: let in by key, or refused with a word.

A connection is told of once, as OpenSSH's are: who logged in, or who was not let in, and why. What
is refused to somebody who is in is told besides. A client that only reads the banner, as probes of
the port do, is nothing to tell. asyncssh has no hook for requests of X11 and of the agent, so they
are refused, as OpenSSH's sshd refuses them, without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import asyncssh

from mpi_agent.job.events import EventSink
from mpi_agent.job.worker_events import LoginAccepted, LoginRefused
from mpi_agent.worker.refusals import (
    ANOTHER_AUTHORITY,
    BROKEN_PROTOCOL,
    NO_COMMON,
    NO_KEY,
    TOO_LATE,
    TOO_MANY_ATTEMPTS,
    TOO_MANY_WAITING,
    another_key,
    forwarding,
    only_user,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Hall", "Visitor"]

_MOST_ATTEMPTS = 10


class Hall:
    """Where those wait who are not let in yet; it has room for so many.

    When it is full, the one goes that has waited longest without saying who it is; where all have
    said it, the last one that came. So clients that only hang there keep nobody out.

    Args:
        login_limit_s: after which a client is sent away.
    """

    def __init__(self, room: int, login_limit_s: float) -> None:
        self.login_limit_s = login_limit_s
        self._room = room
        self._waiting: dict[Visitor, None] = {}

    def enter(self, visitor: Visitor) -> None:
        """Take a visitor in; one must go when there is no room left."""
        self._waiting[visitor] = None
        if len(self._waiting) > self._room:
            silent = (one for one in self._waiting if not one.user)
            leaving = next(silent, visitor)
            self.leave(leaving)
            leaving.send_away(TOO_MANY_WAITING)

    def leave(self, visitor: Visitor) -> None:
        """Forget a visitor that is let in or gone."""
        self._waiting.pop(visitor, None)


class Visitor(asyncssh.SSHServer):
    """One connection, from its first byte to its end.

    Args:
        account: the one that may log in.
        make_session: makes the session of a command; it is given what tells of a refusal.
    """

    def __init__(
        self,
        account: str,
        keys: asyncssh.SSHAuthorizedKeys,
        hall: Hall,
        emit: EventSink,
        make_session: Callable[[Callable[[str], None]], asyncssh.SSHServerSession[bytes]],
    ) -> None:
        self.user = ""
        self._account = account
        self._keys = keys
        self._hall = hall
        self._emit = emit
        self._make_session = make_session
        self._connection: asyncssh.SSHServerConnection | None = None
        self._came_at_s = asyncio.get_running_loop().time()
        self._peer = ""
        self._why = ""
        self._attempts = 0
        self._fingerprint = ""
        self._is_in = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Begin to wait for a login."""
        self._connection = conn
        self._peer = str(conn.get_extra_info("peername", ("",))[0])
        self._hall.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell why nobody was let in, if somebody wanted to."""
        self._hall.leave(self)
        if self._is_in:
            return
        why = self._why or self._why_lost(exc)
        if why:
            self.refuse(why)

    def send_away(self, why: str) -> None:
        """Close the connection; why is told once it is closed."""
        self._why = why
        if self._connection is not None:
            self._connection.abort()

    def refuse(self, why: str) -> None:
        """Tell that something was refused."""
        self._emit(LoginRefused(user=self.user, peer=self._peer, why=why))

    def begin_auth(self, username: str) -> bool:
        """Show our keys to the one account; another has none that could match. Never without key.

        asyncssh asks again when a client changes its mind about who it is.
        """
        self.user = username
        is_ours = username == self._account
        self._why = "" if is_ours else only_user(self._account)
        keys = _ShownKeys(self._keys, self._note_key) if is_ours else asyncssh.SSHAuthorizedKeys()
        if self._connection is not None:
            self._connection.set_authorized_keys(keys)
        return True

    def auth_completed(self) -> None:
        """Tell who is in."""
        self._is_in = True
        self._hall.leave(self)
        self._emit(
            LoginAccepted(user=self.user, peer=self._peer, key_fingerprint=self._fingerprint)
        )

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Note a key that is none of ours; nothing else is asked here."""
        return self._doubt(another_key(key.get_fingerprint()))

    def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Note a certificate whose authority is none of ours."""
        return self._doubt(ANOTHER_AUTHORITY)

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        """Give a session, in which commands run."""
        return self._make_session(self.refuse)

    def connection_requested(
        self,
        dest_host: str,
        dest_port: int,
        orig_host: str,  # noqa: ARG002
        orig_port: int,  # noqa: ARG002
    ) -> bool:
        """Refuse to connect somewhere; `ssh -D` comes here too."""
        return self._forward_nothing(f"to {dest_host} port {dest_port}")

    def unix_connection_requested(self, dest_path: str) -> bool:
        """Refuse to connect to a socket."""
        return self._forward_nothing(f"to {dest_path}")

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        """Refuse to listen for the client."""
        return self._forward_nothing(f"from {listen_host or '*'} port {listen_port}")

    def unix_server_requested(self, listen_path: str) -> bool:
        """Refuse to listen on a socket for the client."""
        return self._forward_nothing(f"from {listen_path}")

    def tun_requested(self, unit: int | None) -> bool:  # noqa: ARG002
        """Refuse a tunnel of packets."""
        return self._forward_nothing("a tunnel")

    def tap_requested(self, unit: int | None) -> bool:  # noqa: ARG002
        """Refuse a tunnel of frames."""
        return self._forward_nothing("a tunnel")

    def _forward_nothing(self, what: str) -> bool:
        self.refuse(forwarding(what))
        return False

    def _note_key(self, key: asyncssh.SSHKey) -> None:
        """Remember the last key of ours that was shown: the one that opens, if one does."""
        self._fingerprint = key.get_fingerprint()

    def _doubt(self, why: str) -> bool:
        """Note why the client may not come in; the first reason counts. Too many end it."""
        self._why = self._why or why
        self._attempts += 1
        if self._attempts >= _MOST_ATTEMPTS and self._connection is not None:
            self._why = TOO_MANY_ATTEMPTS
            self._connection.disconnect(
                asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "too many authentication failures"
            )
        return False

    def _why_lost(self, exc: Exception | None) -> str:
        """Return what a connection ended of before anybody was let in; empty for a mere look."""
        if asyncio.get_running_loop().time() - self._came_at_s >= self._hall.login_limit_s:
            return TOO_LATE
        if isinstance(exc, asyncssh.KeyExchangeFailed):
            return f"{NO_COMMON}: {exc.reason}"
        if self.user:
            return NO_KEY
        is_over = exc is None or isinstance(exc, asyncssh.ConnectionLost)
        return "" if is_over or not self._has_spoken else f"{BROKEN_PROTOCOL}: {exc}"

    @property
    def _has_spoken(self) -> bool:
        """Whether the client spoke ssh at all; others are probes of the port."""
        assert self._connection is not None
        return self._connection.get_extra_info("client_version") is not None


class _ShownKeys(asyncssh.SSHAuthorizedKeys):
    """Our keys, as one client is asked for one of them."""

    def __init__(
        self, keys: asyncssh.SSHAuthorizedKeys, note: Callable[[asyncssh.SSHKey], None]
    ) -> None:
        super().__init__()
        self._keys = keys
        self._note = note

    def validate(
        self,
        key: asyncssh.SSHKey,
        client_host: str,
        client_addr: str,
        cert_principals: Sequence[str] | None = None,
        ca: bool = False,
    ) -> Mapping[str, object] | None:
        """Return the options of a key of ours, None for another."""
        options = self._keys.validate(key, client_host, client_addr, cert_principals, ca)
        if options is not None:
            self._note(key)
        return options
