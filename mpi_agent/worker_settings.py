"""The typed values that `worker` and `sidecar` take from the table of settings; None: find out."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from mpi_agent.errors import SettingsError
from mpi_agent.given import Given
from mpi_agent.setting_words import Backend, DrainSignal, ExitWithLauncher, LoginFiles

__all__ = ["SidecarSettings", "WorkerSettings"]

_FOR_EVER_S = 1e9
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What `worker` was told.

    Attributes:
        drain_signal: the signal's name without SIG.
        launcher_gone_s: how long ranks live on without their launcher, None for ever.
        http_port: None serves nothing.
    """

    ssh_port: int | None
    ssh_key: str | None
    sshd: Backend
    listen_address: str | None
    worker_name: str | None
    login_files: LoginFiles
    drain_signal: DrainSignal
    launcher_gone_s: float | None
    exit_with_launcher: ExitWithLauncher
    ready_file: str | None
    http_port: int | None
    grace_s: float
    state_dir: str | None

    @classmethod
    def from_given(cls, given: Given) -> WorkerSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        name = given.text("worker-name")
        if name is not None and not _HOST_NAME.fullmatch(name):
            raise SettingsError(
                f"cannot be called {name!r}: that is no name of a host",
                hint="give --worker-name the pod's host name, or leave it out",
            )
        ssh_port, http_port = given.port("ssh-port"), given.port("http-port")
        _refuse_one_port_twice(ssh_port, http_port)
        address = _address(given, "listen-address")
        return cls(
            ssh_port=ssh_port,
            ssh_key=given.text("ssh-key"),
            sshd=given.choice("sshd", Backend),
            listen_address=address,
            worker_name=name,
            login_files=given.choice("login-files", LoginFiles),
            drain_signal=given.choice("drain-signal", DrainSignal),
            launcher_gone_s=min(given.duration_s("launcher-gone"), _FOR_EVER_S) or None,
            exit_with_launcher=given.choice("exit-with-launcher", ExitWithLauncher),
            ready_file=given.text("ready-file"),
            http_port=http_port,
            grace_s=min(given.duration_s("grace"), _FOR_EVER_S),
            state_dir=given.text("state-dir"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSettings:
    """What `sidecar` was told."""

    ssh_address: str
    ssh_port: int | None
    http_port: int

    @classmethod
    def from_given(cls, given: Given) -> SidecarSettings:
        """Return the typed values; raises SettingsError like `JobSettings.from_given`."""
        ssh_port, http_port = given.port("ssh-port"), given.port("http-port") or 9390
        _refuse_one_port_twice(ssh_port, http_port)
        address = _address(given, "ssh-address") or "127.0.0.1"
        return cls(ssh_address=address, ssh_port=ssh_port, http_port=http_port)


def _address(given: Given, name: str) -> str | None:
    text = given.text(name)
    if not text:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise SettingsError(
            f"cannot use --{name} {text!r}: it is no address",
            hint="give an IPv4 or IPv6 address without a port, such as 127.0.0.1",
        ) from error


def _refuse_one_port_twice(ssh_port: int | None, http_port: int | None) -> None:
    if ssh_port is not None and ssh_port == http_port:
        raise SettingsError(
            f"cannot use port {ssh_port} twice: --ssh-port and --http-port are the same",
            hint="give one of them another port",
        )
