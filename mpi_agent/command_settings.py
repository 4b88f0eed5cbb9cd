"""The typed values that each command takes from the table of settings."""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.errors import SettingsError
from mpi_agent.given import Given
from mpi_agent.settings import Backend

__all__ = ["LaunchSettings", "LocalSettings", "WorkerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """What `launch` and `plan` were told; None means: find out.

    Attributes:
        timeout_s: limit of the wait, None for none.
    """

    hosts: str | None
    hostfile: str | None
    workers: int | None
    slots: int | None
    np: int | None
    timeout_s: float | None
    parallel: int
    grace_s: float
    mpi: str
    env: tuple[str, ...]
    no_env: tuple[str, ...]
    allow_idle_hosts: bool
    strict: bool
    ssh: Backend
    ssh_port: int | None
    ssh_key: str | None
    ssh_user: str | None
    insecure_host_keys: bool
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> LaunchSettings:
        """Return the typed values.

        Raises:
            SettingsError: a value cannot be understood, or two contradict each other.
        """
        if given.text("hosts") and given.text("hostfile"):
            raise SettingsError(
                "cannot take the hosts from two places: hosts and hostfile are both given",
                hint="give --hosts or --hostfile, not both",
            )
        return cls(
            hosts=given.text("hosts"),
            hostfile=given.text("hostfile"),
            workers=given.count("workers"),
            slots=given.count("slots"),
            np=given.count("np"),
            timeout_s=given.duration_s("timeout") or None,
            parallel=given.count("parallel") or 1,
            grace_s=given.duration_s("grace"),
            mpi=given.text("mpi") or "auto",
            env=given.names("env"),
            no_env=given.names("no-env"),
            allow_idle_hosts=given.switch("allow-idle-hosts"),
            strict=given.switch("strict"),
            ssh=given.backend("ssh"),
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            ssh_user=given.text("ssh-user"),
            insecure_host_keys=given.switch("insecure-host-keys"),
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What `worker` was told; None means: find out."""

    ssh_port: int | None
    ssh_key: str | None
    sshd: Backend
    listen_address: str | None
    worker_name: str | None
    ready_file: str | None
    grace_s: float
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> WorkerSettings:
        """Return the typed values; raises SettingsError like `LaunchSettings.from_given`."""
        return cls(
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            sshd=given.backend("sshd"),
            listen_address=given.text("listen-address"),
            worker_name=given.text("worker-name"),
            ready_file=given.text("ready-file"),
            grace_s=given.duration_s("grace"),
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What `local` was told; None means: find out."""

    workers: int
    slots: int
    np: int | None
    timeout_s: float | None
    parallel: int
    grace_s: float
    mpi: str
    env: tuple[str, ...]
    no_env: tuple[str, ...]
    allow_idle_hosts: bool
    strict: bool
    ssh: Backend
    sshd: Backend
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> LocalSettings:
        """Return the typed values; raises SettingsError like `LaunchSettings.from_given`."""
        return cls(
            workers=given.count("workers") or 1,
            slots=given.count("slots") or 1,
            np=given.count("np"),
            timeout_s=given.duration_s("timeout") or None,
            parallel=given.count("parallel") or 1,
            grace_s=given.duration_s("grace"),
            mpi=given.text("mpi") or "auto",
            env=given.names("env"),
            no_env=given.names("no-env"),
            allow_idle_hosts=given.switch("allow-idle-hosts"),
            strict=given.switch("strict"),
            ssh=given.backend("ssh"),
            sshd=given.backend("sshd"),
            state_dir=given.text("state-dir"),
        )
