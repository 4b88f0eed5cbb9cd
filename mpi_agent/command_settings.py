"""The typed values that each command takes from the table of settings; None means: find out."""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.errors import SettingsError
from mpi_agent.given import Given
from mpi_agent.settings import Backend

__all__ = ["LaunchSettings", "LocalSettings", "RunSettings", "WorkerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a program is to be run, in a cluster or on one machine.

    Attributes:
        timeout_s: limit of the wait, None for none.
    """

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
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> RunSettings:
        """Return the typed values.

        Raises:
            SettingsError: a value cannot be understood.
        """
        return cls(
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
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """What `launch` and `plan` were told."""

    run: RunSettings
    hosts: str | None = None
    hostfile: str | None = None
    workers: int | None = None
    slots: int | None = None
    ssh_port: int | None = None
    ssh_key: str | None = None
    ssh_user: str | None = None
    insecure_host_keys: bool = False

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
            run=RunSettings.from_given(given),
            hosts=given.text("hosts"),
            hostfile=given.text("hostfile"),
            workers=given.count("workers"),
            slots=given.count("slots"),
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            ssh_user=given.text("ssh-user"),
            insecure_host_keys=given.switch("insecure-host-keys"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What `worker` was told."""

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
        """Return the typed values; raises SettingsError like `RunSettings.from_given`."""
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
    """What `local` was told."""

    run: RunSettings
    workers: int
    slots: int
    sshd: Backend

    @classmethod
    def from_given(cls, given: Given) -> LocalSettings:
        """Return the typed values; raises SettingsError like `RunSettings.from_given`."""
        return cls(
            run=RunSettings.from_given(given),
            workers=given.count("workers") or 1,
            slots=given.count("slots") or 1,
            sshd=given.backend("sshd"),
        )
