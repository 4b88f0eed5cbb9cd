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

    def stop_listening(self) -> None:
        """Take no new logins; sessions that are open go on."""

    def kill(self) -> None:
        """End a listener that `stop_listening` does not end; sessions that are open go on."""

    def reload_identity(self) -> None:
        """Show the host certificate that is in its file now to whoever dials from now on."""

    async def stop(self, grace_s: float) -> int:
        """Take no new logins, end what sessions started: TERM, then KILL after the grace period.

        Returns:
            how many processes had to be killed.
        """
