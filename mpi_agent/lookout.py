"""Looks after a program that runs: whatever may be the reason to end it, put together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from mpi_agent.command.plan import LaunchPlan
from mpi_agent.command.topics import Family
from mpi_agent.command_settings import RunSettings
from mpi_agent.hosts_in_reach import HostsInReach
from mpi_agent.job.alarms import Alarm
from mpi_agent.job.events import EventSink
from mpi_agent.job.run_reports import HostPresence
from mpi_agent.ready_job import ReadyJob
from mpi_agent.run.alarms import first_alarm
from mpi_agent.run.dialled import DialledHosts
from mpi_agent.run.host_watch import NameLookup
from mpi_agent.run.idle_hosts import IdleHosts
from mpi_agent.run.lost_daemons import DAEMON_GRACE_S, daemon_lost
from mpi_agent.run.lost_hosts import LostHosts
from mpi_agent.run.missing_ranks import StartTerms, default_limit_s
from mpi_agent.run.stalls import stalled
from mpi_agent.run.starting import start_too_late
from mpi_agent.run.stragglers import rank_failed
from mpi_agent.run.streams import ProgramStreams

__all__ = ["Lookout", "Ranks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How the ranks of a program come and go.

    Attributes:
        family: of the MPI; None where none is known.
        are_of_program: the program starts them itself, when it likes.
        may_fail: the others may go on, and succeed, though some of them failed.
    """

    family: Family | None
    are_of_program: bool
    may_fail: bool


class Lookout:
    """Looks after one run.

    Args:
        look_up: finds where a host's name leads to now.
    """

    def __init__(
        self,
        ready: ReadyJob,
        plan: LaunchPlan,
        settings: RunSettings,
        *,
        hosts: HostsInReach,
        dialled: DialledHosts,
        streams: ProgramStreams,
        look_up: NameLookup,
        ranks: Ranks,
        emit: EventSink,
    ) -> None:
        self._ready = ready
        self._plan = plan
        self._supervision = settings.supervision
        self._may_idle = plan.np < ready.job.hosts.total_slots or settings.allow_idle_hosts
        self._hosts = hosts
        self._dialled = dialled
        self._streams = streams
        self._look_up = look_up
        self._ranks = ranks
        self._emit = emit
        self._idle = IdleHosts(hosts.agents.had_nothing, may_begin_late=ranks.are_of_program)

    async def alarm(self, *, is_stopped: Callable[[], bool]) -> Alarm:
        """Return why the program must not go on; it has been started just now.

        Args:
            is_stopped: whether somebody told us to stop.
        """
        agents, supervision = self._hosts.agents, self._supervision
        grace_s = None if self._ranks.may_fail else supervision.straggler_grace_s
        return await first_alarm(
            (
                self._lost_hosts(),
                daemon_lost(
                    lambda: () if is_stopped() else self._told_by_agents(),
                    grace_s=self._daemon_grace_s,
                ),
                self._dialled.not_dialled(),
                self._start_too_late(),
                rank_failed(lambda: agents.news, grace_s=grace_s),
                stalled(
                    lambda: self._streams.last_output_at_s,
                    self._hosts.all.measure,
                    hosts=self._ready.job.hosts.names,
                    timeout_s=supervision.stall_timeout_s,
                    action=supervision.stall_action,
                    emit=self._emit,
                ),
            ),
            emit=self._emit,
            is_stopped=is_stopped,
        )

    def _told_by_agents(self) -> tuple[HostPresence, ...]:
        """Return what agents tell now of the run.

        Once it was told to stop, ranks may outlive their daemons for the grace.
        """
        agents = self._hosts.agents
        told = ((agents.heard(host.host), host) for host in agents.presence)
        return tuple(host for heard, host in told if heard is not None and heard.is_open)

    @property
    def _daemon_grace_s(self) -> float | None:
        looks = self._supervision.worker_timeout_s is not None and not self._ranks.are_of_program
        return DAEMON_GRACE_S if looks else None

    def _lost_hosts(self) -> Coroutine[None, None, Alarm]:
        return LostHosts(
            self._ready.remote,
            worker_timeout_s=self._supervision.worker_timeout_s,
            emit=self._emit,
            heard=self._hosts.agents.heard,
            is_idle=self._idle.is_idle,
            look_up=self._look_up,
            gone=self._hosts.all.give_up,
        ).noticed()

    def _start_too_late(self) -> Coroutine[None, None, Alarm]:
        hosts, limit_s = self._ready.job.hosts, self._supervision.launch_timeout_s
        are_of_program = self._ranks.are_of_program
        if limit_s is None and not are_of_program:
            limit_s = default_limit_s(len(hosts.hosts))
        terms = StartTerms(
            hosts=hosts.names,
            np=self._plan.np,
            may_idle=self._may_idle,
            come_at_once=are_of_program or self._ranks.family is Family.OPEN_MPI,
        )
        return start_too_late(
            self._hosts.all,
            terms,
            limit_s=limit_s,
            emit=self._emit,
            started=self._idle.start_is_over,
        )
