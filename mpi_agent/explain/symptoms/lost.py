"""Hosts that went away while the program ran, as launchers and ssh say it."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_SEE = "see `kubectl describe pod` and the events of its node: eviction, preemption, node failure"

ROWS = (
    row(
        "daemon-lost",
        "Remote daemon: {...} on node {host}",
        "Error: Downstream from host {host} exited abnormally",
        stacks="Open MPI 4, Open MPI 5, Intel MPI",
        is_last_word=True,
        kind=Kind.SIGN,
        verdict=Verdict.WORKERS_LOST,
        cause='mpirun lost its daemon on "{host}", with the host or the way to it',
        remedy=_SEE,
        source="Open MPI 4.1.4 and 5.0.11, Intel MPI 2021.19, measured 2026-11",
    ),
    row(
        "ssh-connection-closed",
        "Connection to {host} closed by remote host.",
        stacks="ssh",
        kind=Kind.SIGN,
        verdict=Verdict.WORKERS_LOST,
        cause='"{host}" ended the ssh session that carried mpirun\'s daemon',
        remedy=_SEE,
        source="OpenSSH 9.2, measured 2026-11 when a worker's container was killed",
    ),
    row(
        "ssh-host-silent",
        "Timeout, server {host} not responding.",
        stacks="ssh",
        kind=Kind.SIGN,
        verdict=Verdict.WORKERS_LOST,
        cause='"{host}" stopped answering while the program ran',
        remedy=_SEE,
        source="OpenSSH 9.2 with ServerAliveInterval, measured 2026-11",
    ),
)
