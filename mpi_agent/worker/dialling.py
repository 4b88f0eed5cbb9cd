"""How a worker dials the other workers: for daemons that are started by daemons, as in a tree.

mpirun hands the path of the launcher's ssh configuration on to the daemons that start further ones.
So a worker that has the job's key keeps files of the same names in its own private directory, which
has the same path wherever the containers allow it. The configuration names no hosts, for a worker
does not know them: every one listens where this one does, and its host key is checked by the name
that is dialled, which its certificate lists with all its leading parts.

Source: Open MPI 4.1.4 and 5.0.11 spawn in a tree beyond 64 hosts, with plm_rsh_args as given to the
launcher; measured 2026-11.
"""

from __future__ import annotations

from mpi_agent.ssh.keys import JobKey
from mpi_agent.ssh.trust import SshTerms, render_known_hosts, render_ssh_config
from mpi_agent.state import StateDirectory

__all__ = ["write_dialling_files"]


def write_dialling_files(job_key: JobKey, *, user: str, port: int, state: StateDirectory) -> None:
    """Write `known_hosts` and `ssh_config` beside the job's key.

    Args:
        port: on which this worker listens, and the others too.
    """
    known_hosts = state.write("known_hosts", render_known_hosts(job_key.public))
    terms = SshTerms(
        key_path=str(job_key.path),
        known_hosts_path=str(known_hosts),
        user=user,
        checks_host_keys=True,
        port=port,
    )
    state.write("ssh_config", render_ssh_config(terms, ()))
