"""What a worker wants of an ssh server; OpenSSH's and the built-in one both give it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["SshServer"]


class SshServer(Protocol):
    """An ssh server that listens from `start` to `stop`."""

    async def start(self) -> None:
        """Start listening.

        Raises:
            SshdConfigError: the configuration is refused.
            SshdEndedError: the port cannot be listened on.
        """

    async def wait(self) -> str:
        """Return, once the server has ended by itself, why."""

    async def stop(self, grace_s: float) -> int:
        """Take no new logins, end what sessions started: TERM, then KILL after the grace period.

        Returns:
            how many processes had to be killed.
        """
