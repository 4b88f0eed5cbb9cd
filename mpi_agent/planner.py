"""The plan of one program for a job, and what it means that each host must have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mpi_agent.command.arguments import (
    ProgramKind,
    kind_of_program,
    moves_before_it_runs,
    program_word,
)
from mpi_agent.command.build import build_plan
from mpi_agent.command.plan import LaunchPlan, LaunchRequest
from mpi_agent.command_settings import RunSettings
from mpi_agent.environment import RankEnvironment, rank_environment
from mpi_agent.errors import SettingsError
from mpi_agent.job_access import JobAccess
from mpi_agent.job_finder import Job
from mpi_agent.run.executable import sha256_of
from mpi_agent.wait.equipment import Equipment

__all__ = ["Planner"]


class Planner:
    """Plans how one program runs.

    Args:
        program: what stands behind `--`, not empty.
    """

    def __init__(
        self,
        program: tuple[str, ...],
        settings: RunSettings,
        access: JobAccess,
        *,
        environ: Mapping[str, str],
    ) -> None:
        self._program = program
        self._settings = settings
        self._access = access
        self._environ = environ

    def plan(self, job: Job, *, workers_run_agent: bool = True) -> LaunchPlan:
        """Return what is to run, and the files that it needs as text.

        Raises:
            LaunchError: it cannot run, such as with more processes than slots.
            SettingsError: the program's line, or a variable for the ranks, makes no sense.
        """
        access = self._access
        request = LaunchRequest(
            program=self._program,
            environ=self._environ,
            environment=self._rank_environment(workers_run_agent=workers_run_agent),
            hostfile_path=str(access.state.file("hostfile")),
            ssh=access.for_mpirun() if job.hosts.remote else None,
            runs_as_root=access.account.uid == 0,
            np=self._settings.np,
            allows_idle_hosts=self._settings.allow_idle_hosts,
            strict=self._settings.strict,
            loopback_only=access.local is not None,
            keeps_host_option=job.keeps_host_option,
        )
        return build_plan(request, job.hosts, job.stack)

    def equipment(self, job: Job, plan: LaunchPlan) -> Equipment | None:
        """Return what each host must have, None where what mpirun will call cannot be told."""
        if job.stack is None or plan.daemon is None:
            return None
        own_daemon = Path(job.stack.prefix) / "bin" / Path(plan.daemon).name
        return Equipment(
            stack=job.stack,
            daemon=plan.daemon,
            daemon_sha256=sha256_of(own_daemon),
            program=self._program_on_hosts(),
        )

    def _program_on_hosts(self) -> str | None:
        """Return the program as a login can find it, None where only mpirun knows."""
        is_told_elsewhere = kind_of_program(self._program) is ProgramKind.OTHER_LAUNCHER
        if is_told_elsewhere or moves_before_it_runs(self._program):
            return None
        word = program_word(self._program)
        return str(Path(word).absolute()) if "/" in word else word

    def _rank_environment(self, *, workers_run_agent: bool) -> RankEnvironment:
        try:
            return rank_environment(
                self._environ,
                wanted=self._settings.env,
                unwanted=self._settings.no_env,
                workers_run_agent=workers_run_agent,
            )
        except ValueError as error:
            raise SettingsError(
                f"cannot pass a variable to the ranks: {error}",
                hint="write --env NAME for a variable that is set, or --env NAME=VALUE",
            ) from error
