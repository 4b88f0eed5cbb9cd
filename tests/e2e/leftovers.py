"""Decides which processes of a pod are left of a program: its ranks, and what MPI starts for them.

Images here have a user's Python in /opt/user and the agent elsewhere, so no process of the agent is
one of them; a daemon is, though its command line names files of the agent's.
"""

from __future__ import annotations

import re
from functools import partial

from tests.e2e.pods import Pod
from tests.waiting import wait_until

__all__ = ["PROGRAM", "count_left", "has_a_program", "is_of_a_program", "wait_until_idle"]

PROGRAM = "/home/mpiuser/pi"
"""The C program of the images that run it."""

_IDLE_LIMIT_S = 30.0
_OF_A_PROGRAM = re.compile(
    r"\b(mpirun|mpiexec|orterun|prterun|orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy)\b"
    rf"|{PROGRAM}\b|/opt/user/|/programs/"
)


def is_of_a_program(command: str) -> bool:
    """Return whether a command line is a rank's, a launcher's, a daemon's, or their shell's."""
    return _OF_A_PROGRAM.search(command) is not None


def count_left(pod: Pod) -> int:
    """Return how many processes of a program are in the pod."""
    return sum(map(is_of_a_program, pod.commands()))


def has_a_program(pod: Pod) -> bool:
    """Return whether a rank, a daemon, or a process that a rank left behind is in the pod."""
    return count_left(pod) > 0


def wait_until_idle(*pods: Pod, limit_s: float = _IDLE_LIMIT_S) -> None:
    """Return once nothing of any program is left in the pods."""
    for pod in pods:
        wait_until(
            f"nothing of a program runs on {pod.hostname}",
            partial(_is_idle, pod),
            limit_s=limit_s,
        )


def _is_idle(pod: Pod) -> bool:
    return not has_a_program(pod)
