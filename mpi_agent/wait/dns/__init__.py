"""Does a host's name resolve, as mpirun's ssh will see it; and if not, which kind of "no" is it."""

from __future__ import annotations

from mpi_agent.wait.dns.lookup import Lookup
from mpi_agent.wait.dns.resolver import NameResolver

__all__ = ["Lookup", "NameResolver"]
