"""Events as a wait for three workers would emit them, and a clock that stands still."""

from __future__ import annotations

from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.events import (
    Event,
    HostAdvanced,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    Noted,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    SignalReceived,
    WaitProgressed,
    WaitStarted,
)
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult, ReadinessReport, Stage
from mpi_agent.job.worker_events import (
    LauncherGone,
    LoginAccepted,
    LoginRefused,
    MemoryExceeded,
    RanksEnded,
    RunBegan,
    RunOver,
    SshServerEnded,
    SshServerSpoke,
    WorkerDrained,
    WorkerDraining,
    WorkerEvicted,
    WorkerExceededMemory,
    WorkerNotReady,
    WorkerReady,
)

NAMES = ("pi-worker-0", "pi-worker-1", "pi-worker-2")


class StillClock:
    """A monotonic clock that moves when a test moves it."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def some_hosts(count: int = 3) -> HostList:
    """Return workers with two slots each."""
    return HostList(
        hosts=tuple(
            Host(name=f"pi-worker-{index}", slots=2, role=Role.WORKER, index=index)
            for index in range(count)
        ),
        source="/etc/mpi/hostfile",
    )


def a_result(
    host: str = "pi-worker-2",
    obstacle: Obstacle | None = Obstacle.PORT_REFUSED,
    *,
    stage: Stage = Stage.RESOLVED,
    detail: str = "10.0.0.7 port 2222: connection refused",
    steps: tuple[tuple[Stage, float], ...] = ((Stage.RESOLVED, 0.002), (Stage.REACHABLE, 0.2)),
) -> ProbeResult:
    """Return one answer; passed exactly when there is no obstacle."""
    return ProbeResult(
        host=host,
        stage=stage,
        obstacle=obstacle,
        detail="" if obstacle is None else detail,
        at_s=100.0,
        duration_s=0.2,
        steps=steps,
    )


def a_ready_host(name: str) -> HostReadiness:
    """Return a worker that let us in five seconds before the report."""
    return HostReadiness(
        host=name,
        stage=Stage.EQUIPPED,
        since_s=95.0,
        is_ready=True,
        attempts=4,
        address="10.0.0.5",
        port=2222,
        notes=("its MPI could not be asked",),
    )


def a_missing_host(name: str, result: ProbeResult | None = None) -> HostReadiness:
    """Return a worker whose name came at 90 s and whose port has refused us since 92 s."""
    return HostReadiness(
        host=name,
        stage=Stage.RESOLVED,
        since_s=90.0,
        attempts=7,
        last_failure=result or a_result(name),
        hindered_since_s=92.0,
    )


def a_report(*, ready: int = 1, timeout_s: float | None = 600.0) -> ReadinessReport:
    """Return where three workers stand 12 s after the beginning, at 100 s."""
    hosts = (
        a_ready_host(name) if index < ready else a_missing_host(name)
        for index, name in enumerate(NAMES)
    )
    return ReadinessReport(hosts=tuple(hosts), elapsed_s=12.0, timeout_s=timeout_s, at_s=100.0)


def an_ending(verdict: Verdict = Verdict.SUCCEEDED, *, code: int = 0) -> Ending:
    """Return how a program of 1.5 s ended."""
    exit_ = ProcessExit(pid=42, code=code, signal=None, started_at_s=10.0, ended_at_s=11.5)
    summary = f'"pi" ended with code {code}'
    return Ending(verdict=verdict, exit_code=code, process_exit=exit_, summary=summary)


ONE_OF_EACH: tuple[Event, ...] = (
    Noted(text="the wait has no limit"),
    HostsDiscovered(hosts=some_hosts()),
    HostsChanged(hosts=some_hosts(), added=("pi-worker-2",), removed=()),
    WaitStarted(names=NAMES, timeout_s=600.0),
    ProbeEnded(result=a_result(), report=a_report()),
    HostAdvanced(host=a_missing_host("pi-worker-2")),
    WaitProgressed(report=a_report(), line="1 of 3 hosts ready"),
    HostsReady(report=a_report(ready=3)),
    ProgramStarted(argv=("mpirun", "-np", "6", "./pi x"), pid=42, np=6, host_count=3),
    SignalReceived(name="SIGTERM", action="passed on to mpirun"),
    ProgramEnded(ending=an_ending()),
    WorkerReady(server="openssh", port=2222, user="mpiuser"),
    WorkerDraining(signal_name="SIGTERM", drain_signal_name="SIGUSR1", ranks=2, grace_s=25.0),
    WorkerNotReady(why="the ssh server is being restarted"),
    SshServerEnded(why="sshd was killed by SIGKILL", restart_in_s=0.5),
    SshServerSpoke(line="error: maximum authentication attempts exceeded"),
    LoginAccepted(user="mpiuser", peer="10.0.0.5", key_fingerprint="SHA256:abc"),
    LoginRefused(user="root", peer="10.0.0.7", why="its key is not known here"),
    RunBegan(run_id="r1", launcher="pi-launcher"),
    RunOver(run_id="r1", exit_code=3),
    LauncherGone(run_id="r1", launcher="pi-launcher", ends_in_s=60.0),
    RanksEnded(why="their launcher is gone", count=4, killed=1),
    MemoryExceeded(kills=1, used_bytes=34252000000, limit_bytes=32 << 30),
    WorkerDrained(took_s=3.25, killed=0),
    WorkerEvicted(host="pi-worker-3", signal_name="SIGTERM", grace_s=25.0),
    WorkerExceededMemory(host="pi-worker-3", kills=2, used_bytes=34252000000, limit_bytes=32 << 30),
)
