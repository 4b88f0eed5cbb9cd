"""The launcher's own name, as other pods ask for it.

mpirun does not need it, but a rank on the launcher may be who all others look for (MASTER_ADDR).
The pod's own /etc/hosts always knows the name, so only the name servers' answer counts.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mpi_agent.wait.dns import NameResolver
from mpi_agent.wait.probe import Names

__all__ = ["OwnName"]

_PAUSE_S = 1.0


class OwnName:
    """Asks for one name until it is there."""

    def __init__(self, name: str, names: Names | None = None, *, pause_s: float = _PAUSE_S) -> None:
        self.name = name
        self._names = names or NameResolver(hosts_file=Path(os.devnull))
        self._pause_s = pause_s
        self._refusal = ""

    @property
    def refusal(self) -> str:
        """Why the name is not there; empty while that is unknown, and once it is."""
        return self._refusal

    async def until_known(self) -> None:
        """Return once the name resolves."""
        while (lookup := await self._names.look_up(self.name)).obstacle is not None:
            self._refusal = lookup.detail
            await asyncio.sleep(max(self._pause_s, lookup.rest_s))
        self._refusal = ""
