"""How this launcher gets onto the hosts of its job: client, key, account, host keys, ports.

The probes of the wait and every ssh that mpirun starts dial on the same terms, from files in one
private directory.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, replace
from pathlib import Path

from mpi_agent.command.plan import SshAccess
from mpi_agent.command_settings import JobSettings
from mpi_agent.container import own_account
from mpi_agent.errors import StateDirectoryError
from mpi_agent.job.events import EventSink, Noted
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.setting_words import Backend, KeyExchange
from mpi_agent.ssh.installed import (
    ImageConfiguration,
    apart_command,
    choose_client,
    client_command,
    client_program,
    image_configuration,
    programs_directory,
    put_mpirun_in_front,
    put_ssh_in_front,
    ssh_variables,
    write_client,
)
from mpi_agent.ssh.keys import JobKey, copy_job_key
from mpi_agent.ssh.trust import (
    SshTarget,
    SshTerms,
    cheap_key_exchanges,
    render_known_hosts,
    render_ssh_config,
)
from mpi_agent.state import StateDirectory, open_state_directory

__all__ = ["JobAccess", "LocalJob"]

_USUAL_PORTS = (2222, 22)
"""Tried in this order where neither the user nor the image's ssh configuration names one.

Source: 2222 is mpi-operator's and Trainer's, 22 Volcano's; orchestrators as of 2026-08.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """What `local` knows of a job that it made itself on this machine.

    Attributes:
        targets: every worker with its loopback address and port.
        key: the job's key, made for it.
        search_path: directories in front of PATH in which an MPI is looked for.
    """

    targets: tuple[SshTarget, ...]
    key: JobKey
    search_path: tuple[str, ...]


class JobAccess:
    """Keeps what one launcher needs to dial, in its private directory.

    Args:
        client: which ssh mpirun is to use.
        key_exchange: which key exchange that one is to prefer.
        local: the job that `local` made, None in a cluster.
        worker_timeout_s: silence after which a worker is lost, None for never.
    """

    def __init__(
        self,
        settings: JobSettings,
        *,
        emit: EventSink,
        client: Backend = Backend.AUTO,
        key_exchange: KeyExchange = KeyExchange.AUTO,
        local: LocalJob | None = None,
        worker_timeout_s: float | None = 15.0,
    ) -> None:
        self._settings = settings
        self._worker_timeout_s = worker_timeout_s
        self._emit = emit
        self._wanted_client = client
        self._key_exchange = key_exchange
        self._image = ImageConfiguration()
        self._own_options: dict[str, str] = {}
        self.local = local
        self.account = own_account()

    @functools.cached_property
    def state(self) -> StateDirectory:
        """The private directory.

        Raises:
            StateDirectoryError: there is none, or its path is one that mpirun cannot be given.
        """
        state = open_state_directory(self._settings.state_dir)
        if any(character.isspace() for character in str(state.path)):
            raise StateDirectoryError(
                f'cannot keep files for mpirun in "{state.path}": it splits at blanks',
                hint="name a directory without blanks with --state-dir",
            )
        return state

    @functools.cached_property
    def client(self) -> Backend:
        """The ssh client that mpirun will use; raises SettingsError where it is not installed."""
        return choose_client(self._wanted_client, self.account)

    @property
    def targets(self) -> tuple[SshTarget, ...]:
        """Hosts whose address and port are known beforehand."""
        return self.local.targets if self.local else ()

    async def ask_image(self, host: str) -> None:
        """Learn what the image's own ssh configuration says of the hosts, by one of them."""
        if self.client is Backend.OPENSSH:
            variables = ssh_variables(self.account, self.state)
            self._image = await asyncio.to_thread(image_configuration, host, variables)
        counts = self._settings.ssh_port is None and self.local is None
        if counts and self._image.port is not None:
            text = f"ssh port {self._image.port} is from the image's ssh configuration"
            self._emit(Noted(text=text))

    def heed(self, own_options: tuple[tuple[str, str], ...]) -> None:
        """Dial hosts as the user has mpirun's ssh dial them, where no setting says otherwise.

        Args:
            own_options: keywords of ssh_config with their values.
        """
        for keyword, value in own_options:
            self._own_options.setdefault(keyword.lower(), value)

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports to try on a host, most likely one first."""
        own = self._own_options.get("port", "")
        known = self._settings.ssh_port or (int(own) if own.isdigit() else self._image.port)
        return (known,) if known is not None else _USUAL_PORTS

    @property
    def terms(self) -> SshTerms:
        """The terms on which hosts are dialled."""
        return SshTerms(
            key_path=str(self.state.file("job_key")),
            known_hosts_path=str(self.state.file("known_hosts")),
            user=self._settings.ssh_user or self._own_options.get("user") or self.account.name,
            checks_host_keys=not self._settings.insecure_host_keys,
            worker_timeout_s=self._worker_timeout_s,
        )

    def write_credentials(self) -> None:
        """Put the job's key and the known hosts where the terms say.

        Raises:
            ClientKeyError: there is no key, or none that can be used.
        """
        key = self.local.key if self.local else self._copy_key()
        self.state.write("known_hosts", render_known_hosts(key.public))

    def _copy_key(self) -> JobKey:
        return copy_job_key(self._settings.ssh_key, self.account, self.state)

    def for_mpirun(
        self,
        hosts: tuple[HostReadiness, ...] = (),
        *,
        hosts_can_dial: bool = False,
    ) -> SshAccess:
        """Return how mpirun's ssh is told all this; nothing is written.

        Args:
            hosts: the hosts as the wait found them; empty before it, when a port is known only
                where a single one will be tried.
        """
        ports = {host.port for host in hosts if host.port is not None} or set(self.ports)
        directory = programs_directory(self.state)
        return SshAccess(
            config_path=self.config_path,
            agent=client_command(self.client, self.account, self.state),
            agent_program=client_program(self.client, self.account, self.state),
            apart=apart_command(self.state),
            hosts_can_dial=hosts_can_dial,
            key_path=self.terms.key_path,
            port=next(iter(ports)) if len(ports) == 1 else None,
            directory=str(directory) if directory is not None else None,
        )

    def write_programs(self, *, mpirun: str | None) -> None:
        """Write the programs that `for_mpirun` names: what dials, and what scripts find in PATH.

        Args:
            mpirun: the one that scripts are to find, None where there is none.
        """
        write_client(self.client, self.account, self.state)
        directory = programs_directory(self.state)
        if directory is None:
            return
        put_ssh_in_front(
            self.config_path,
            self.client,
            self.account,
            self.state,
            checks_host_keys=self.terms.checks_host_keys,
        )
        if mpirun is not None:
            put_mpirun_in_front(directory, mpirun)

    @property
    def config_path(self) -> str:
        """Where the configuration of mpirun's ssh is."""
        return str(self.state.file("ssh_config"))

    @property
    def marks_directory(self) -> Path:
        """Where each host that is dialled by the configuration leaves a mark."""
        return self.state.file("dialled")

    def write_ssh_config(
        self, hosts: tuple[HostReadiness, ...], own_options: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Write the configuration of mpirun's ssh, with the port on which each host answered.

        Args:
            own_options: keywords and values of the user's; they win.
        """
        pinned = {target.name: target.address for target in self.targets}
        targets = tuple(
            SshTarget(
                name=host.host, port=host.port or _USUAL_PORTS[0], address=pinned.get(host.host)
            )
            for host in hosts
        )
        terms = replace(
            self.terms,
            key_exchanges=self._preferred_key_exchanges(),
            own_config_path=self._own_config_path(),
            own_options=own_options,
            marks_directory=str(self.marks_directory),
        )
        self.state.write("ssh_config", render_ssh_config(terms, targets))

    def _own_config_path(self) -> str | None:
        home = self.account.home
        path = home / ".ssh/config" if home is not None else None
        return str(path) if path is not None and path.is_file() else None

    def _preferred_key_exchanges(self) -> tuple[str, ...]:
        if self._key_exchange is KeyExchange.DEFAULT:
            return ()
        return cheap_key_exchanges(self._image.key_exchanges)
