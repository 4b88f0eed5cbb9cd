"""Which MPI, which hosts, which ports: what a launch must know before it asks anybody."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.command.arguments import ProgramKind, kind_of_program, read_mpirun_line
from mpi_agent.command.stack import MpiStack, detect_stack
from mpi_agent.command_settings import LaunchSettings
from mpi_agent.container import own_addresses, own_names, pod_namespace
from mpi_agent.discover.mpi_operator import job_identity
from mpi_agent.discover.slots import DefaultSlots, OwnNames, default_slots, to_host_list
from mpi_agent.discover.sources import SourceRequest, discover_hosts
from mpi_agent.errors import MpirunNotFoundError, SettingsError
from mpi_agent.job.events import EventSink, HostsDiscovered, Noted
from mpi_agent.job.hosts import DiscoveredHosts, HostList
from mpi_agent.ssh.installed import configured_port

__all__ = ["USUAL_PORTS", "Job", "JobFinder"]

USUAL_PORTS = (2222, 22)
"""Tried in this order where neither the user nor the image's ssh configuration names one.

Source: 2222 is mpi-operator's and Trainer's, 22 Volcano's; orchestrators as of 2026-08.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job whose hosts are known, before any of them was asked.

    Attributes:
        stack: None for a program that starts its processes itself, where no mpirun is installed.
        ports: ssh ports to try; empty when no host needs ssh.
        keeps_host_option: the hosts come from the mpirun line's own `-H`, which stays.
    """

    hosts: HostList
    stack: MpiStack | None
    ports: tuple[int, ...]
    keeps_host_option: bool


class JobFinder:
    """Finds the job of one program.

    Args:
        search_path: directories in which an MPI is looked for before PATH.
    """

    def __init__(
        self,
        settings: LaunchSettings,
        program: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
        search_path: tuple[str, ...],
    ) -> None:
        self._settings = settings
        self._program = program
        self._environ = environ
        self._emit = emit
        self._search_path = search_path

    async def find(self) -> Job:
        """Return the job; nobody is dialled.

        Raises:
            DiscoveryError: no source of hosts, or one that cannot be understood.
            HostsNotReadyError: a discover script lists too few hosts until the time limit.
            LaunchError: no MPI that can be used.
            SettingsError: the hosts are named in two places.
        """
        kind = kind_of_program(self._program)
        line = read_mpirun_line(self._program) if kind is ProgramKind.MPIRUN_LINE else None
        called_as = line.called_as if line is not None else None
        stack = await asyncio.to_thread(self._detect_stack, kind, called_as)
        from_line = line.values_of("host") if line else ()
        files = line.values_of("hostfile") if line else ()
        if len(set(files)) > 1:
            raise SettingsError(
                "cannot take the hosts from two hostfiles: each application names its own",
                hint="put all hosts into one hostfile",
            )
        if self._settings.hosts and (from_line or files):
            raise SettingsError(
                "cannot take the hosts from two places: the mpirun line names them too",
                hint="leave -H and --hostfile out of the mpirun line",
            )
        request = SourceRequest(
            hosts=",".join(from_line) if from_line else self._settings.hosts,
            hosts_option=f"{called_as} --host" if from_line else "--hosts",
            hostfile=files[0] if files else self._settings.hostfile,
            expected=self._settings.workers,
            timeout_s=self._settings.run.timeout_s,
            role=self._environ.get("K_MPI_JOB_ROLE"),
        )
        names = own_names()
        discovery = await discover_hosts(request, job_identity(names[0], pod_namespace()))
        for note in discovery.hosts.notes:
            self._emit(Noted(text=note))
        own = OwnNames(host_name=names[0], names=names, addresses=own_addresses())
        hosts = to_host_list(
            discovery.hosts,
            slots=default_slots(None, {}) if from_line else self._default_slots(),
            own=own,
            numeric_order=discovery.numeric_order,
        )
        self._emit(HostsDiscovered(hosts=hosts))
        self._tell_oddities(discovery.hosts, hosts)
        ports = await asyncio.to_thread(self._choose_ports, hosts) if hosts.remote else ()
        return Job(
            hosts=hosts,
            stack=stack,
            ports=ports,
            keeps_host_option=bool(from_line),
        )

    def _default_slots(self) -> DefaultSlots:
        return default_slots(self._settings.slots, self._environ)

    def _tell_oddities(self, discovered: DiscoveredHosts, hosts: HostList) -> None:
        for host in hosts.hosts:
            if host.is_local:
                self._emit(Noted(text=f"{host.name} is this container itself; no ssh is needed"))
        if any(entry.account for entry in discovered.entries) and not self._settings.ssh_user:
            self._emit(Noted(text="accounts in the list of hosts are not used; see --ssh-user"))

    def _detect_stack(self, kind: ProgramKind, called_as: str | None) -> MpiStack | None:
        path = self._environ.get("PATH", "").split(":")
        own = str(Path(sys.executable).parent)
        directories = (*self._search_path, *path, own)
        try:
            return detect_stack(
                self._settings.run.mpi, called_as=called_as, search_path=directories
            )
        except MpirunNotFoundError:
            if kind is ProgramKind.OTHER_LAUNCHER and self._settings.run.mpi == "auto":
                return None
            raise

    def _choose_ports(self, hosts: HostList) -> tuple[int, ...]:
        if self._settings.ssh_port is not None:
            return (self._settings.ssh_port,)
        port = configured_port(hosts.remote[0].name)
        if port is not None:
            self._emit(Noted(text=f"ssh port {port} is from the image's ssh configuration"))
            return (port,)
        return USUAL_PORTS
