"""What a row of the table of defaults consists of, and the situation that it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpi_agent.command.dialects.dialect import DialectName, Knob
from mpi_agent.command.plan import Surroundings
from mpi_agent.command.topics import Topic

__all__ = ["Default", "Situation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What decides whether a default is needed.

    Attributes:
        remote_count: hosts that are reached by ssh.
        dials_by_tree: daemons start further daemons.
        ports: first and last port that may be listened on, None for any.
        worker_timeout_s: silence after which a worker is lost, None for never.
    """

    remote_count: int
    dials_by_tree: bool
    loopback_only: bool
    ports: tuple[int, int] | None
    worker_timeout_s: float | None
    surroundings: Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """One row of the table.

    Attributes:
        value: what is set in a situation, None where nothing is needed.
        knobs: what has the effect, by dialect; all of them are set.
        unless: names of parameters with which a user has decided the same in another way.
        unless_said: topics about which he then has said something.
        is_needed: stays under `--no-defaults`, because a setting of ours asks for it or because
            nothing would start without it.
    """

    reason: str
    source: str
    value: Callable[[Situation], str | None]
    knobs: Mapping[DialectName, tuple[Knob, ...]]
    unless: tuple[str, ...] = ()
    unless_said: tuple[Topic, ...] = ()
    is_needed: bool = False
