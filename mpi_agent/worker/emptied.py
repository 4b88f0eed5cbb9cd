"""Notices that the private directory was emptied under the worker, as cleaners of /tmp do.

An sshd reads its host key for each connection, so nobody can log in any more, and no file of the
job is where daemons look for it. What runs goes on; then the worker ends, to be started anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mpi_agent.errors import StateDirectoryError
from mpi_agent.worker.ranks import RanksHere
from mpi_agent.worker.readiness import Readiness

__all__ = ["end_when_emptied"]

_PACE_S = 5.0


async def end_when_emptied(
    needed: tuple[Path, ...], readiness: Readiness, ranks: RanksHere
) -> None:
    """Look until a needed file is gone, be not ready, wait until no rank is left.

    Raises:
        StateDirectoryError: always, then.
    """
    while not (gone := [path for path in needed if not path.exists()]):
        await asyncio.sleep(_PACE_S)
    error = StateDirectoryError(
        f'cannot serve: "{gone[0]}" was removed while the worker ran',
        hint="keep cleaners of temporary files away, or name another directory with --state-dir",
    )
    readiness.withdraw(error.summary)
    await ranks.until_gone()
    raise error
