"""The typed values that each command takes from the table of settings; None means: find out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mpi_agent.errors import SettingsError
from mpi_agent.given import Given
from mpi_agent.setting_words import (
    Backend,
    Form,
    HostfileDialect,
    KeyExchange,
    PlanForm,
    Slots,
)
from mpi_agent.supervision_settings import OutputSettings, SupervisionSettings

__all__ = [
    "HostfileSettings",
    "HostsSettings",
    "JobSettings",
    "LaunchSettings",
    "LocalSettings",
    "PlanSettings",
    "RunSettings",
    "WaitSettings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Which hosts belong to the job, how to get onto them, and how long to wait for them.

    Attributes:
        timeout_s: limit of the wait, None for none.
        slots: of a host whose source gives no count; None to find a number without asking it.
    """

    mpi: str
    timeout_s: float | None
    parallel: int = 1
    state_dir: str | None = None
    hosts: str | None = None
    hostfile: str | None = None
    workers: int | None = None
    slots: int | Slots | None = None
    ssh_port: int | None = None
    ssh_key: str | None = None
    ssh_user: str | None = None
    insecure_host_keys: bool = False

    @classmethod
    def from_given(cls, given: Given) -> JobSettings:
        """Return the typed values; those of dialling only for a command that dials.

        Raises:
            SettingsError: a value cannot be understood, or two contradict each other.
        """
        if given.text("hosts") and given.text("hostfile"):
            raise SettingsError(
                "cannot take the hosts from two places: hosts and hostfile are both given",
                hint="give --hosts or --hostfile, not both",
            )
        job = cls(
            mpi=(given.text("mpi") or "auto").strip(),
            timeout_s=given.duration_s("timeout") or None,
            hosts=given.text("hosts"),
            hostfile=given.text("hostfile"),
            workers=given.count("workers"),
            slots=given.count_or("slots", Slots),
        )
        if not given.knows("ssh-key"):
            return job
        return replace(
            job,
            parallel=given.count("parallel") or 1,
            state_dir=given.text("state-dir"),
            ssh_port=given.port("ssh-port"),
            ssh_key=given.text("ssh-key"),
            ssh_user=given.text("ssh-user"),
            insecure_host_keys=given.switch("insecure-host-keys"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a program is to be run, in a cluster or on one machine."""

    np: int | None = None
    supervision: SupervisionSettings = field(default_factory=SupervisionSettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    env: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    env_prefixes: tuple[str, ...] = ()
    no_env: tuple[str, ...] = ()
    allow_idle_hosts: bool = False
    strict: bool = False
    port_range: tuple[int, int] | None = None
    no_defaults: bool = False
    ssh: Backend = Backend.AUTO
    ssh_kex: KeyExchange = KeyExchange.AUTO

    @classmethod
    def from_given(cls, given: Given) -> RunSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(
            np=given.count("np"),
            supervision=SupervisionSettings.from_given(given),
            output=OutputSettings.from_given(given),
            env=given.names("env"),
            env_files=given.names("env-file"),
            env_prefixes=given.names("env-prefix"),
            no_env=given.names("no-env"),
            allow_idle_hosts=given.switch("allow-idle-hosts"),
            strict=given.switch("strict"),
            port_range=given.port_range("port-range") if given.knows("port-range") else None,
            no_defaults=given.switch("no-defaults"),
            ssh=given.choice("ssh", Backend),
            ssh_kex=given.choice("ssh-kex", KeyExchange),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """What `launch` and `plan` were told.

    Attributes:
        becomes_mpirun: the agent is replaced by mpirun after the wait.
        http_port: None serves nothing.
    """

    job: JobSettings
    run: RunSettings
    becomes_mpirun: bool = False
    http_port: int | None = None

    @classmethod
    def from_given(cls, given: Given) -> LaunchSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(
            job=JobSettings.from_given(given),
            run=RunSettings.from_given(given),
            becomes_mpirun=given.switch("exec"),
            http_port=given.port("http-port"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What `plan` was told beyond what `launch` is.

    Attributes:
        shows_environment: a table of every variable stands in place of the plan.
    """

    launch: LaunchSettings
    output: PlanForm
    shows_environment: bool

    @classmethod
    def from_given(cls, given: Given) -> PlanSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        settings = cls(
            launch=LaunchSettings.from_given(given),
            output=given.choice("output", PlanForm),
            shows_environment=given.switch("environment"),
        )
        if settings.shows_environment and settings.output is PlanForm.SHELL:
            raise SettingsError(
                "cannot write the table of variables as a shell script: --environment and"
                " --output shell are both given",
                hint="leave one of them out",
            )
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsSettings:
    """What `hosts` was told."""

    job: JobSettings
    output: Form

    @classmethod
    def from_given(cls, given: Given) -> HostsSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(job=JobSettings.from_given(given), output=given.choice("output", Form))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostfileSettings:
    """What `hostfile` was told."""

    job: JobSettings
    dialect: HostfileDialect

    @classmethod
    def from_given(cls, given: Given) -> HostfileSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(
            job=JobSettings.from_given(given), dialect=given.choice("dialect", HostfileDialect)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSettings:
    """What `wait` was told.

    Attributes:
        min_workers: how many ready hosts are enough, None for all.
        http_port: None serves nothing.
    """

    job: JobSettings
    min_workers: int | None
    output: Form
    http_port: int | None

    @classmethod
    def from_given(cls, given: Given) -> WaitSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(
            job=JobSettings.from_given(given),
            min_workers=given.count("min-workers"),
            output=given.choice("output", Form),
            http_port=given.port("http-port"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What `local` was told.

    Attributes:
        timeout_s: limit of the wait, None for none.
    """

    run: RunSettings
    workers: int
    slots: int
    sshd: Backend
    mpi: str
    timeout_s: float | None
    parallel: int
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> LocalSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        return cls(
            run=RunSettings.from_given(given),
            workers=given.count("workers") or 1,
            slots=given.count("slots") or 1,
            sshd=given.choice("sshd", Backend),
            mpi=given.text("mpi") or "auto",
            timeout_s=given.duration_s("timeout") or None,
            parallel=given.count("parallel") or 1,
            state_dir=given.text("state-dir"),
        )
