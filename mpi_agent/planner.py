"""The plan of one program for a job, and what it means that each host must have."""

from __future__ import annotations

import functools
import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mpi_agent.command.build import build_plan
from mpi_agent.command.dialects import family_of
from mpi_agent.command.network import shared_addresses
from mpi_agent.command.plan import LaunchPlan, LaunchRequest
from mpi_agent.command.program_kind import (
    ProgramKind,
    kind_of_program,
    moves_before_it_runs,
    program_word,
)
from mpi_agent.command.room import compare
from mpi_agent.command.topics import Family
from mpi_agent.command_settings import RunSettings
from mpi_agent.env_file import FileVariable, parse_env_file
from mpi_agent.environment import RankEnvironment, VariableError, rank_environment
from mpi_agent.errors import HostsUnusedError, SettingsError
from mpi_agent.job.hosts import SlotsOrigin, fold_names
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.job_access import JobAccess
from mpi_agent.job_finder import Job
from mpi_agent.run.executable import sha256_of
from mpi_agent.surroundings import surroundings_of
from mpi_agent.wait.equipment import Equipment

__all__ = ["Planner"]

_ROOM_FOR_ANY = 1_000_000
_ENV_FILE_LIMIT_BYTES = 8 * 1024 * 1024
_ARGUMENTS_AT_MOST_BYTES = 6 * 1024 * 1024
_ARGUMENTS_AT_LEAST_BYTES = 128 * 1024


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

    def draft(self, job: Job) -> LaunchPlan:
        """Return the plan as far as it can be told before any host was asked.

        Raises:
            LaunchError, SettingsError: as `plan` does; a number of slots that hosts are still to
                tell is no reason.
        """
        if not job.slots_are_auto:
            return self.plan(job)
        roomy = tuple(
            replace(host, slots=_ROOM_FOR_ANY) if host.slots_from is SlotsOrigin.WANTED else host
            for host in job.hosts.hosts
        )
        hosts = replace(job.hosts, hosts=roomy)
        request = replace(self._request(job, ()), allows_idle_hosts=True, strict=False)
        return build_plan(request, hosts, job.stack)

    def plan(
        self,
        job: Job,
        hosts: tuple[HostReadiness, ...] = (),
        *,
        workers_run_agent: bool = True,
        hosts_can_dial: bool = False,
    ) -> LaunchPlan:
        """Return what is to run, and the files that it needs as text.

        Args:
            hosts: those that are reached by ssh, as far as they were asked or looked up.
            hosts_can_dial: they reach each other as the launcher reaches them.

        Raises:
            LaunchError: it cannot run, such as with more processes than slots.
            SettingsError: the program's line, or a variable for the ranks, makes no sense; or,
                under --strict, numbers contradict each other.
        """
        self._refuse_left_out(job)
        request = self._request(
            job, hosts, workers_run_agent=workers_run_agent, hosts_can_dial=hosts_can_dial
        )
        plan = build_plan(request, job.hosts, job.stack)
        facts = {host.host: host.facts for host in hosts if host.facts is not None}
        addresses = {host.host: host.address for host in hosts if host.address is not None}
        misfits = compare(job.hosts, facts, self._environ)
        if misfits and self._settings.strict:
            raise SettingsError(
                f"cannot go on under --strict: {misfits[0]}",
                hint="make the slots fit, or leave --strict out",
                evidence=misfits,
            )
        shared = () if self._access.local else shared_addresses(addresses)
        return replace(plan, notes=(*plan.notes, *misfits, *shared))

    def _request(
        self,
        job: Job,
        hosts: tuple[HostReadiness, ...],
        *,
        workers_run_agent: bool = True,
        hosts_can_dial: bool = False,
    ) -> LaunchRequest:
        access, settings = self._access, self._settings
        is_remote = bool(job.hosts.remote)
        return LaunchRequest(
            program=self._program,
            environ=self._environ,
            environment=self._rank_environment(workers_run_agent=workers_run_agent),
            hostfile_path=str(access.state.file("hostfile")),
            ssh=access.for_mpirun(hosts, hosts_can_dial=hosts_can_dial) if is_remote else None,
            runs_as_root=access.account.uid == 0,
            np=settings.np,
            allows_idle_hosts=settings.allow_idle_hosts,
            strict=settings.strict,
            loopback_only=access.local is not None,
            keeps_host_option=job.keeps_host_option,
            port_range=settings.port_range,
            sets_defaults=not settings.no_defaults,
            tags_output=settings.output.tags,
            splits_output=settings.output.log_dir is not None,
            worker_timeout_s=settings.supervision.worker_timeout_s,
            surroundings=surroundings_of(
                {host.host: host.address for host in hosts},
                {host.host: host.facts for host in hosts if host.facts is not None},
            ),
        )

    def _refuse_left_out(self, job: Job) -> None:
        """Refuse a line that names fewer hosts than the job has (promise P1)."""
        if not job.left_out or self._settings.allow_idle_hosts:
            return
        total = len(job.hosts.hosts) + len(job.left_out)
        raise HostsUnusedError(
            f"cannot run on all {total} hosts of the job: the mpirun line names "
            f"{len(job.hosts.hosts)} and leaves out {fold_names(job.left_out)}",
            hint="take -H and --hostfile off the line, or allow it with --allow-idle-hosts",
        )

    def equipment(self, job: Job, plan: LaunchPlan) -> Equipment | None:
        """Return what each host must have, None where what mpirun will call cannot be told."""
        if job.stack is None or plan.daemon is None:
            return None
        own_daemon = Path(job.stack.prefix) / "bin" / Path(plan.daemon).name
        return Equipment(
            stack=job.stack,
            daemon=plan.daemon,
            daemon_sha256=sha256_of(own_daemon),
            program=self._program_on_hosts(family_of(job.stack)),
            ssh_config=self._access.config_path,
        )

    def _program_on_hosts(self, family: Family | None) -> str | None:
        """Return the program as a login can find it, None where only mpirun knows."""
        is_told_elsewhere = kind_of_program(self._program) is ProgramKind.OTHER_LAUNCHER
        if is_told_elsewhere or moves_before_it_runs(self._program, family):
            return None
        word = program_word(self._program, family)
        return str(Path(word).absolute()) if "/" in word else word

    def _rank_environment(self, *, workers_run_agent: bool) -> RankEnvironment:
        try:
            return rank_environment(
                self._environ,
                wanted=self._settings.env,
                from_files=self._file_variables,
                prefixes=self._settings.env_prefixes,
                unwanted=self._settings.no_env,
                workers_run_agent=workers_run_agent,
                limit_bytes=_argument_limit_bytes(),
            )
        except VariableError as error:
            raise SettingsError(
                f"cannot pass a variable to the ranks: {error}", hint=error.hint
            ) from error

    @functools.cached_property
    def _file_variables(self) -> tuple[FileVariable, ...]:
        """What the env files say; read once, because one may be a pipe that a secret comes by."""
        paths = self._settings.env_files
        return tuple(variable for path in paths for variable in _read_env_file(path))


def _read_env_file(path: str) -> tuple[FileVariable, ...]:
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(_ENV_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise SettingsError(
            f'cannot read the env file "{path}": {error.strerror}',
            hint="check the path given with --env-file",
        ) from error
    if len(content) > _ENV_FILE_LIMIT_BYTES:
        raise SettingsError(
            f'cannot read the env file "{path}": it has more than {_ENV_FILE_LIMIT_BYTES} bytes',
            hint="name a file with lines of NAME=VALUE",
        )
    return parse_env_file(content.decode("utf-8", "surrogateescape"), path=path)


def _argument_limit_bytes() -> int:
    """Return what the kernel takes for arguments and environment of a program together.

    Source: execve(2), "Limits on size of arguments and environment": a quarter of the stack's
    limit, between 128 KiB and 6 MiB. sysconf tells less with musl, which knows no such limit.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    quarter = _ARGUMENTS_AT_MOST_BYTES if soft == resource.RLIM_INFINITY else soft // 4
    return min(max(quarter, _ARGUMENTS_AT_LEAST_BYTES), _ARGUMENTS_AT_MOST_BYTES)
