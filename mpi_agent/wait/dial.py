"""Where a host is dialled: at the address and port that are known, or at what the name says."""

from __future__ import annotations

from collections.abc import Callable

from mpi_agent.ssh.trust import SshTarget
from mpi_agent.wait.dns import Lookup, NameResolver

__all__ = ["pinned_or_resolved", "ports_by_host"]


class _PinnedNames:
    """Answers from a list, and asks the resolver only for names that are not on it."""

    def __init__(self, targets: tuple[SshTarget, ...]) -> None:
        self._addresses = {t.name: t.address for t in targets if t.address is not None}
        self._resolver: NameResolver | None = None

    async def look_up(self, name: str) -> Lookup:
        """Return the known address, or what the name servers say."""
        if name in self._addresses:
            return Lookup(addresses=(self._addresses[name],))
        if self._resolver is None:
            self._resolver = NameResolver()
        return await self._resolver.look_up(name)


def pinned_or_resolved(targets: tuple[SshTarget, ...]) -> _PinnedNames:
    """Return what finds a host's addresses."""
    return _PinnedNames(targets)


def ports_by_host(
    targets: tuple[SshTarget, ...], otherwise: tuple[int, ...]
) -> Callable[[str], tuple[int, ...]]:
    """Return what tells the ports to try on a host."""
    known = {target.name: (target.port,) for target in targets}
    return lambda name: known.get(name, otherwise)
