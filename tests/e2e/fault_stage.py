"""Three workers of one MPI on which one fault after another is brought about and measured.

Workers that a fault ended come back as Kubernetes brings them back: the same name in a new
container with a new address. Where something of a job was left, all workers are made anew, so that
no fault changes what the next one shows.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from mpi_agent.setting_words import Backend
from tests.e2e.confinement import Cell, PodUser, job_of
from tests.e2e.engine import Engine
from tests.e2e.faults import (
    LAUNCHER_GONE_S,
    STRAGGLER_GRACE_S,
    Fault,
    HostIs,
    Scene,
)
from tests.e2e.images import Images, Mpi
from tests.e2e.leftovers import count_left, wait_until_idle
from tests.e2e.mpi_jobs import MpiJob
from tests.e2e.operator_cluster import OperatorJob
from tests.e2e.pods import Pod
from tests.waiting import wait_until

__all__ = ["Seen", "Stage", "new_stage"]

_PROGRAMS = Path(__file__).parent / "programs"
_PYTHON = "/opt/user/bin/python"
_WORKERS, _SLOTS = 3, 2
_START_LIMIT_S = 60.0
_LEASE_OVER_S = LAUNCHER_GONE_S + 30.0
_SECOND_STEPS = 30
_LIMITS = ("--memory=400m", "--memory-swap=400m")
_ENDING = re.compile(r"\bmpi-agent: .*\bverdict=(\w+) code=")
_RESTARTS = re.compile(r"rank 0 computes on \S+ restarts=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one fault led to.

    Attributes:
        noticed_s: from the fault to the first line of the agent; None where it said nothing.
        ended_s: from the fault to the end of the launcher's container; None if it did not end.
        code: of the container.
        verdict: its name, as the agent's last line tells it; empty if it told none.
        sentence: first line of the termination message.
        left: processes of the job on the hosts in reach when the launcher had ended.
        left_on_victim: those on the faulty host, if it was out of reach then, once it was in reach
            or its lease was over.
        restarts: what the first rank of each launcher saw as MPI_AGENT_RESTART_COUNT.
        output: all that the launchers printed.
    """

    noticed_s: float | None
    ended_s: float | None
    code: int | None
    verdict: str
    sentence: str
    left: int
    left_on_victim: int
    restarts: tuple[str, ...]
    output: str


class Stage:
    """A job's workers, and one launcher after another."""

    def __init__(self, running: OperatorJob, orders: Path) -> None:
        self._running = running
        self._orders = orders
        self._workers: dict[str, Pod] = {}

    @property
    def victim(self) -> str:
        """Host name of the worker that faults happen on."""
        return self._running.worker_names[-1]

    def bring_about(self, fault: Fault, *, slack: float) -> Seen:
        """Run a job, bring a fault about, and return what was seen.

        Args:
            slack: how many times as long as promised it may take.
        """
        self._prepare()
        launchers: list[Pod] = []
        try:
            return self._perform(fault, launchers, slack)
        finally:
            for launcher in launchers:
                self._remove(launcher)
            self._recover(fault)

    def lose_launcher(self) -> float:
        """Lose a launcher with its machine, for good; return after what time the ranks were gone.

        No word of it reaches the workers: their connections neither end nor break.

        Raises:
            AssertionError: they were not, well after the workers' lease.
        """
        self._prepare()
        runs_before = {pod: _runs_in(pod) for pod in self._workers.values()}
        launcher = self._launch()
        try:
            self._wait_until_under_way(launcher, runs_before)
            began_s = time.monotonic()
            launcher.fall_silent()
            launcher.kill()
            wait_until_idle(*self._workers.values(), limit_s=_LEASE_OVER_S)
            return time.monotonic() - began_s
        finally:
            self._remove(launcher)

    def _prepare(self) -> None:
        for path in self._orders.iterdir():
            path.unlink()
        for hostname in self._running.worker_names:
            pod = self._workers.get(hostname)
            if pod is None or not pod.is_running():
                volume = f"--volume={self._orders}:/orders:ro"
                self._workers[hostname] = self._running.start_worker(hostname, volume)

    def _perform(self, fault: Fault, launchers: list[Pod], slack: float) -> Seen:
        runs_before = {pod: _runs_in(pod) for pod in self._workers.values()}
        launchers.append(self._launch(*fault.program, options=fault.options))
        self._wait_until_under_way(launchers[0], runs_before)
        victim = self._workers[self.victim]
        began_at = time.time()
        fault.inflict(Scene(launcher=launchers[0], victim=victim, orders=self._orders))
        if fault.comes_again:
            launchers.append(self._launch(f"steps={_SECOND_STEPS}", options=fault.options))
        limit_s = fault.promise_s * slack - (time.time() - began_at)
        code = _code_of(launchers[-1], limit_s)
        return self._look(fault, launchers, code, began_at)

    def _launch(self, *arguments: str, options: tuple[str, ...] = ()) -> Pod:
        program = (_PYTHON, "/programs/faulty.py", *arguments)
        return self._running.start_launcher(("mpi-agent", "launch", *options, "--", *program))

    def _wait_until_under_way(self, launcher: Pod, runs_before: dict[Pod, int]) -> None:
        def is_under_way() -> bool:
            return launcher.log().count(" computes on ") == _WORKERS * _SLOTS and all(
                _runs_in(pod) > runs for pod, runs in runs_before.items()
            )

        wait_until(
            "all ranks compute and all workers are watched",
            lambda: is_under_way() or not launcher.is_running(),
            limit_s=_START_LIMIT_S,
        )
        logs = (pod.log() for pod in (launcher, *self._workers.values()))
        assert launcher.is_running(), "\n".join(logs)

    def _look(self, fault: Fault, launchers: list[Pod], code: int | None, began_at: float) -> Seen:
        launcher = launchers[-1]
        has_ended = code is not None
        left = self._count_in_reach(fault)
        output = "".join(pod.log() for pod in launchers)
        endings = _ENDING.findall(output)
        message = self._running.ended(launcher).message if has_ended else ""
        return Seen(
            noticed_s=_first_word_after(launcher, began_at),
            ended_s=launcher.ended_at() - began_at if has_ended else None,
            code=code,
            verdict=endings[-1] if endings and has_ended else "",
            sentence=message.partition("\n")[0],
            left=left,
            left_on_victim=self._count_out_of_reach(fault),
            restarts=tuple(_RESTARTS.findall(output)),
            output=output,
        )

    def _count_in_reach(self, fault: Fault) -> int:
        return sum(
            count_left(pod)
            for hostname, pod in self._workers.items()
            if hostname != self.victim or fault.host is HostIs.IN_REACH
        )

    def _count_out_of_reach(self, fault: Fault) -> int:
        """Return what its lease leaves there; a host that is cut off stays cut off meanwhile."""
        if fault.host not in (HostIs.CUT_OFF, HostIs.FROZEN):
            return 0
        victim = self._workers[self.victim]
        if fault.host is HostIs.FROZEN:
            victim.unpause()
        with contextlib.suppress(AssertionError):
            wait_until_idle(victim, limit_s=_LEASE_OVER_S)
        return count_left(victim)

    def _recover(self, fault: Fault) -> None:
        """Leave workers on which nothing of the job is left."""
        victim = self._workers[self.victim]
        if victim.is_paused():
            victim.unpause()
        if not victim.is_running():
            self._remove(victim)
        elif fault.host is HostIs.CUT_OFF:
            victim.speak_again()
        if any(not pod.is_running() or count_left(pod) for pod in self._workers.values()):
            for pod in tuple(self._workers.values()):
                self._remove(pod)

    def _remove(self, pod: Pod) -> None:
        self._running.remove(pod)
        if self._workers.get(pod.hostname) is pod:
            del self._workers[pod.hostname]


@contextmanager
def new_stage(engine: Engine, images: Images, mpi: Mpi, directory: Path) -> Iterator[Stage]:
    """Provide a stage; its containers are gone afterwards."""
    orders = directory / f"orders-{mpi.value}"
    orders.mkdir(exist_ok=True)  # of a stage that is made again
    limits = _LIMITS if engine.keeps_limits else ()
    with OperatorJob(engine, _job(mpi, limits), images.pi(mpi), directory) as running:
        yield Stage(running, orders)


def _job(mpi: Mpi, options: tuple[str, ...]) -> MpiJob:
    return replace(
        job_of(
            Cell(user=PodUser.FIXED, ssh=Backend.OPENSSH, is_hardened=False),
            (),
            variables=(
                ("MPI_AGENT_LAUNCHER_GONE", f"{LAUNCHER_GONE_S:g}s"),
                ("MPI_AGENT_STRAGGLER_GRACE", f"{STRAGGLER_GRACE_S:g}s"),
            ),
            options=(f"--volume={_PROGRAMS}:/programs:ro", *options),
        ),
        implementation=mpi.implementation,
        workers=_WORKERS,
        slots=_SLOTS,
    )


def _code_of(launcher: Pod, limit_s: float) -> int | None:
    try:
        return launcher.wait(limit_s)
    except TimeoutError:
        return None


def _runs_in(pod: Pod) -> int:
    return pod.log().count("mpi-agent: a run began ")


def _first_word_after(launcher: Pod, moment: float) -> float | None:
    """Return how long after a moment the agent said something."""
    for line in launcher.log(timestamps=True).splitlines():
        stamp, _, text = line.partition(" ")
        if (
            "mpi-agent: " in text
            and (said_at := datetime.fromisoformat(stamp).timestamp()) > moment
        ):
            return said_at - moment
    return None
