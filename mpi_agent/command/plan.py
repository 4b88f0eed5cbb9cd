"""What is asked of a launch, and the plan that answers it: enough to print, run, compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpi_agent.environment import RankEnvironment

__all__ = ["Choice", "LaunchPlan", "LaunchRequest", "SshAccess"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """How mpirun reaches the hosts.

    Attributes:
        config_path: our ssh_config; its path has no blanks, because launchers split at them.
        agent: command used in place of `ssh`, None for OpenSSH's own.
    """

    config_path: str
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What the user asked for, before any dialect.

    Attributes:
        program: what stood behind `--`.
        environ: the launcher's environment.
        environment: what of it travels to the ranks.
        hostfile_path: where the rendered hostfile will be; its path has no blanks.
        ssh: None when every host is local.
        runs_as_root: mpirun must be told that this is meant.
        loopback_only: all hosts are on this machine, so that nothing need leave it.
        keeps_host_option: the hosts come from the line's own `-H`, which stays.
    """

    program: tuple[str, ...]
    environ: Mapping[str, str]
    environment: RankEnvironment
    hostfile_path: str
    ssh: SshAccess | None
    runs_as_root: bool
    np: int | None = None
    allows_idle_hosts: bool = False
    strict: bool = False
    loopback_only: bool = False
    keeps_host_option: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Words the agent adds to the command, and why."""

    words: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Complete: enough to print, to run, to compare.

    Attributes:
        executable: file that is executed; argv[0] may be a bare name on purpose, because Open
            MPI 4 called by an absolute path turns its prefix mode on.
        variables: set on top of the launcher's own environment, in order.
        removed_variables: taken out of it.
        choices: what the agent added to argv.
        notes: sentences the user should read.
        secret_names: variables whose values must not be shown.
        daemon: what is started on each host first: an absolute path, or a bare name that the
            login's PATH must find; None where that cannot be told.
    """

    executable: str
    argv: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    removed_variables: tuple[str, ...]
    hostfile_path: str
    hostfile_text: str
    np: int
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    secret_names: frozenset[str] = frozenset()
    daemon: str | None = None

    @property
    def shown_argv(self) -> tuple[str, ...]:
        """The argv for logs: a value that the user wrote behind -x is left out."""
        before = ("", *self.argv)
        return tuple(
            f"{word.partition('=')[0]}=..." if previous == "-x" and "=" in word else word
            for previous, word in zip(before, self.argv, strict=False)
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of the command."""
        kept = {n: v for n, v in environ.items() if n not in self.removed_variables}
        return {**kept, **dict(self.variables)}
