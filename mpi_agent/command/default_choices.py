"""Sets every default that is needed here and that the user has not decided."""

from __future__ import annotations

from mpi_agent.command.choices import Choices
from mpi_agent.command.default_rows import Default, Situation
from mpi_agent.command.defaults import DEFAULTS
from mpi_agent.command.plan import LaunchRequest
from mpi_agent.job.hosts import HostList

__all__ = ["choose_defaults", "situation_of"]


def choose_defaults(choices: Choices, request: LaunchRequest, hosts: HostList) -> None:
    """Set every default that is needed here and that the user has not decided."""
    situation = situation_of(request, hosts)
    for row in DEFAULTS:
        value = row.value(situation) if choices.dialect.name in row.knobs else None
        if value is None or not (request.sets_defaults or row.is_needed):
            continue
        decided = (choices.said.by(topic) for topic in row.unless_said)
        if found := choices.said.decides(row.unless) or next(filter(None, decided), None):
            choices.kept.append(found)
        else:
            _turn_knobs_of(choices, row, value)


def _turn_knobs_of(choices: Choices, row: Default, value: str) -> None:
    for knob in row.knobs.get(choices.dialect.name, ()):
        if found := choices.said.by_knob(knob) or choices.said_in_the_end.by_knob(knob):
            choices.kept.append(found)
        else:
            choices.set(knob, value, row.reason)


def situation_of(request: LaunchRequest, hosts: HostList) -> Situation:
    """Return what decides which defaults are needed."""
    return Situation(
        remote_count=len(hosts.remote),
        dials_by_tree=request.ssh is not None and request.ssh.hosts_can_dial,
        loopback_only=request.loopback_only,
        ports=request.port_range,
        worker_timeout_s=request.worker_timeout_s,
        surroundings=request.surroundings,
    )
