"""Which MPI and which hosts: what must be known of a job before anybody is asked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_agent.command.arguments import MpirunLine, read_mpirun_line
from mpi_agent.command.dialects import family_of
from mpi_agent.command.program_kind import ProgramKind, kind_of_program
from mpi_agent.command.stack import detect_stack
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.variables import HOSTFILE_VARIABLES, is_users_own
from mpi_agent.command_settings import JobSettings
from mpi_agent.container import own_addresses, own_names, pod_namespace
from mpi_agent.discover.follow import Follower
from mpi_agent.discover.mpi_operator import JobIdentity, job_identity
from mpi_agent.discover.slots import DefaultSlots, OwnNames, default_slots, to_host_list
from mpi_agent.discover.sources import SourceRequest, discover_hosts
from mpi_agent.errors import (
    DiscoveryError,
    MpirunNotFoundError,
    SettingsError,
)
from mpi_agent.job.events import EventSink, HostsDiscovered, Noted
from mpi_agent.job.hosts import DiscoveredHosts, HostList, SlotsOrigin
from mpi_agent.job.stacks import Implementation, MpiStack
from mpi_agent.ssh.trust import host_key_alias, is_address

__all__ = ["Job", "JobFinder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job whose hosts are known, before any of them was asked.

    Attributes:
        stack: None where no mpirun is installed and the program does not need one.
        keeps_host_option: the hosts come from the mpirun line's own `-H`, which stays.
        left_out: hosts of the operator's list that the mpirun line does not name.
    """

    hosts: HostList
    stack: MpiStack | None
    keeps_host_option: bool
    left_out: tuple[str, ...] = ()

    @property
    def slots_are_auto(self) -> bool:
        """True while some hosts still have to tell how many slots they have."""
        return any(host.slots_from is SlotsOrigin.WANTED for host in self.hosts.hosts)


class JobFinder:
    """Finds the job of one program.

    Args:
        program: empty where only the hosts are asked for.
        search_path: directories in which an MPI is looked for before PATH.
    """

    def __init__(
        self,
        settings: JobSettings,
        program: tuple[str, ...],
        *,
        environ: Mapping[str, str],
        emit: EventSink,
        search_path: tuple[str, ...],
    ) -> None:
        self._settings = settings
        self._kind = kind_of_program(program) if program else None
        is_line = self._kind is ProgramKind.MPIRUN_LINE
        self._program = program if is_line else None
        self._line: MpirunLine | None = None
        self._environ = environ
        self._emit = emit
        self._search_path = search_path
        self._follower: Follower | None = None

    @property
    def follower(self) -> Follower | None:
        """What tells of other hosts later on; None before `find`, and where the list is fixed."""
        return self._follower

    async def find(self) -> Job:
        """Return the job; nobody is dialled.

        Raises:
            DiscoveryError: no source of hosts, or one that cannot be understood.
            HostsNotReadyError: a discover script lists too few hosts until the time limit.
            LaunchError: no MPI that can be used.
            SettingsError: the hosts are named in two places.
        """
        stack = await asyncio.to_thread(self._detect_stack)
        if self._program is not None:
            self._line = read_mpirun_line(self._program, family_of(stack))
        if stack is not None:
            self._emit(Noted(text=f'the MPI is {stack.title}, "{stack.mpirun}"'))
        names = own_names()
        identity = job_identity(names[0], pod_namespace())
        discovery = await discover_hosts(self._source_request(), identity)
        for note in discovery.hosts.notes:
            self._emit(Noted(text=note))
        convert = self._converter(names, numeric_order=discovery.numeric_order)
        hosts = convert(discovery.hosts)
        if discovery.reader is not None:
            self._follower = Follower(
                discovery.reader,
                hosts,
                to_host_list=convert,
                notes=discovery.hosts.notes,
                emit=self._emit,
            )
        self._emit(HostsDiscovered(hosts=hosts))
        self._tell_oddities(discovery.hosts, hosts)
        return Job(
            hosts=hosts,
            stack=stack,
            keeps_host_option=self._keeps_host_option(stack),
            left_out=await self._left_out_by_the_line(hosts, identity),
        )

    async def _left_out_by_the_line(
        self, hosts: HostList, identity: JobIdentity
    ) -> tuple[str, ...]:
        """Return hosts of the operator's list that a line with hosts of its own does not name."""
        if self._line is None or not self._line.has(Topic.HOSTS, Topic.HOSTFILE):
            return ()
        try:
            whole = await discover_hosts(
                SourceRequest(role=self._environ.get("K_MPI_JOB_ROLE")), identity
            )
        except DiscoveryError:
            return ()
        named = {host_key_alias(host.name) for host in hosts.hosts}
        entries = (entry.name for entry in whole.hosts.entries)
        return tuple(name for name in entries if host_key_alias(name) not in named)

    def _converter(
        self, names: tuple[str, ...], *, numeric_order: bool
    ) -> Callable[[DiscoveredHosts], HostList]:
        """Return what makes the job's hosts of a source's entries, now and at a later reading."""
        slots = self._slots_of_hosts_without()

        def convert(found: DiscoveredHosts) -> HostList:
            own = OwnNames(host_name=names[0], names=names, addresses=_addresses_to_know(found))
            return to_host_list(found, slots=slots, own=own, numeric_order=numeric_order)

        return convert

    def _slots_of_hosts_without(self) -> DefaultSlots:
        """Return the count for hosts without one.

        Open MPI's own `-H a` means one slot; Hydra's `-hosts a` as many as -ppn says.
        """
        if self._line is not None and self._hosts_on_line():
            counts = self._line.values_of(Topic.PER_HOST)
            per_host = int(counts[0]) if counts and counts[0].isdigit() else None
            return default_slots(per_host or None, {})
        return default_slots(self._settings.slots, self._environ)

    def _hostfile_variable(self) -> str | None:
        """Return the hostfile that the user, and not an operator, names for mpirun itself."""
        name = next((n for n in HOSTFILE_VARIABLES if is_users_own(n, self._environ)), None)
        if name is None or self._settings.hosts or self._hosts_on_line():
            return None
        self._emit(Noted(text=f"hosts are those of {name}"))
        return self._environ[name]

    def _keeps_host_option(self, stack: MpiStack | None) -> bool:
        """Return whether hosts of the line stay there: Open MPI's own, for Open MPI."""
        options = self._line.options_of(Topic.HOSTS) if self._line else ()
        is_open_mpi = stack is not None and stack.implementation is Implementation.OPEN_MPI
        return is_open_mpi and any(option.family is Family.OPEN_MPI for option in options)

    def _hosts_on_line(self) -> tuple[str, ...]:
        return self._line.values_of(Topic.HOSTS) if self._line else ()

    def _source_request(self) -> SourceRequest:
        on_line = self._hosts_on_line()
        files = self._line.values_of(Topic.HOSTFILE) if self._line else ()
        if len(set(files)) > 1:
            raise SettingsError(
                "cannot take the hosts from two hostfiles: each application names its own",
                hint="put all hosts into one hostfile",
            )
        if self._settings.hosts and (on_line or files):
            raise SettingsError(
                "cannot take the hosts from two places: the mpirun line names them too",
                hint="leave -H and --hostfile out of the mpirun line",
            )
        called_as = self._line.called_as if self._line else ""
        return SourceRequest(
            hosts=",".join(on_line) if on_line else self._settings.hosts,
            hosts_option=f"{called_as} --host" if on_line else "--hosts",
            hostfile=files[0] if files else self._settings.hostfile or self._hostfile_variable(),
            expected=self._settings.workers,
            timeout_s=self._settings.timeout_s,
            role=self._environ.get("K_MPI_JOB_ROLE"),
        )

    def _tell_oddities(self, discovered: DiscoveredHosts, hosts: HostList) -> None:
        for host in hosts.hosts:
            if host.is_local:
                self._emit(Noted(text=f"{host.name} is this container itself; no ssh is needed"))
        if any(entry.account for entry in discovered.entries) and not self._settings.ssh_user:
            self._emit(Noted(text="accounts in the list of hosts are not used; see --ssh-user"))

    def _detect_stack(self) -> MpiStack | None:
        path = self._environ.get("PATH", "").split(":")
        own = str(Path(sys.executable).parent)
        try:
            return detect_stack(
                self._settings.mpi,
                called_as=self._program[0] if self._program else None,
                search_path=(*self._search_path, *path, own),
            )
        except MpirunNotFoundError:
            can_do_without = self._kind in {ProgramKind.OTHER_LAUNCHER, None}
            if can_do_without and self._settings.mpi == "auto":
                return None
            raise


def _addresses_to_know(found: DiscoveredHosts) -> tuple[str, ...]:
    """Return our own addresses where a host is given by its address; else nobody needs them."""
    return own_addresses() if any(is_address(entry.name) for entry in found.entries) else ()
