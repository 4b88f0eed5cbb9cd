"""Events as a wait for three workers would emit them, and a clock that stands still."""

from __future__ import annotations

import re
from dataclasses import replace

from mpi_agent.job.alarms import HostLoss
from mpi_agent.job.endings import Ending, ProcessExit, Verdict
from mpi_agent.job.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    HostAdvanced,
    HostsChanged,
    HostsDiscovered,
    HostsReady,
    Noted,
    ProbeEnded,
    ProgramEnded,
    ProgramStarted,
    RankFailed,
    RanksStalled,
    RanksStarted,
    RestartDecided,
    SignalReceived,
    WaitProgressed,
    WaitStarted,
    WorkerLost,
    WorkerReturned,
    WorkersSwept,
    WorkerSuspected,
)
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.output import Stream
from mpi_agent.job.readiness import HostReadiness, Obstacle, ProbeResult, ReadinessReport, Stage
from mpi_agent.job.symptoms import Finding, Kind, Symptom
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


def a_finding(
    name: str = "cuda-out-of-memory",
    *,
    cause: str = "CUDA ran out of memory",
    remedy: str = "lower the batch size",
    line: str = "RuntimeError: CUDA out of memory",
    line_number: int = 40,
    host: str = "",
    kind: Kind = Kind.CAUSE,
    is_past: bool = False,
) -> Finding:
    """Return what was found in the output; without a number, what the agent knows by itself."""
    symptom = Symptom(
        id=name,
        pattern=re.compile(re.escape(line)),
        stacks=("CUDA",),
        kind=kind,
        verdict=Verdict.PROGRAM_FAILED,
        cause=cause,
        remedy=remedy,
        source="invented",
    )
    return Finding(
        symptom=symptom,
        cause=cause,
        line=line if line_number else "",
        line_number=line_number,
        stream=Stream.STDERR,
        host=host,
        is_past=is_past,
    )


def a_loss(host: str = "pi-worker-2") -> HostLoss:
    """Return a worker that fell silent after a while."""
    why = "no answer on TCP since 12:01:07"
    return HostLoss(host=host, why=why, after_s=8040.0, noticed_after_s=14.25)


def a_loss_of_a_worker(*findings: Finding, attempt: int = 1) -> Ending:
    """Return the ending of an attempt that lost one."""
    ending = an_ending(Verdict.WORKERS_LOST, code=205)
    summary = "pi-worker-2 lost after 2 h 14 min: no answer on TCP since 12:01:07"
    return replace(
        ending,
        exit_code=201,
        summary=summary,
        findings=findings,
        losses=(a_loss(),),
        attempt=attempt,
    )


def a_sweep(*, left: int = 0, silent: tuple[str, ...] = (), ended: int = 4) -> WorkersSwept:
    """Return what was found on three workers after the end."""
    return WorkersSwept(
        hosts=3 - len(silent),
        silent=silent,
        ended=ended,
        killed=min(ended, 1),
        left=left,
        segments=2 if ended else 0,
        took_s=0.125,
        why="the program ended",
    )


ONE_OF_EACH: tuple[Event, ...] = (
    Noted(text="the wait has no limit"),
    HostsDiscovered(hosts=some_hosts()),
    HostsChanged(hosts=some_hosts(), added=("pi-worker-2",), removed=()),
    AttemptEnded(ending=a_loss_of_a_worker(a_finding())),
    RestartDecided(restarts=True, delay_s=2.0, reason="workers were lost; 2 restarts are left"),
    WaitStarted(names=NAMES, timeout_s=600.0),
    ProbeEnded(result=a_result(), report=a_report()),
    HostAdvanced(host=a_missing_host("pi-worker-2")),
    WaitProgressed(report=a_report(), line="1 of 3 hosts ready"),
    HostsReady(report=a_report(ready=3)),
    ProgramStarted(argv=("mpirun", "-np", "6", "./pi x"), pid=42, np=6, host_count=3),
    SignalReceived(name="SIGTERM", action="passed on to mpirun"),
    AttemptBegan(number=2, max_restarts=3, run_id="0f.1e.2d.2"),
    RanksStarted(host_count=3, after_s=1.25),
    RankFailed(host="pi-worker-1", rank=3, how="signal 11 (SIGSEGV)"),
    RanksStalled(why="all 6 ranks are idle", silent_s=600.0, ends_program=True),
    WorkerSuspected(host="pi-worker-2", why="no answer on TCP since 12:01:07"),
    WorkerReturned(host="pi-worker-2", silent_s=6.5),
    WorkerLost(loss=a_loss()),
    a_sweep(left=1),
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
