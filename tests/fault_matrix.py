"""The harness of the fault matrix: one real wait, what came of it, and that it left nothing.

Every wait goes through the real gate, the real probe and real sockets. Whatever the fault, it must
leave no task and no open socket: that is asserted here, for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mpi_agent.errors import ReadinessError
from mpi_agent.job.events import Event, ProbeEnded
from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult, ReadinessReport, Stage
from mpi_agent.ssh.trust import SshTarget, SshTerms
from mpi_agent.wait.dial import pinned_or_resolved, ports_by_host
from mpi_agent.wait.gate import Gate, Probe
from mpi_agent.wait.probe import HostProbe, Knock, Login, Names
from mpi_agent.wait.remedies import Surroundings
from mpi_agent.wait.report import readiness_error
from mpi_agent.wait.ssh import LoginProbe
from mpi_agent.wait.tcp import knock
from tests.workers import JobKeys, write_ssh_config

__all__ = [
    "SLACK_S",
    "Clock",
    "Cure",
    "Fault",
    "Waited",
    "assert_healed",
    "assert_told",
    "hurried",
    "open_sockets",
    "probe_of",
    "terms_of",
    "wait_for",
]

SLACK_S = 2.0
"""ten times the 200 ms within which the launcher acts on news; the machine may be busy"""

_CLOSED_LIMIT_S = 3.0
_PAUSE_S = 0.01

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a fault is told as.

    Attributes:
        says: part of the sentence about the host.
        code: what the agent exits with.
    """

    stage: Stage
    obstacle: Obstacle
    says: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """What heals a fault, once the wait has met it.

    Attributes:
        how: may take its time; the fault counts as healed when it returns.
        after: how many probes meet the obstacle first.
    """

    of: Obstacle
    how: Callable[[], object]
    after: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """One wait that is over.

    Attributes:
        took_s: real time, whatever clock the gate had.
        late_s: time from the cure to the end; None where nothing was healed.
        results: every answer, in the order in which they came.
    """

    report: ReadinessReport
    took_s: float
    late_s: float | None
    results: tuple[ProbeResult, ...] = field(repr=False)

    def host(self, name: str | None = None) -> HostReadiness:
        """Return where a host stood at the end; without a name that of the only one."""
        if name is None:
            (host,) = self.report.hosts
            return host
        return next(host for host in self.report.hosts if host.host == name)

    def detail(self, name: str | None = None) -> str:
        """Return the last sentence about a host."""
        failure = self.host(name).last_failure
        return failure.detail if failure else ""

    @property
    def met(self) -> tuple[Obstacle, ...]:
        """Obstacles that were met, each once, in order."""
        return tuple(dict.fromkeys(r.obstacle for r in self.results if r.obstacle is not None))

    @property
    def error(self) -> ReadinessError:
        """The error that the launcher would end with."""
        assert not self.report.is_ready
        return readiness_error(self.report, Surroundings())


def assert_told(
    waited: Waited,
    fault: Fault,
    *,
    after_s: float,
    within_s: float = SLACK_S,
    name: str | None = None,
) -> None:
    """Assert that a wait ended at its time, and that the fault is told as what it is.

    Args:
        after_s: when the wait should end: at its deadline, or when a grace is over.
        within_s: how much later it may end.
    """
    host, error = waited.host(name), waited.error
    print(f"told {waited.took_s:.2f} s after the start, due after {after_s:g} s: {error.summary}")
    assert (host.stage, host.obstacle) == (fault.stage, fault.obstacle), waited.detail(name)
    assert fault.says in waited.detail(name)
    assert fault.obstacle.value in error.summary
    assert any(fault.says in line for line in error.evidence), error.evidence
    assert error.exit_code == fault.code
    assert after_s <= waited.took_s < after_s + within_s


def assert_healed(waited: Waited, fault: Obstacle, *, within_s: float = SLACK_S) -> None:
    """Assert that a wait met a fault and ended well soon after it was healed."""
    assert waited.report.is_ready, [host.last_failure for host in waited.report.laggards]
    assert fault in waited.met
    assert waited.late_s is not None
    print(f"ready {1000 * waited.late_s:.0f} ms after the cure, {waited.took_s:.2f} s in all")
    assert waited.late_s < within_s


def hurried(factor: float) -> Clock:
    """Return a clock that runs so many times as fast, for graces that nobody wants to wait for."""
    return lambda: time.monotonic() * factor


def terms_of(keys: JobKeys, root: Path, *, user: str | None = None) -> SshTerms:
    """Return the terms on which this job's launcher dials."""
    config = write_ssh_config(keys, root, ())
    return SshTerms(
        key_path=str(config.with_name("job_key")),
        known_hosts_path=str(config.with_name("known_hosts")),
        user=user or getpass.getuser(),
        checks_host_keys=True,
    )


def probe_of(
    login: Login | SshTerms,
    *targets: SshTarget,
    names: Names | None = None,
    knock: Knock = knock,
    speaks_ipv6: Callable[[], Awaitable[bool]] | None = None,
    now_s: Clock = time.monotonic,
) -> HostProbe:
    """Return the launcher's own probe of these hosts.

    Args:
        login: terms stand for a login without questions about the equipment.
        names: None to take the addresses of the targets.
    """
    return HostProbe(
        names=names or pinned_or_resolved(targets),
        login=LoginProbe(login) if isinstance(login, SshTerms) else login,
        ports_of=ports_by_host(targets, ()),
        now_s=now_s,
        knock=knock,
        speaks_ipv6=speaks_ipv6,
    )


def wait_for(
    probe: Probe,
    *names: str,
    timeout_s: float,
    parallel: int = 128,
    cure: Cure | None = None,
    now_s: Clock = time.monotonic,
) -> Waited:
    """Wait as a launcher does; assert that no task and no socket is left.

    Args:
        now_s: also the probe's clock; `timeout_s` is measured by it.
    """

    async def wait() -> Waited:
        healer, sockets = _Healer(cure), open_sockets()
        gate = Gate(
            probe=probe,
            now_s=now_s,
            emit=healer,
            parallel=parallel,
            jitter=random.random,
            timeout_s=timeout_s,
        )
        started_at_s = time.monotonic()
        report = await gate.wait(names)
        ended_at_s = time.monotonic()
        healed_at_s = healer.end()
        await _assert_nothing_left(sockets)
        return Waited(
            report=report,
            took_s=ended_at_s - started_at_s,
            late_s=None if healed_at_s is None else ended_at_s - healed_at_s,
            results=tuple(healer.results),
        )

    return asyncio.run(wait())


class _Healer:
    """Keeps every answer, and applies the cure when enough of them were the fault."""

    def __init__(self, cure: Cure | None) -> None:
        self.results: list[ProbeResult] = []
        self._cure = cure
        self._met = 0
        self._healed_at_s: float | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        if not isinstance(event, ProbeEnded):
            return
        self.results.append(event.result)
        if self._cure is not None and event.result.obstacle is self._cure.of:
            self._met += 1
            if self._met == self._cure.after:
                self._thread = threading.Thread(target=self._heal, args=(self._cure.how,))
                self._thread.start()

    def _heal(self, how: Callable[[], object]) -> None:
        how()
        self._healed_at_s = time.monotonic()

    def end(self) -> float | None:
        """Return when the fault was healed, on the monotonic clock."""
        if self._thread is not None:
            self._thread.join()
        return self._healed_at_s


def open_sockets() -> int:
    """Return how many sockets this process has open."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.readlink(link).startswith("socket:")
    return count


async def _assert_nothing_left(sockets: int) -> None:
    """Servers of the test live in this process: their ends of connections go a moment later."""
    assert len(asyncio.all_tasks()) == 1, f"tasks were left: {asyncio.all_tasks()}"
    deadline_s = time.monotonic() + _CLOSED_LIMIT_S
    while (left := open_sockets() - sockets) > 0:
        assert time.monotonic() < deadline_s, f"{left} sockets were left"
        await asyncio.sleep(_PAUSE_S)
