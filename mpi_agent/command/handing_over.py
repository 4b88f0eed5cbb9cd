"""What a launcher must not find in its environment because it hands all of it to every rank.

horovodrun does: with MPI by name, with Gloo on the command lines of its ssh, values and all.

Source: horovod 0.28, runner/common/util/env.py (only BASH_FUNC_*, OLDPWD and CUDA_VISIBLE_DEVICES
stay), runner/gloo_run.py and runner/mpi_run.py; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpi_agent.command.launcher_words import launcher_name, own_words
from mpi_agent.command.plan import LaunchRequest, RemovedVariable
from mpi_agent.environment import is_secret
from mpi_agent.job.hosts import HostList
from mpi_agent.variable_names import DEVICE_PATTERNS, POD_PATTERNS, matches_any

__all__ = ["kept_back", "secrets_on_lines"]

_HANDS_ALL_OVER = "horovodrun"
_BY_NAME = "--mpi"
_OF_ONE_POD = (*POD_PATTERNS, "KUBERNETES_*")


def kept_back(request: LaunchRequest, hosts: HostList) -> tuple[RemovedVariable, ...]:
    """Return what would reach the ranks and must not: what --no-env names, and what names this pod.

    A launcher that is a worker too keeps its list of devices, which ranks here need. A variable
    that merely looks like one of a Service stays: it is the same in all pods of a namespace.
    """
    if launcher_name(request.program) != _HANDS_ALL_OVER:
        return ()
    runs_ranks = len(hosts.remote) < len(hosts.hosts)
    patterns = _OF_ONE_POD if runs_ranks else (*_OF_ONE_POD, *DEVICE_PATTERNS)
    return tuple(_removed(request, patterns))


def _removed(request: LaunchRequest, patterns: tuple[str, ...]) -> Iterator[RemovedVariable]:
    travelling = set(request.environment.names)
    for name in sorted(request.environ):
        if request.environment.keeps_back(name):
            yield RemovedVariable(name=name, reason="kept back with --no-env")
        elif matches_any(name, patterns) and name not in travelling:
            yield RemovedVariable(name=name, reason="of this pod alone; it would reach every rank")


def secrets_on_lines(request: LaunchRequest) -> tuple[str, ...]:
    """Return a note about secrets whose values the launcher would write where all can read them."""
    if launcher_name(request.program) != _HANDS_ALL_OVER:
        return ()
    if _BY_NAME in own_words(request.program):
        return ()
    given = {name for name, _ in request.environment.extra}
    names = sorted(
        name
        for name in {*request.environ, *given}
        if is_secret(name) and not request.environment.keeps_back(name)
    )
    if not names:
        return ()
    return (
        f"horovodrun without MPI writes the values of {', '.join(names)} on its ssh command lines; "
        "keep them back with --no-env, or start the program with mpirun",
    )
