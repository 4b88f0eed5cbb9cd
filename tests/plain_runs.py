"""An mpirun in a farm without any agent around it, by the command that the agent would build."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchRequest, SshAccess
from mpi_agent.command.stack import detect_stack
from mpi_agent.environment import rank_environment
from mpi_agent.job.hosts import Host, HostList, Role
from mpi_agent.run_id import RunId
from tests.farm import Farm
from tests.farm_launch import launcher_environ
from tests.stacks import MpiStack

__all__ = ["PlainRun", "a_run_id", "running_mpirun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """An mpirun that runs."""

    popen: subprocess.Popen[bytes]
    directory: Path

    @property
    def said(self) -> str:
        """What it and its ranks wrote."""
        return (self.directory / "output").read_text(errors="replace")


def a_run_id(*, container: str = "c-1", attempt: int = 1) -> RunId:
    """Return the id of a run of the farm's job."""
    return RunId.of_launcher(
        name="pi-launcher-x7k2p", container=container, launch="0123456789ab", attempt=attempt
    )


@contextlib.contextmanager
def running_mpirun(
    farm: Farm,
    mpi: MpiStack,
    run_id: RunId,
    *program: str,
    slots: int = 2,
) -> Iterator[PlainRun]:
    """Give an mpirun on the launcher of a farm, with `slots` ranks on each worker."""
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=farm.root))
    hosts = HostList(
        hosts=tuple(
            Host(name=worker.name, slots=slots, role=Role.WORKER, index=index)
            for index, worker in enumerate(farm.workers)
        ),
        source="the farm",
    )
    environ = launcher_environ()
    request = LaunchRequest(
        program=program,
        environ=environ,
        environment=rank_environment(environ, workers_run_agent=False),
        hostfile_path=str(directory / "hostfile"),
        ssh=SshAccess(config_path=str(farm.ssh_config)),
        runs_as_root=True,
    )
    plan = build_plan(request, hosts, detect_stack(str(mpi.mpirun), called_as=None, search_path=()))
    plan = plan.of_run(run_id)
    (directory / "hostfile").write_text(plan.hostfile_text)
    with (directory / "output").open("wb") as output:
        popen = subprocess.Popen(
            [*farm.launcher.enter, plan.executable, *plan.argv[1:]],
            env=plan.environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield PlainRun(popen=popen, directory=directory)
    finally:
        popen.kill()
        popen.wait()
