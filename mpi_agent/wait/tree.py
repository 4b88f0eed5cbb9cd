"""Can one host start a daemon on another one, as launchers want that spawn in a tree.

Beyond 64 hosts mpirun lets daemons start daemons, with the launcher's own words for ssh. Where a
host cannot dial another one in that way the job hangs or ends without a reason, so it is tried
once, from one host to one other.

Source: Open MPI 4.1.4 and 5.0.11 at 200 hosts, 2026-11: "Can't open user config file" (4), code 255
without a word (5).
"""

from __future__ import annotations

import shlex

from mpi_agent.job.readiness import HostReadiness
from mpi_agent.ssh.trust import SshTerms
from mpi_agent.wait.ssh import run_errand

__all__ = ["TREE_LIMIT_S", "why_no_tree"]

TREE_LIMIT_S = 15.0


async def why_no_tree(
    terms: SshTerms,
    *,
    start: HostReadiness,
    to: str,
    config_path: str,
    client: str = "ssh",
    limit_s: float = TREE_LIMIT_S,
) -> str | None:
    """Return, in a sentence, why a host cannot dial another one; None when it can.

    Args:
        start: a host that is ready, which is to dial.
        to: the other one, by its name in the hostfile.
        config_path: of the ssh configuration, the same on both sides.
        client: the command that mpirun calls for ssh; it is split at blanks.
    """
    if start.address is None or start.port is None:
        return f'"{start.host}" was not reached yet'
    command = f"{client} -F {shlex.quote(config_path)} {shlex.quote(to)} true"
    errand = await run_errand(
        terms, start.host, start.address, start.port, command, limit_s=limit_s
    )
    if errand.code == 0:
        return None
    why = errand.said or f"{client.split()[0]} ended with code {errand.code}"
    return f'"{start.host}" cannot dial "{to}": {why}'
