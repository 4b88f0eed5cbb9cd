"""The faults of the matrix: how each is brought about, and how the job must end then.

The ending is the same for all MPIs. The faulty host is the job's last worker, and the faulty rank
the first one on it. Limits are generous: a test allows ten times what is promised, since other
work shares the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from mpi_agent.job.endings import Verdict
from tests.e2e.engine import EngineError
from tests.e2e.pods import Pod

__all__ = [
    "FAULTS",
    "FAULTY_RANK",
    "LAUNCHER_GONE_S",
    "STRAGGLER_GRACE_S",
    "Fault",
    "HostIs",
    "Scene",
]

FAULTY_RANK = 4
LAUNCHER_GONE_S = 10.0
"""The lease in this matrix; what the workers are set to."""
STRAGGLER_GRACE_S = 5.0
_GRACE_S = 5.0
_WORKER_TIMEOUT_S = 15.0
_LONG_GRACE = "60s"
_SHORT_GRACE_S = 3.0  # what a second request leaves of it

_DAEMON = re.compile(r"^\S*\b(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy)\b")
_MPIRUN = re.compile(r"^\S*\b(mpirun|mpiexec|orterun|prterun)\S*( |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A job whose ranks all compute.

    Attributes:
        victim: the worker that faults happen on.
        orders: the directory in which ranks look for what they shall do.
    """

    launcher: Pod
    victim: Pod
    orders: Path

    def order(self, deed: str) -> None:
        """Let the faulty rank do something; it looks a hundred times a second."""
        beside = self.orders / "new"
        beside.write_text(deed)
        beside.rename(self.orders / f"rank-{FAULTY_RANK}")


Inflict = Callable[[Scene], None]


class HostIs(Enum):
    """What a fault makes of its host."""

    IN_REACH = auto()
    CUT_OFF = auto()
    FROZEN = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row of the matrix.

    Attributes:
        words: what the sentence must say; `HOST` in it is the faulty worker's name.
        promise_s: within what time the agent has ended, from the fault.
        program: arguments of the program.
        options: of `mpi-agent launch`.
        comes_again: the launcher is started again, and it is the second one whose end counts.
        needs_cgroups: the engine must be able to limit and to freeze containers.
    """

    name: str
    title: str
    inflict: Inflict
    verdict: Verdict
    code: int
    words: str
    promise_s: float
    program: tuple[str, ...] = ()
    options: tuple[str, ...] = (f"--grace={_GRACE_S:g}s",)
    comes_again: bool = False
    needs_cgroups: bool = False
    host: HostIs = HostIs.IN_REACH

    def __str__(self) -> str:
        return self.name


def _deed(deed: str) -> Inflict:
    return lambda scene: scene.order(deed)


def _kill_matching(pod: Pod, pattern: re.Pattern[str]) -> None:
    found = [pid for pid, command in pod.processes() if pattern.search(command)]
    assert found, f"no {pattern.pattern} in {pod.hostname}: {pod.processes()}"
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def _interrupt_twice(scene: Scene) -> None:
    scene.launcher.signal("INT")
    time.sleep(1.0)  # what a person needs between two presses
    with contextlib.suppress(EngineError):  # it may have ended at the first one
        scene.launcher.signal("INT")


_FAILS_S = 3.0
_LOST_S = _WORKER_TIMEOUT_S + _FAILS_S

FAULTS = (
    Fault(
        name="rank-exits-7",
        title="a rank exits with 7, without `MPI_Finalize`",
        inflict=_deed("exit-7"),
        verdict=Verdict.PROGRAM_FAILED,
        code=7,
        words=r"\b7\b",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
    ),
    Fault(
        name="rank-sigkill",
        title="SIGKILL of a rank",
        inflict=_deed("kill"),
        verdict=Verdict.PROGRAM_FAILED,
        code=137,
        words=r"SIGKILL|signal 9|killed",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
    ),
    Fault(
        name="rank-sigsegv",
        title="a rank reads address 0 (SIGSEGV)",
        inflict=_deed("segfault"),
        verdict=Verdict.PROGRAM_FAILED,
        code=139,
        words=r"SIGSEGV|signal 11|[Ss]egmentation",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
    ),
    Fault(
        name="mpi-abort-3",
        title="a rank calls `MPI_Abort(3)`",
        inflict=_deed("abort-3"),
        verdict=Verdict.PROGRAM_FAILED,
        code=3,
        words=r"\b3\b|MPI_Abort",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
    ),
    Fault(
        name="out-of-memory",
        title="a rank takes more memory than its container may have",
        inflict=_deed("take-all-memory"),
        verdict=Verdict.PROGRAM_FAILED,
        code=137,
        words=r"out of memory on HOST",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
        needs_cgroups=True,
    ),
    Fault(
        name="daemon-killed",
        title="SIGKILL of the MPI's daemons on a worker",
        inflict=lambda scene: _kill_matching(scene.victim, _DAEMON),
        verdict=Verdict.WORKERS_LOST,
        code=201,
        words=r"HOST",
        promise_s=_LOST_S,
    ),
    Fault(
        name="worker-paused",
        title="every process of a worker is frozen",
        inflict=lambda scene: scene.victim.pause(),
        verdict=Verdict.WORKERS_LOST,
        code=201,
        words=r"HOST.* lost|lost.* HOST",
        promise_s=_LOST_S,
        needs_cgroups=True,
        host=HostIs.FROZEN,
    ),
    Fault(
        name="network-cut",
        title="a worker's network drops everything, without a word",
        inflict=lambda scene: scene.victim.fall_silent(),
        verdict=Verdict.WORKERS_LOST,
        code=201,
        words=r"HOST.* lost|lost.* HOST",
        promise_s=_LOST_S,
        host=HostIs.CUT_OFF,
    ),
    Fault(
        name="worker-killed",
        title="a worker's container is killed",
        inflict=lambda scene: scene.victim.signal("KILL"),
        verdict=Verdict.WORKERS_LOST,
        code=201,
        words=r"HOST.* lost|lost.* HOST",
        promise_s=_LOST_S,
        host=HostIs.GONE,
    ),
    Fault(
        name="term",
        title="SIGTERM to the launcher, ranks die of it",
        inflict=lambda scene: scene.launcher.signal("TERM"),
        verdict=Verdict.STOPPED,
        code=143,
        words=r"[Ss]topped",
        promise_s=_FAILS_S,
    ),
    Fault(
        name="term-saving",
        title="SIGTERM to the launcher, ranks save their work and end with 0",
        inflict=lambda scene: scene.launcher.signal("TERM"),
        verdict=Verdict.SUCCEEDED,
        code=0,
        words=r"succeeded",
        promise_s=_FAILS_S,
        program=("saving",),
    ),
    Fault(
        name="term-deaf",
        title="SIGTERM to the launcher, ranks ignore it",
        inflict=lambda scene: scene.launcher.signal("TERM"),
        verdict=Verdict.STOPPED,
        code=143,
        words=r"[Ss]topped",
        promise_s=_GRACE_S + _FAILS_S,
        program=("deaf",),
    ),
    Fault(
        name="int-twice",
        title="SIGINT twice to the launcher, ranks ignore it",
        inflict=_interrupt_twice,
        verdict=Verdict.STOPPED,
        code=130,
        words=r"[Ss]topped",
        promise_s=1.0 + _SHORT_GRACE_S + _FAILS_S,
        program=("deaf",),
        options=(f"--grace={_LONG_GRACE}",),
    ),
    Fault(
        name="mpirun-sigkill",
        title="SIGKILL of mpirun",
        inflict=lambda scene: _kill_matching(scene.launcher, _MPIRUN),
        verdict=Verdict.PROGRAM_FAILED,
        code=137,
        words=r"mpirun|mpiexec|SIGKILL",
        promise_s=STRAGGLER_GRACE_S + _FAILS_S,
    ),
    Fault(
        name="launcher-restarted",
        title="the launcher's container is killed and started again",
        inflict=lambda scene: scene.launcher.kill(),
        verdict=Verdict.SUCCEEDED,
        code=0,
        words=r"succeeded",
        promise_s=15.0,
        comes_again=True,
    ),
)
