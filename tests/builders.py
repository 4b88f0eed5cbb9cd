"""Valid values with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping

from mpi_agent.command.plan import LaunchRequest, SshAccess
from mpi_agent.environment import RankEnvironment, rank_environment
from mpi_agent.job.endings import ProcessExit
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.job.readiness import Obstacle, ProbeResult, Stage
from mpi_agent.job.stacks import Implementation, MpiStack

OPEN_MPI_4_STACK = MpiStack(
    implementation=Implementation.OPEN_MPI, version=(4, 1, 4), mpirun="/usr/bin/mpirun"
)
OPEN_MPI_5_STACK = MpiStack(
    implementation=Implementation.OPEN_MPI, version=(5, 0, 7), mpirun="/usr/bin/mpirun"
)
MPICH_STACK = MpiStack(
    implementation=Implementation.MPICH, version=(4, 0, 2), mpirun="/usr/bin/mpiexec.hydra"
)
INTEL_STACK = MpiStack(
    implementation=Implementation.INTEL_MPI,
    version=(2021, 18, 1),
    mpirun="/opt/intel/bin/mpiexec.hydra",
)
STACKS = {
    "openmpi4": OPEN_MPI_4_STACK,
    "openmpi5": OPEN_MPI_5_STACK,
    "mpich": MPICH_STACK,
    "intel": INTEL_STACK,
}


def a_host(index: int = 0, *, slots: int = 1, is_local: bool = False) -> Host:
    """Return a worker as mpi-operator names it."""
    return Host(
        name=f"pi-worker-{index}.pi.default.svc",
        slots=slots,
        role=Role.WORKER,
        index=index,
        is_local=is_local,
    )


def a_host_list(count: int = 2, *, slots: int = 1) -> HostList:
    """Return a job of that many workers."""
    return HostList(
        hosts=tuple(a_host(index, slots=slots) for index in range(count)),
        source="/etc/mpi/hostfile",
    )


def a_rank_environment(environ: Mapping[str, str] | None = None) -> RankEnvironment:
    """Return what of an environment travels."""
    return rank_environment(environ or {})


def a_launch_request(
    *program: str,
    environ: Mapping[str, str] | None = None,
    np: int | None = None,
    runs_as_root: bool = False,
    allows_idle_hosts: bool = False,
    agent: str | None = None,
) -> LaunchRequest:
    """Return a request to run a program on hosts that need ssh."""
    return LaunchRequest(
        program=program or ("./pi",),
        environ=environ or {},
        environment=a_rank_environment(environ),
        hostfile_path="/run/mpi-agent/hostfile",
        ssh=SshAccess(
            config_path="/run/mpi-agent/ssh_config",
            agent=agent,
            apart="/bin/sh /run/mpi-agent/ssh_client",
        ),
        runs_as_root=runs_as_root,
        np=np,
        allows_idle_hosts=allows_idle_hosts,
    )


_STAGE_OF: dict[Obstacle | None, Stage] = {
    None: Stage.EQUIPPED,
    **dict.fromkeys((o for o in Obstacle if o.name.startswith("NAME_")), Stage.UNKNOWN),
    Obstacle.NOT_SSH: Stage.REACHABLE,
    Obstacle.BANNER_LATE: Stage.REACHABLE,
    Obstacle.CLOSED_EARLY: Stage.REACHABLE,
    Obstacle.TURNED_AWAY: Stage.REACHABLE,
    Obstacle.HOST_KEY_UNKNOWN: Stage.ANSWERING,
    Obstacle.KEY_REFUSED: Stage.ANSWERING,
    Obstacle.LOGIN_BROKEN: Stage.ANSWERING,
    Obstacle.SHELL_SILENT: Stage.AUTHENTICATED,
    Obstacle.SHELL_BROKEN: Stage.AUTHENTICATED,
    Obstacle.DAEMON_MISSING: Stage.AUTHENTICATED,
    Obstacle.DAEMON_DIFFERS: Stage.AUTHENTICATED,
    Obstacle.PROGRAM_DIFFERS: Stage.AUTHENTICATED,
    Obstacle.LAUNCHER_UNREACHABLE: Stage.AUTHENTICATED,
}
"""Where a host stands when it meets an obstacle; RESOLVED for the rest."""


def a_probe_result(
    host: str = "pi-worker-0",
    *,
    obstacle: Obstacle | None = Obstacle.NAME_UNKNOWN,
    stage: Stage | None = None,
    at_s: float = 0.0,
    rest_s: float = 0.0,
) -> ProbeResult:
    """Return one answer; passed exactly when there is no obstacle."""
    reached = _STAGE_OF.get(obstacle, Stage.RESOLVED)
    return ProbeResult(
        host=host,
        stage=reached if obstacle is None or stage is None else stage,
        obstacle=obstacle,
        detail="" if obstacle is None else obstacle.value,
        at_s=at_s,
        duration_s=0.01,
        rest_s=rest_s,
        address=f"address of {host}" if obstacle is None else None,
        port=2222 if obstacle is None else None,
        banner="SSH-2.0-OpenSSH_9.2p1 mpi-agent" if obstacle is None else "",
    )


def a_process_exit(
    *, code: int | None = 0, signal: int | None = None, duration_s: float = 1.5
) -> ProcessExit:
    """Return how an mpirun ended."""
    return ProcessExit(
        pid=42, code=code, signal=signal, started_at_s=10.0, ended_at_s=10.0 + duration_s
    )
